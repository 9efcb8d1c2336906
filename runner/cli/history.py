"""`history`: what the cases do along the main branch of a clone, by date."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from repromatrix.runner import files
from repromatrix.runner.bisect import history, places
from repromatrix.runner.bisect.clone import Clone, open_clone
from repromatrix.runner.bisect.commit_trials import CommitRuns
from repromatrix.runner.bisect.history import cell_of
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.repository import SHORT, opened
from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.options import Console
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.environments.development import repository_of
from repromatrix.runner.errors import Conflict, ExitCode, Problem, refuse
from repromatrix.runner.evidence import history as history_evidence
from repromatrix.runner.evidence.history import HistoryPoint, HistorySpan, MainHistory
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.case import PLAIN
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import TRANSFORMERS
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import CASE, SelectionRequest, select
from repromatrix.runner.project import Project, load
from repromatrix.runner.text import plural, shorten

_EVERY = "--every"
_WIDE = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryOptions:
    """The options of `history`."""

    case: Annotated[Sequence[str], typer.Argument(metavar=CASE, help="Cases by name or glob.")] = ()
    area: cli.Areas = ()
    precision: cli.Precisions = ()
    repo: Annotated[Path | None, "A clone of transformers."] = None
    every: Annotated[
        str,
        typer.Option(
            metavar="STEP", help="Measure every so many commits (200), or every so many weeks (2w)."
        ),
    ] = ""
    places: Annotated[bool, "Write where the releases of the clone left main; measure nothing."] = (
        False
    )
    rerun: cli.Rerun = False
    sandbox: cli.Sandbox = None


@cli.command("history", collect=False)
def measure(paths: Paths, options: HistoryOptions, console: Console) -> ExitCode:
    """Measure the cases along the main branch of a clone of transformers, coarse to fine."""
    clone = _clone(paths, options)
    if options.places:
        return _write_places(paths, clone, options, console)
    if not options.every:
        what = "no commits are chosen"
        raise refuse(Problem(_EVERY, what, f"Give {_EVERY} 200 or {_EVERY} 4w."))
    loaded = load(paths)
    asked = _questions(loaded, options)
    line = history.main_line(clone, loaded.matrix.releases[0].name)
    points = history.every(line, options.every, _EVERY)
    known = MainHistory() if options.rerun else history_evidence.known_history(paths)
    answered = [known.answers.get(cell_of(question), {}) for question in asked]
    due = [point for point in points if any(point.commit not in each for each in answered)]
    console.print(
        f"{plural(len(points), 'commit')} of {len(line):,}, from {line[0].day} to {line[-1].day};"
        f" {len(due)} to measure, {plural(len(asked), 'cell')} each."
    )
    sandbox = cli.decide_sandbox(options.sandbox, cli.line_printer(console, "dim"))
    repository, begun = repository_of(clone.repository.folder), time.monotonic()
    with opened(paths.checkouts, clone.repository, clone.sources) as worktree:
        runs = CommitRuns(
            home=Home(paths=paths, matrix=loaded.matrix, locks=loaded.locks),
            clone=clone,
            worktree=worktree,
            terms=Terms(limits=loaded.matrix.limits, device=Device.CPU, sandbox=sandbox),
            rerun=options.rerun,
        )
        for done, found in enumerate(history.measured(runs, due, asked), 1):
            story = dataclasses.replace(found, repository=repository)
            known = known.merged(story)
            history_evidence.keep(paths, story)
            left, minutes = len(due) - done, (time.monotonic() - begun) / 60
            more = f"{left} left, about {minutes / done * left:.0f} min"
            console.print(f"{_line(found)}; {more}", style="dim")
    cli.print_stdout(_text(known, points, asked))
    return ExitCode.AS_EXPECTED


def _clone(paths: Paths, options: HistoryOptions) -> Clone:
    if options.repo is None:
        raise refuse(Problem("--repo", "is missing", "Give the path of a clone of transformers."))
    clone = open_clone(options.repo, paths.places)
    if clone.sources.package != TRANSFORMERS and not options.places:
        what = f"holds {clone.sources.package}"
        raise refuse(Problem(clone.repository.where, what, "Give a clone of transformers."))
    return clone


def _write_places(
    paths: Paths, clone: Clone, options: HistoryOptions, console: Console
) -> ExitCode:
    if options.every:
        raise refuse(Conflict("--places", _EVERY, "it runs nothing"))
    known = places.with_clone(places.read(paths.places), clone.repository, clone.sources)
    files.write(paths.places, places.as_text(known))
    package, file = clone.sources.package, paths.shown(paths.places)
    console.print(f"{file}: {plural(len(known[package]), 'minor line')} of {package}.")
    return ExitCode.AS_EXPECTED


def _questions(loaded: Project, options: HistoryOptions) -> list[CaseQuestion]:
    request = SelectionRequest(case=options.case, area=options.area, precision=options.precision)
    selection = select(request, loaded.cases, loaded.names, CASE)
    return [
        CaseQuestion(case=case, workaround=PLAIN, precision=precision, device=Device.CPU)
        for case in loaded.cases.values()
        if case.name in selection.cases
        for precision in Precision
        if precision in selection.precisions
    ]


def _line(found: MainHistory) -> str:
    """Return what a point answers: how many cells fail, pass and could not be judged."""
    (point,) = found.points
    said = [answer.fails for answers in found.answers.values() for answer in answers.values()]
    return (
        f"  {point.day} {point.commit[:SHORT]} ({point.version or 'no version'}):"
        f" {said.count(True)} fail, {said.count(False)} pass, {said.count(None)} not judged"
    )


def _text(found: MainHistory, points: Sequence[HistoryPoint], asked: Sequence[CaseQuestion]) -> str:
    """Return what each case that fails somewhere did along the points."""
    lines = []
    for question in asked:
        spans = found.of(question.case).get(question.precision, [])
        if any(span.fails for span in spans):
            line = "; ".join(map(_span, spans))
            lines.append(f"{question.case.name} {question.precision}: {line}")
    measured = {point.commit for point in found.points} & {point.commit for point in points}
    return "\n".join([*lines, f"{plural(len(measured), 'commit')} measured."]) + "\n"


def _span(span: HistorySpan) -> str:
    said = {True: "fails", False: "passes", None: "not judged"}[span.fails]
    first, last = span.first.day, span.last.day
    reason = f" ({shorten(span.reasons[0], _WIDE)})" if span.fails is None else ""
    return f"{said} {f'{first} to {last}' if len(span.points) > 1 else f'on {last}'}{reason}"
