"""`bisect`: the release that breaks or fixes a case; with `--commits` also the commit."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from packaging.version import Version

from repromatrix.runner.bisect import commit_search, commits, git_lines, pinning, releases
from repromatrix.runner.bisect import render_releases as render
from repromatrix.runner.bisect.clone import Clone, open_clones
from repromatrix.runner.bisect.commit_search import Inquiry, SearchedCommit
from repromatrix.runner.bisect.commits import Heard
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.repository import SHORT
from repromatrix.runner.bisect.search import Answer, Edge, Sought
from repromatrix.runner.bisect.seen import (
    ALLOWED,
    SEEN,
    SeenCommit,
    SeenPoint,
    find_seen,
    said,
    try_seen,
)
from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.progress import SearchProgress
from repromatrix.runner.document import write
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.errors import (
    Conflict,
    ExitCode,
    Interrupted,
    InvalidValue,
    Problem,
    RunnerError,
    refuse,
)
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence import commits as commit_evidence
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.commits import PinnedCommit, is_pinned
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import demand
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.environment_name import named_commit
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import TRANSFORMERS
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import (
    CASE,
    NONE,
    SelectionRequest,
    environments_of,
    select,
)
from repromatrix.runner.project import Project
from repromatrix.runner.text import join, plural

if TYPE_CHECKING:
    from rich.console import Console

_COMMITS = "--commits"


@dataclass(frozen=True, kw_only=True, slots=True)
class BisectOptions:
    """The options of `bisect`."""

    case: Annotated[
        Sequence[str],
        typer.Argument(metavar=CASE, help="Cases by name or glob, or your own script."),
    ] = ()
    area: cli.Areas = ()
    release: cli.Releases = ()
    precision: cli.Precisions = ()
    workaround: cli.OneWorkaround = ""
    device: cli.OnDevice = Device.CPU
    format: cli.Format = "text"
    repo: Annotated[
        Sequence[Path],
        typer.Option(
            help="A clone of transformers, accelerate or peft, for --commits and for"
            " --seen main@HASH; may be repeated."
        ),
    ] = ()
    good: Annotated[
        str, typer.Option(help="With --commits: a good revision, instead of a release's tag.")
    ] = ""
    bad: Annotated[
        str, typer.Option(help="With --commits: a bad revision, instead of a release's tag.")
    ] = ""
    commits: Annotated[
        bool,
        typer.Option("--commits", help="Find the commit as well, in the clone given by --repo."),
    ] = False
    fix: Annotated[bool, typer.Option("--fix", help="Find the release that fixes the case.")] = (
        False
    )
    seen: Annotated[
        str,
        typer.Option(help="Where you saw the failure, a release or main@HASH: it is asked first."),
    ] = ""
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Run every release, for a case that breaks and is fixed several times."
        ),
    ] = False
    any_failure: cli.AnyFailure = False
    rerun: cli.Rerun = False
    evidence_only: Annotated[
        bool,
        typer.Option("--evidence-only", help="Answer from existing evidence, and run nothing."),
    ] = False
    ahead: Annotated[
        bool,
        typer.Option("--ahead", help="Build both environments that may be next while one runs."),
    ] = False
    sandbox: cli.Sandbox = None


@cli.command("bisect", collect=False)
def find(paths: Paths, options: BisectOptions, console: Console) -> ExitCode:
    """Find the release that breaks or fixes a case, from evidence and as few runs as possible."""
    clones = clones_for(options)
    if not options.evidence_only:
        demand(options.device)
    loaded = cli.load_scripts(paths, options.case)
    asked = tuple(_questions(loaded, options))
    commit = _seen_commit(options, clones)
    points: Sequence[SeenPoint | None] = [None] * len(asked)
    if commit:
        options = _sandboxed(options, console)
        points = _try_seen(loaded, commit, asked, options, console)
    every = tuple(_searches(loaded, asked, points, options))
    runnable = tuple(search for search in every if search.axis)
    if not runnable:
        raise _no_release(every)
    if options.seen and all(search.sought.seen is None for search in runnable):
        raise _not_asked(every, options)
    asking = _asking(loaded, runnable, options, console)
    asking.known.update((point.row.cell, point.row) for point in points if point)
    _print_most(asking, console)
    if not (commit or options.evidence_only) and (asking.open() or options.commits):
        options = _sandboxed(options, console)
    finished = options.evidence_only or not asking.open() or _run(loaded, asking, options, console)
    findings = asking.findings()
    held = {point.environment.name: point.environment for point in points if point}
    page = render.Page(
        findings=findings,
        command=cli.portable(sys.argv[2:]),
        environments={**loaded.environments, **held},
    )
    if not options.commits or not finished or options.evidence_only:
        cli.print_stdout(write(render.document(page), options.format))
        return releases.together(findings) if finished else ExitCode.INTERRUPTED
    if len(clones) > 1 or len(findings) > 1:
        return _pin(loaded, findings, clones, options, console)
    if options.format != "json":  # one document: that of the commits holds both
        cli.print_stdout(f"{write(render.document(page), options.format)}\n")
    return _find_commit(loaded, page, clones[0], options, console)


def _sandboxed(options: BisectOptions, console: Console) -> BisectOptions:
    """Return the options with the decision whether cells run in a sandbox."""
    sandbox = cli.decide_sandbox(options.sandbox, cli.line_printer(console, "dim"))
    return dataclasses.replace(options, sandbox=sandbox)


def _questions(loaded: Project, options: BisectOptions) -> Iterator[CaseQuestion]:
    if not options.case and not options.area:
        raise refuse(
            Problem(CASE, "nothing is selected", "Name a case or a script, or use --area.")
        )
    request = SelectionRequest(
        case=() if loaded.paths.own else options.case,
        area=options.area,
        precision=options.precision,
        workaround=[options.workaround] if options.workaround else (),
        device=options.device,
    )
    selection = select(request, loaded.cases, loaded.names, CASE)
    workaround = PLAIN if options.workaround in {"", NONE} else options.workaround
    for case in loaded.cases.values():
        if case.name not in selection.cases:
            continue
        for precision in _precisions(case, workaround, options, loaded.matrix.torch.version):
            yield CaseQuestion(
                case=case,
                workaround=workaround,
                precision=precision,
                device=options.device,
                any_failure=options.any_failure,
            )


def _searches(
    loaded: Project,
    asked: Sequence[CaseQuestion],
    points: Sequence[SeenPoint | None],
    options: BisectOptions,
) -> Iterator[releases.Search]:
    """Yield the searches of every question; a commit in which it was seen is one of its points."""
    within = environments_of(options.release, loaded.names) if options.release else None
    release = "" if named_commit(options.seen) else _seen_release(loaded, options.seen)
    edge = Edge.FALL if options.fix else Edge.RISE
    for question, point in zip(asked, points, strict=True):
        sought = Sought(edge=edge, every=options.every, nearest=point is not None)
        if point is None:
            yield from releases.searches(question, sought, loaded.environments, within, release)
            continue
        environments, seen = point.among(loaded.environments), point.environment.name
        chosen = None if within is None else {*within, seen}
        yield from releases.searches(point.question, sought, environments, chosen, seen)


def _precisions(
    case: Case, workaround: str, options: BisectOptions, torch: str
) -> tuple[Precision, ...]:
    """Return the given precisions, else those in which the case says that it fails."""
    if options.precision:
        parts = [part for text in options.precision for part in text.split(",")]
        return tuple(precision for precision in Precision if precision in parts)
    failing = releases.failing_precisions(case, workaround, torch)
    if not failing and not options.area:
        what = f"{case.name} does not say in which precision it fails"
        raise refuse(Problem("--precision", what, f"Choose {join([*Precision], 'or')}."))
    return failing


def _no_release(every: Sequence[releases.Search]) -> RunnerError:
    why = {
        f"{search.question.case.name}: {reason}"
        for search in every
        for reason in [*search.older.values()][-1:]
    }
    what = f"no release can run it ({'; '.join(sorted(why)) or 'no case fails there'})"
    return refuse(Problem(CASE, what), ExitCode.NOTHING_SELECTED)


def _seen_commit(options: BisectOptions, clones: Sequence[Clone]) -> SeenCommit | None:
    """Return the commit that `--seen` names; raises RunnerError where it is in no clone."""
    if not named_commit(options.seen):
        return None
    if options.evidence_only:
        raise refuse(Conflict(SEEN, "--evidence-only", f"{options.seen} has to be run"))
    clone = next((one for one in clones if one.sources.package == TRANSFORMERS), None)
    if clone is None:
        what = f"{options.seen} is a commit of transformers"
        raise refuse(Problem(SEEN, what, "Give the path of a clone that holds it with --repo."))
    return find_seen(clone, options.seen)


def _try_seen(
    loaded: Project,
    commit: SeenCommit,
    asked: Sequence[CaseQuestion],
    options: BisectOptions,
    console: Console,
) -> list[SeenPoint | None]:
    """Try the commit first, and print what it does; return what it is for each question.

    Raises RunnerError where it could be judged for none of them, and Interrupted.
    """
    home = Home(paths=loaded.paths, matrix=loaded.matrix, locks=loaded.locks)
    tried = try_seen(home, commit, asked, _terms(loaded, options), rerun=options.rerun)
    for question, one in zip(asked, tried, strict=True):
        console.print(said(commit, question, one.trial), markup=False)
    if all(one.point is None for one in tried):
        what = f"{commit.name} could not be judged ({tried[0].trial.reason})"
        raise refuse(Problem(SEEN, what, "Name another commit or a release."), ExitCode.UNDECIDED)
    return [one.point for one in tried]


def _seen_release(loaded: Project, typed: str) -> str:
    """Return the release that `--seen` names; raises RunnerError where it is not measured."""
    if not typed:
        return ""
    try:
        version = Version(typed)
    except ValueError as error:  # also for a number of 5,000 digits
        raise refuse(InvalidValue(SEEN, typed, ALLOWED)) from error
    names = [release.name for release in loaded.matrix.releases]
    if str(version) in names:
        return str(version)
    below = [name for name in names if Version(name) < version][-1:]
    above = [name for name in names if Version(name) > version][:1]
    fix = f"Give the nearest release: {join([*below, *above], 'or')}."
    if not (above or version.is_prerelease):
        fix = f"{fix} `nox -s lock -- {version}` adds a newer one."
    raise refuse(Problem(SEEN, f"{typed} is not a release that is measured", fix))


def _not_asked(every: Sequence[releases.Search], options: BisectOptions) -> RunnerError:
    """Say why no search asks the release that `--seen` names."""
    name = str(Version(options.seen))
    apart = (reason for each in every for reason in [{**each.older, **each.left_out}.get(name)])
    if reason := next(filter(None, apart), ""):
        return refuse(Problem(SEEN, f"{name} cannot run it ({reason})"))
    if not options.release:
        return refuse(Problem(SEEN, f"{name} is not searched for what is selected"))
    return refuse(Conflict(SEEN, "--release", f"{name} is not among the releases that it selects"))


def _asking(
    loaded: Project, runnable: Sequence[releases.Search], options: BisectOptions, console: Console
) -> releases.ReleaseSearches:
    """Return the searches with what is known; with `--rerun` nothing is, and pairs are left out."""
    if options.rerun:
        return releases.ReleaseSearches(searches=[each for each in runnable if each.runs], known={})
    names = {search.question.case.name for search in runnable}
    rows = answers.both(loaded.paths, cli.line_printer(console, "yellow"), names)
    known, contested = current(rows, loaded.cases, loaded.environments)
    return releases.ReleaseSearches(
        searches=list(runnable), known=releases.judged(known), contested=contested
    )


def _print_most(asking: releases.ReleaseSearches, console: Console) -> None:
    """Print how many runs are needed at most."""
    opened = asking.open()
    points = {point for _, each in opened for point in each.points}
    alone = sum(each.question.at_most for _, each in opened)  # if they shared no environment
    most = plural(min(alone, len(points)), "run")
    verb = "needs" if len(opened) == 1 else "need"
    several = plural(len(opened), "search", "searches")
    text = f"{several} {verb} at most {most}, each in its own environment"
    probes = {
        search.names[place]
        for search, each in opened
        if Answer.YES not in each.answers.values() and not search.sought.every
        for place in search.sought.probes
        if place not in each.answers
    }
    more = f"; where both ends pass, up to {len(probes)} more" if probes else ""
    console.print(f"{text}{more}." if opened else "0 runs needed.", style="dim")


def _run(
    loaded: Project, asking: releases.ReleaseSearches, options: BisectOptions, console: Console
) -> bool:
    sandbox = options.sandbox is True
    terms = Terms(limits=loaded.matrix.limits, device=options.device, sandbox=sandbox)
    with answers.opened(loaded.paths, cli.line_printer(console, "yellow")) as store:
        runs = releases.ReleaseRuns(
            project=loaded,
            terms=terms,
            store=store,
            audience=SearchProgress(console),
            ahead=options.ahead,
        )
        try:
            asking.go(runs)
        except Interrupted:
            return False
        runs.finish()
        return True


# Commits


def clones_for(options: BisectOptions) -> tuple[Clone, ...]:
    """Return the clones for `--commits`; raises RunnerError before anything is run."""
    if options.commits and not options.repo:
        fix = "Give the path of a clone of transformers, accelerate or peft."
        raise refuse(Problem(_COMMITS, "needs --repo", fix))
    given = {"--repo": options.repo, "--good": options.good, "--bad": options.bad}
    for option, value in given.items():
        if (
            value
            and not options.commits
            and not (option == "--repo" and named_commit(options.seen))
        ):
            raise refuse(Problem(option, f"needs {_COMMITS}"))
    clones = open_clones(options.repo)
    for option, revision in (("--good", options.good), ("--bad", options.bad)):
        if revision and len(clones) > 1:
            raise refuse(Conflict(option, "several clones", "it names a revision of one"))
        if revision:
            git_lines.named(clones[0].repository, clones[0].sources, revision, option)
    return clones


def trial_printer(console: Console) -> Callable[[SearchedCommit], None]:
    """Return a function that prints a commit that was tried, in a line with what is left."""
    begun = time.monotonic()

    def tried(one: SearchedCommit) -> None:
        minutes = (time.monotonic() - begun) / 60
        asked = plural(one.asked, "question")
        text = f"  {one.trial.commit[:SHORT]} {asked}; {one.left} open, {minutes:.0f} min"
        console.print(text, style="dim", markup=False)

    return tried


def _pin(
    loaded: Project,
    findings: Sequence[releases.Finding],
    clones: Sequence[Clone],
    options: BisectOptions,
    console: Console,
) -> ExitCode:
    """Pin every break and fix of the findings to commits, and print them."""
    if options.good or options.bad:
        what = "--good and --bad need one case in one precision"
        raise refuse(Problem(_COMMITS, what, "Choose one with --precision."))
    if named_commit(options.seen):
        what = f"{SEEN} {options.seen} needs one case in one precision, and one clone"
        raise refuse(Problem(_COMMITS, what))
    inquiries = tuple(pinning.changes_of(findings, loaded.environments))
    known = {} if options.rerun else commit_evidence.known_commits(loaded.paths)
    due = [each for each in inquiries if not is_pinned(known, pinning.key_of(each))]
    console.print(f"{plural(len(inquiries), 'change')}, {len(due)} to search.")

    def keep(row: PinnedCommit) -> None:
        known[row.key] = row
        commit_evidence.keep(loaded.paths, row)
        console.print(f"  {commits.pinned_line(row)}", markup=False)

    pinning.Pinning(
        home=Home(paths=loaded.paths, matrix=loaded.matrix, locks=loaded.locks),
        clones=clones,
        terms=_terms(loaded, options),
        keep=keep,
        tried=trial_printer(console),
        rerun=options.rerun,
    ).pin(due)
    rows = [known[key] for key in map(pinning.key_of, inquiries) if key in known]
    cli.print_stdout(write(commits.pinned_document(rows), options.format))
    return ExitCode.AS_EXPECTED if all(row.commit for row in rows) else ExitCode.UNDECIDED


def _terms(loaded: Project, options: BisectOptions) -> Terms:
    sandbox = options.sandbox is True
    return Terms(limits=loaded.matrix.limits, device=options.device, sandbox=sandbox)


def _find_commit(
    loaded: Project, page: render.Page, clone: Clone, options: BisectOptions, console: Console
) -> ExitCode:
    """Search the commits between the two releases that differ; print it, return its exit code.

    Raises RunnerError where no releases differ.
    """
    own = [finding for finding in page.findings if finding.search.runs]
    if len(own) != 1:
        questions = [finding.search.question for finding in own]
        names = [f"{question.case.name} {question.precision}" for question in questions]
        what = f"needs one case in one precision, not {join(names) or 'none'}"
        raise refuse(Problem(_COMMITS, what, "Choose one with --precision."))
    (finding,) = own
    if finding.found is None:
        if options.format == "json":
            cli.print_stdout(write(render.document(page), options.format))
        what = "no two releases differ, so there are no commits to search"
        fix = "Try other releases (--release), every release (--all), or --any-failure."
        raise refuse(Problem(_COMMITS, what, fix), ExitCode.UNDECIDED)
    answer = _searched(loaded, _inquiry(page, finding, options), clone, options, console)
    typed = f"nox -s bisect -- {shlex.join(page.command)}"
    cli.print_stdout(write(commits.commits_document(answer, typed), options.format))
    return answer.ending.code


def _inquiry(page: render.Page, finding: releases.Finding, options: BisectOptions) -> Inquiry:
    """Return what is asked of the commits between the two releases of a change."""
    assert finding.found is not None  # noqa: S101 - the caller has looked
    older, newer = (
        page.environments[finding.search.names[place]]
        for place in (finding.found.before, finding.found.at)
    )
    return Inquiry(
        asked=finding.search.question,
        edge=finding.search.sought.edge,
        older=older,
        newer=newer,
        good=options.good,
        bad=options.bad,
    )


def _searched(
    loaded: Project,
    inquiry: Inquiry,
    clone: Clone,
    options: BisectOptions,
    console: Console,
) -> commits.CommitAnswer:
    """Search the commits between two ends; raises RunnerError and Interrupted."""

    def hear(event: Heard) -> None:
        console.print(f"  {commits.heard(event)}", markup=False)

    home = Home(paths=loaded.paths, matrix=loaded.matrix, locks=loaded.locks)
    terms = _terms(loaded, options)
    (answer,) = commit_search.find_commits(home, clone, [inquiry], terms, hear, rerun=options.rerun)
    is_seen = any(named_commit(end.name) for end in (inquiry.older, inquiry.newer))
    if not (options.good or options.bad or loaded.paths.own or is_seen):
        row = pinning.pinned(pinning.key_of(inquiry), answer, clone)
        commit_evidence.keep(loaded.paths, row)
    return answer
