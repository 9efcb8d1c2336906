"""`bisect`: which release breaks a case, and which heals it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner import campaign, project
from runner.bisecting.asking import Asking, bring_to_end
from runner.bisecting.evidence import current, judged
from runner.bisecting.finding import together
from runner.bisecting.runs import Runs
from runner.bisecting.search import Wanted, failing_precisions, searches
from runner.commands.commits import looked_at, portable, search_commits
from runner.commands.formats import check_format
from runner.commands.own import own_files
from runner.commands.sandboxing import walled
from runner.corpus import load_script
from runner.engine.hardware import demand
from runner.errors import ExitCode, Fault, RunnerError, refuse
from runner.evidence import reading
from runner.model.case import PLAIN
from runner.model.outcomes import Precision
from runner.planning.selection import NONE, Wish, environments_of, select
from runner.searching.transitions import Edge
from runner.telling import bisect as telling
from runner.telling.bisect import Page
from runner.terminal.speaking import say
from runner.terminal.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from runner.bisecting.search import Search
    from runner.commands.commits import Clone
    from runner.model.case import Case
    from runner.model.outcomes import Device
    from runner.places import Places
    from runner.project import Project


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options of `bisect` as they were typed."""

    cases: Sequence[str]
    area: Sequence[str]
    release: Sequence[str]
    precision: Sequence[str]
    workaround: str
    device: Device
    format: str
    command: Sequence[str]
    fix: bool = False
    every: bool = False
    any_failure: bool = False
    rerun: bool = False
    plan: bool = False
    ahead: bool = False
    sandbox: bool | None = None
    clone: Clone | None = None


def search(places: Places, options: Options, console: Console) -> ExitCode:
    """Answer from evidence, run what is missing, print it; return what it tells a script."""
    check_format(options.format)
    if not options.plan:
        demand(options.device)
    looked_at(options.clone)
    places, loaded = _load(places, options)
    every = tuple(_searches(loaded, options))
    asked = tuple(one for one in every if one.axis)
    if not asked:
        raise _nothing(every)
    asking = _asking(places, loaded, asked, options, console)
    _announce(asking, console)
    if not options.plan and (asking.open() or options.clone):
        options = _walled(options, console)
    finished = options.plan or not asking.open() or _run(places, loaded, asking, options, console)
    findings = asking.findings()
    page = Page(
        findings=findings, command=portable(options.command), environments=loaded.environments
    )
    by_commit = options.clone if finished and not options.plan else None
    if by_commit is None or options.format != "json":
        say(_told(page, options.format))
    if by_commit is not None:
        say("" if options.format == "json" else "\n")
        return search_commits(loaded, page, by_commit, options.format, console)
    return together(findings) if finished else ExitCode.INTERRUPTED


def _nothing(searches_: Sequence[Search]) -> RunnerError:
    """Say why no release can be asked."""
    why = {f"{one.case.name}: {apart.reason}" for one in searches_ for apart in one.older[-1:]}
    found = f"no release that can run it ({'; '.join(sorted(why)) or 'no case fails there'})"
    fault = Fault(where="CASE", found=found, allowed="at least one release")
    return refuse(fault, ExitCode.NOTHING_SELECTED)


def _asking(
    places: Places,
    loaded: Project,
    asked: Sequence[Search],
    options: Options,
    console: Console,
) -> Asking:
    """Return the searches with what is known; with `--rerun` nothing is, and pairs are left out."""
    names = {one.case.name for one in asked}
    rows = reading.both(places, lambda text: console.print(text, style="yellow"), names)
    known, contested = current(rows, loaded.cases, loaded.environments)
    if options.rerun:
        return Asking(searches=[one for one in asked if one.runs], known={})
    return Asking(searches=list(asked), known=judged(known), contested=contested)


def _told(page: Page, form: str) -> str:
    match form:
        case "markdown":
            return telling.markdown(page)
        case "json":
            return telling.as_json(page)
        case _:
            return telling.text(page)


def _load(places: Places, options: Options) -> tuple[Places, Project]:
    """Read the corpus, or scripts of the user's, which need say nothing about themselves."""
    places, files = own_files(places, options.cases, "CASE")
    if files is None:
        return places, project.load(places)
    loaded = project.load(places, [])
    cases = [load_script(path, str(path)) for path in files]
    return places, dataclasses.replace(loaded, cases={case.name: case for case in cases})


def _searches(loaded: Project, options: Options) -> Iterator[Search]:
    if not options.cases and not options.area:
        raise refuse(Fault(where="CASE", found="nothing", allowed="a case, a script, or --area"))
    by_name = () if loaded.places.own else options.cases
    wish = Wish(
        case=by_name,
        area=options.area,
        precision=options.precision,
        workaround=[options.workaround] if options.workaround else (),
        device=options.device,
    )
    selection = select(wish, loaded.cases, loaded.names)
    within = environments_of(options.release, loaded.names) if options.release else None
    for case in loaded.cases.values():
        if case.name in selection.cases:
            for precision in _precisions(case, options):
                wanted = _wanted(options, precision)
                yield from searches(case, wanted, loaded.environments, within)


def _wanted(options: Options, precision: Precision) -> Wanted:
    return Wanted(
        precision=precision,
        device=options.device,
        workaround=_workaround(options),
        edge=Edge.FALL if options.fix else Edge.RISE,
        every=options.every,
        any_failure=options.any_failure,
    )


def _workaround(options: Options) -> str:
    return PLAIN if options.workaround in {"", NONE} else options.workaround


def _precisions(case: Case, options: Options) -> tuple[Precision, ...]:
    """Return the precisions that were asked for, else those in which the case says it fails."""
    if options.precision:
        parts = [part for text in options.precision for part in text.split(",")]
        return tuple(precision for precision in Precision if precision in parts)
    found = failing_precisions(case, _workaround(options))
    if not found and not options.area:
        allowed = ", ".join(Precision)
        remedy = f"{case.name} does not say in which precision it fails."
        raise refuse(Fault(where="--precision", found="nothing", allowed=allowed, remedy=remedy))
    return found


def _announce(asking: Asking, console: Console) -> None:
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


def _walled(options: Options, console: Console) -> Options:
    """Return the options with what walls cells in here, for releases and for commits."""
    holds = walled(options.sandbox, lambda text: console.print(text, style="dim"))
    clone = dataclasses.replace(options.clone, sandbox=holds) if options.clone else None
    return dataclasses.replace(options, sandbox=holds, clone=clone)


def _run(
    places: Places, loaded: Project, asking: Asking, options: Options, console: Console
) -> bool:
    terms = campaign.local_terms(
        loaded.matrix.limits, options.device, 1, sandbox=options.sandbox is True
    )
    with reading.opened(places, lambda text: console.print(text, style="yellow")) as store:
        runs = Runs(
            project=loaded,
            terms=terms,
            store=store,
            audience=Steps(console),
            ahead=options.ahead,
        )
        finished = bring_to_end(asking, runs)
        if finished:
            runs.finish()
        return finished
