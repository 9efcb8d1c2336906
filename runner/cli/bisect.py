"""`bisect`: which release breaks a case, and which heals it."""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.bisect import render_releases as telling
from repromatrix.runner.bisect.releases import (
    ReleaseRequest,
    ReleaseRuns,
    ReleaseSearches,
    Search,
    bring_to_end,
    current,
    failing_precisions,
    judged,
    searches,
    together,
)
from repromatrix.runner.bisect.render_releases import Page
from repromatrix.runner.bisect.search import Edge
from repromatrix.runner.cases import load_script
from repromatrix.runner.cli.bisect_commits import chosen, looked_at, portable, search_commits
from repromatrix.runner.cli.options import (
    AnyFailure,
    Areas,
    Format,
    OnDevice,
    OneWorkaround,
    Precisions,
    Releases,
    Rerun,
    Walls,
    command,
    told,
)
from repromatrix.runner.cli.output_formats import check_format
from repromatrix.runner.cli.sandbox_option import walled
from repromatrix.runner.cli.search_progress import SearchProgress
from repromatrix.runner.cli.stdout import say
from repromatrix.runner.cli.user_files import own_files
from repromatrix.runner.errors import ExitCode, OldFault, RunnerError, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import demand
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import (
    CASE,
    NONE,
    SelectionRequest,
    environments_of,
    select,
)
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class BisectOptions:
    """The options of `bisect`."""

    case: Annotated[
        Sequence[str], typer.Argument(help="Cases by name or glob, or your own script.")
    ] = ()
    area: Areas = ()
    release: Releases = ()
    precision: Precisions = ()
    workaround: OneWorkaround = ""
    device: OnDevice = Device.CPU
    format: Format = "text"
    repo: Annotated[
        Path | None, typer.Option("--repo", help="A clone of transformers, accelerate or peft.")
    ] = None
    good: Annotated[
        str, typer.Option("--good", help="A revision to use instead of the tag of the release.")
    ] = ""
    bad: Annotated[
        str, typer.Option("--bad", help="A revision to use instead of the tag of the release.")
    ] = ""
    commits: Annotated[
        bool, typer.Option("--commits", help="Go on to the commit, in the clone given by --repo.")
    ] = False
    fix: Annotated[bool, typer.Option("--fix", help="Find the release that fixes the case.")] = (
        False
    )
    every: Annotated[
        bool,
        typer.Option("--all", help="Ask every release, to find the first change of any history."),
    ] = False
    any_failure: AnyFailure = False
    rerun: Rerun = False
    evidence_only: Annotated[
        bool,
        typer.Option("--evidence-only", help="Answer from existing evidence, and run nothing."),
    ] = False
    ahead: Annotated[
        bool, typer.Option("--ahead", help="Build both possible next environments while one runs.")
    ] = False
    sandbox: Walls = None


@command("bisect")
def bisect(options: BisectOptions) -> ExitCode:
    """Find the release that breaks or fixes a case, from evidence and as few runs as possible."""
    gc.disable()
    return search(Paths(), options, told())


def search(places: Paths, options: BisectOptions, console: Console) -> ExitCode:
    """Answer from evidence, run what is missing, print it; return what it tells a script."""
    clone = chosen(
        options.repo, options.good, options.bad, commits=options.commits, rerun=options.rerun
    )
    check_format(options.format)
    if not options.evidence_only:
        demand(options.device)
    looked_at(clone)
    places, loaded = _load(places, options)
    every = tuple(_searches(loaded, options))
    asked = tuple(one for one in every if one.axis)
    if not asked:
        raise _nothing(every)
    asking = _asking(places, loaded, asked, options, console)
    _announce(asking, console)
    if not options.evidence_only and (asking.open() or clone):
        holds = walled(options.sandbox, lambda text: console.print(text, style="dim"))
        options = dataclasses.replace(options, sandbox=holds)
    finished = (
        options.evidence_only or not asking.open() or _run(places, loaded, asking, options, console)
    )
    findings = asking.findings()
    page = Page(findings=findings, command=portable(sys.argv[2:]), environments=loaded.environments)
    by_commit = clone if finished and not options.evidence_only else None
    if by_commit is None or options.format != "json":
        say(_told(page, options.format))
    if by_commit is not None:
        say("" if options.format == "json" else "\n")
        by_commit = dataclasses.replace(by_commit, sandbox=options.sandbox is True)
        return search_commits(loaded, page, by_commit, options.format, console)
    return together(findings) if finished else ExitCode.INTERRUPTED


def _nothing(searches_: Sequence[Search]) -> RunnerError:
    """Say why no release can be asked."""
    why = {f"{one.case.name}: {apart.reason}" for one in searches_ for apart in one.older[-1:]}
    found = f"no release that can run it ({'; '.join(sorted(why)) or 'no case fails there'})"
    fault = OldFault(where=CASE, found=found, allowed="at least one release")
    return refuse(fault, ExitCode.NOTHING_SELECTED)


def _asking(
    places: Paths,
    loaded: Project,
    asked: Sequence[Search],
    options: BisectOptions,
    console: Console,
) -> ReleaseSearches:
    """Return the searches with what is known; with `--rerun` nothing is, and pairs are left out."""
    names = {one.case.name for one in asked}
    rows = answers.both(places, lambda text: console.print(text, style="yellow"), names)
    known, contested = current(rows, loaded.cases, loaded.environments)
    if options.rerun:
        return ReleaseSearches(searches=[one for one in asked if one.runs], known={})
    return ReleaseSearches(searches=list(asked), known=judged(known), contested=contested)


def _told(page: Page, form: str) -> str:
    match form:
        case "markdown":
            return telling.markdown(page)
        case "json":
            return telling.as_json(page)
        case _:
            return telling.text(page)


def _load(places: Paths, options: BisectOptions) -> tuple[Paths, Project]:
    """Read the corpus, or scripts of the user's, which need say nothing about themselves."""
    places, files = own_files(places, options.case, CASE)
    if files is None:
        return places, project.load(places)
    loaded = project.load(places, [])
    cases = [load_script(path, str(path)) for path in files]
    return places, dataclasses.replace(loaded, cases={case.name: case for case in cases})


def _searches(loaded: Project, options: BisectOptions) -> Iterator[Search]:
    if not options.case and not options.area:
        raise refuse(OldFault(where=CASE, found="nothing", allowed="a case, a script, or --area"))
    by_name = () if loaded.places.own else options.case
    wish = SelectionRequest(
        case=by_name,
        area=options.area,
        precision=options.precision,
        workaround=[options.workaround] if options.workaround else (),
        device=options.device,
    )
    selection = select(wish, loaded.cases, loaded.names, CASE)
    within = environments_of(options.release, loaded.names) if options.release else None
    for case in loaded.cases.values():
        if case.name in selection.cases:
            for precision in _precisions(case, options):
                wanted = _wanted(options, precision)
                yield from searches(case, wanted, loaded.environments, within)


def _wanted(options: BisectOptions, precision: Precision) -> ReleaseRequest:
    return ReleaseRequest(
        precision=precision,
        device=options.device,
        workaround=_workaround(options),
        edge=Edge.FALL if options.fix else Edge.RISE,
        every=options.every,
        any_failure=options.any_failure,
    )


def _workaround(options: BisectOptions) -> str:
    return PLAIN if options.workaround in {"", NONE} else options.workaround


def _precisions(case: Case, options: BisectOptions) -> tuple[Precision, ...]:
    """Return the precisions that were asked for, else those in which the case says it fails."""
    if options.precision:
        parts = [part for text in options.precision for part in text.split(",")]
        return tuple(precision for precision in Precision if precision in parts)
    found = failing_precisions(case, _workaround(options))
    if not found and not options.area:
        allowed = ", ".join(Precision)
        remedy = f"{case.name} does not say in which precision it fails."
        raise refuse(OldFault(where="--precision", found="nothing", allowed=allowed, fix=remedy))
    return found


def _announce(asking: ReleaseSearches, console: Console) -> None:
    asked = asking.open()
    if not asked:
        console.print("0 runs needed.", style="dim")
        return
    count = len({point for _, one in asked for point in one.points})
    console.print(
        f"{len(asked)} {'search asks' if len(asked) == 1 else 'searches ask'} at most"
        f" {min(asking.at_most(), count)} runs, an environment each.",
        style="dim",
    )


def _run(
    places: Paths,
    loaded: Project,
    asking: ReleaseSearches,
    options: BisectOptions,
    console: Console,
) -> bool:
    terms = Terms(
        limits=loaded.matrix.limits, device=options.device, sandbox=options.sandbox is True
    )
    with answers.opened(places, lambda text: console.print(text, style="yellow")) as store:
        runs = ReleaseRuns(
            project=loaded,
            terms=terms,
            store=store,
            audience=SearchProgress(console),
            ahead=options.ahead,
        )
        finished = bring_to_end(asking, runs)
        if finished:
            runs.finish()
        return finished
