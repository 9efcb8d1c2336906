"""`bisect`: the release that breaks or fixes a case; with `--commits` also the commit."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from repromatrix.runner.bisect import commit_search, commits, pinning, releases
from repromatrix.runner.bisect import render_releases as render
from repromatrix.runner.bisect.clone import Clone, open_clones
from repromatrix.runner.bisect.commit_search import Inquiry, Tried
from repromatrix.runner.bisect.commits import Heard
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.repository import SHORT
from repromatrix.runner.bisect.search import Answer, Edge, Sought
from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.options import Console
from repromatrix.runner.cli.progress import SearchProgress
from repromatrix.runner.document import write
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.errors import (
    Conflict,
    ExitCode,
    Interrupted,
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
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths, as_typed
from repromatrix.runner.planning.selection import (
    CASE,
    NONE,
    SelectionRequest,
    environments_of,
    select,
)
from repromatrix.runner.project import Project
from repromatrix.runner.text import join, plural

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
        "A clone of transformers, accelerate or peft, for --commits; may be repeated.",
    ] = ()
    good: Annotated[
        str,
        "With --commits: a good revision, instead of a release's tag; with --bad as well, no"
        " release is searched.",
    ] = ""
    bad: Annotated[str, "With --commits: a bad revision, instead of a release's tag."] = ""
    commits: Annotated[bool, "Find the commit as well, in the clone given by --repo."] = False
    fix: Annotated[bool, "Find the release that fixes the case."] = False
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Run every release, for a case that breaks and is fixed several times."
        ),
    ] = False
    any_failure: cli.AnyFailure = False
    rerun: cli.Rerun = False
    evidence_only: Annotated[bool, "Answer from existing evidence, and run nothing."] = False
    sandbox: cli.Sandbox = None


@cli.command("bisect", collect=False)
def find(paths: Paths, options: BisectOptions, console: Console) -> ExitCode:
    """Find the release that breaks or fixes a case, from evidence and as few runs as possible."""
    clones = clones_for(paths, options)
    if not options.evidence_only:
        demand(options.device)
    loaded = cli.load_scripts(paths, options.case)
    asked = tuple(_questions(loaded, options))
    if options.good and options.bad and not options.evidence_only:
        options = _sandboxed(options, console)
        return _between_revisions(loaded, asked, clones[0], options, console)
    within = environments_of(options.release, loaded.names) if options.release else None
    sought = Sought(edge=Edge.FALL if options.fix else Edge.RISE, every=options.every)
    ranges = (releases.searches(each, sought, loaded.environments, within) for each in asked)
    every = tuple(chain.from_iterable(ranges))
    runnable = tuple(search for search in every if search.axis)
    if not runnable:
        raise _no_release(every)
    asking = _asking(loaded, runnable, options, console)
    _print_most(asking, console)
    if not options.evidence_only and (asking.open() or options.commits):
        options = _sandboxed(options, console)
    finished = options.evidence_only or not asking.open() or _run(loaded, asking, options, console)
    findings = asking.findings()
    answer = render.document(findings, cli.portable(sys.argv[2:]), loaded.environments)
    shown = write(answer, options.format)
    if not options.commits or not finished or options.evidence_only:
        cli.print_stdout(shown)
        return releases.together(findings) if finished else ExitCode.INTERRUPTED
    if len(clones) > 1 or len(findings) > 1:
        return _pin(loaded, findings, clones, options, console)
    (finding,) = findings
    if options.format != "json":  # one document: that of the commits holds both
        cli.print_stdout(f"{shown}\n")
    elif finding.search.runs and finding.found is None:
        cli.print_stdout(shown)
    return _find_commit(loaded, finding, clones[0], options, console)


def _sandboxed(options: BisectOptions, console: Console) -> BisectOptions:
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


def _asking(
    loaded: Project,
    runnable: Sequence[releases.Search],
    options: BisectOptions,
    console: Console,
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
    """Print how many runs are needed at most; that none are is part of the answer."""
    opened = asking.open()
    if not opened:
        return
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
    console.print(f"{text}{more}.", style="dim")


def _run(
    loaded: Project, asking: releases.ReleaseSearches, options: BisectOptions, console: Console
) -> bool:
    with answers.opened(loaded.paths, cli.line_printer(console, "yellow")) as store:
        terms, audience = _terms(loaded, options), SearchProgress(console)
        try:
            asking.go(releases.release_runs(loaded, terms, store, audience))
        except Interrupted:
            return False
        return True


# Commits


def clones_for(paths: Paths, options: BisectOptions) -> tuple[Clone, ...]:
    """Return the clones for `--commits`; raises RunnerError before anything is run."""
    if options.commits and not options.repo:
        fix = "Give the path of a clone of transformers, accelerate or peft."
        raise refuse(Problem(_COMMITS, "needs --repo", fix))
    given = {"--repo": options.repo, "--good": options.good, "--bad": options.bad}
    for option, value in given.items():
        if value and not options.commits:
            raise refuse(Problem(option, f"needs {_COMMITS}"))
    clones = open_clones(options.repo, paths.places)
    for option, revision in (("--good", options.good), ("--bad", options.bad)):
        if revision and len(clones) > 1:
            raise refuse(Conflict(option, "several clones", "it names a revision of one"))
        if revision:
            clones[0].named(revision, option)
    return clones


def trial_printer(console: Console) -> Tried:
    """Return a function that prints a commit that was tried, in a line with what is left."""
    begun = time.monotonic()

    def tried(commit: str, asked: int, left: int) -> None:
        minutes = (time.monotonic() - begun) / 60
        questions = plural(asked, "question")
        text = f"  {commit[:SHORT]} {questions}; {left} open, {minutes:.0f} min"
        console.print(text, style="dim")

    return tried


def _pin(
    loaded: Project,
    findings: Sequence[releases.Finding],
    clones: Sequence[Clone],
    options: BisectOptions,
    console: Console,
) -> ExitCode:
    if options.good or options.bad:
        raise _needs_one(finding.search.question for finding in findings)
    inquiries = tuple(pinning.changes_of(findings, loaded.environments))
    known = {} if options.rerun else commit_evidence.known_commits(loaded.paths)
    due = [each for each in inquiries if not is_pinned(known, pinning.key_of(each))]
    console.print(f"{plural(len(inquiries), 'change')}, {len(due)} to search.")

    def keep(row: PinnedCommit) -> None:
        known[row.key] = row
        commit_evidence.keep(loaded.paths, row)
        console.print(f"  {commits.pinned_line(row)}")

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


def _needs_one(asked: Iterable[CaseQuestion]) -> RunnerError:
    names = [f"{question.case.name} {question.precision}" for question in asked]
    what = f"needs one case in one precision, not {join(names) or 'none'}"
    return refuse(Problem(_COMMITS, what, "Choose one with --precision."))


def _find_commit(
    loaded: Project,
    finding: releases.Finding,
    clone: Clone,
    options: BisectOptions,
    console: Console,
) -> ExitCode:
    """Search the commits between the two releases that differ; print it, return its exit code.

    Raises RunnerError where no releases differ.
    """
    if not finding.search.runs:
        raise _needs_one([])
    if finding.found is None:
        what = "no two releases differ, so there are no commits to search"
        fix = "Try other releases (--release), every release (--all), or --any-failure."
        raise refuse(Problem(_COMMITS, what, fix), ExitCode.UNDECIDED)
    sides = (finding.found.before, finding.found.at)
    older, newer = (loaded.environments[finding.search.names[place]] for place in sides)
    inquiry = Inquiry(
        asked=finding.search.question,
        edge=finding.search.sought.edge,
        older=older,
        newer=newer,
        good=options.good,
        bad=options.bad,
    )
    answer = _searched(loaded, inquiry, clone, options, console)
    if not (options.good or options.bad or loaded.paths.own):
        commit_evidence.keep(loaded.paths, pinning.pinned(pinning.key_of(inquiry), answer, clone))
    return answer.ending.code


def _between_revisions(
    loaded: Project,
    asked: Sequence[CaseQuestion],
    clone: Clone,
    options: BisectOptions,
    console: Console,
) -> ExitCode:
    if len(asked) != 1:
        raise _needs_one(asked)
    (question,) = asked
    question = dataclasses.replace(
        question, any_failure=options.any_failure or not question.case.block.fails
    )
    edge = Edge.FALL if options.fix else Edge.RISE
    inquiry = Inquiry(asked=question, edge=edge, good=options.good, bad=options.bad)
    return _searched(loaded, inquiry, clone, options, console).ending.code


def _searched(
    loaded: Project,
    inquiry: Inquiry,
    clone: Clone,
    options: BisectOptions,
    console: Console,
) -> commits.CommitAnswer:
    def hear(event: Heard) -> None:
        console.print(f"  {commits.heard(event)}")

    home = Home(paths=loaded.paths, matrix=loaded.matrix, locks=loaded.locks)
    terms = _terms(loaded, options)
    (answer,) = commit_search.find_commits(home, clone, [inquiry], terms, hear, rerun=options.rerun)
    typed = as_typed("bisect", shlex.join(cli.portable(sys.argv[2:])))
    cli.print_stdout(write(commits.commits_document(answer, typed), options.format))
    return answer
