"""`case`: a case as a script, its plain path alone, or an issue about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.bisect.releases import failing_precisions
from repromatrix.runner.cli.options import (
    Console,
    checked,
    command,
    line_printer,
    load_scripts,
    only_case,
    print_stdout,
)
from repromatrix.runner.errors import Conflict, ExitCode, Problem, RunnerError, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.known_bugs import failing_series, known_bug
from repromatrix.runner.judging.issue import KnownBug, issue
from repromatrix.runner.model.case import PLAIN, Case, CaseKind
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import CASE
from repromatrix.runner.project import Project
from repromatrix.runner.scripts.plain import plain
from repromatrix.runner.text import join

_PRECISION = "--precision"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseOptions:
    """The options of `case`."""

    case: Annotated[str, typer.Argument(metavar=CASE, help="The case by name, or your own script.")]
    plain: Annotated[
        bool, "Print only what the case does in one precision, without its workarounds."
    ] = False
    precision: Annotated[
        str,
        checked(
            "With --plain or --report: the precision (by default the first that fails).",
            *Precision,
        ),
    ] = ""
    report: Annotated[bool, "Print an issue for the project whose bug it is, to paste."] = False


@command("case")
def print_case(paths: Paths, options: CaseOptions, console: Console) -> ExitCode:
    """Print a case as a script, its plain path, or an issue about it. Nothing is sent."""
    if options.plain and options.report:
        why = "an issue holds the plain script already"
        raise refuse(Conflict("--plain", "--report", why))
    if options.precision and not (options.plain or options.report):
        what = "a case is printed with all its precisions"
        raise refuse(Problem(_PRECISION, what, "Add --plain or --report."))
    loaded = load_scripts(paths, [options.case])
    case = only_case(loaded, options.case)
    precision = Precision(options.precision) if options.precision else None
    if options.report:
        print_stdout(_issue(loaded, case, precision, console))
    elif options.plain:
        print_stdout(plain(case, precision or _expected_to_fail(loaded, case)))
    else:
        print_stdout(case.script.text)
    return ExitCode.AS_EXPECTED


def _expected_to_fail(loaded: Project, case: Case) -> Precision:
    precisions = failing_precisions(case, PLAIN, loaded.matrix.torch.version)
    if not precisions:
        what = f"{case.name} does not say in which precision it fails"
        raise refuse(Problem(_PRECISION, what, f"Choose {join([*Precision], 'or')}."))
    return precisions[0]


def _issue(loaded: Project, case: Case, precision: Precision | None, console: Console) -> str:
    """Return the issue about the newest failure; raises RunnerError where none is known."""
    rows = answers.both(loaded.paths, line_printer(console, "yellow"), {case.name})
    environments = project.informed(loaded, rows).environments
    series = failing_series(case, environments, rows)
    chosen = precision or next(iter(series), None)
    if chosen is None or chosen not in series:
        raise _no_failure(case, precision, series)
    bug = known_bug(case, environments, series, chosen, known_commits(loaded.paths))
    text = issue(bug, plain(case, chosen))
    for note in _notes(bug):
        console.print(note)
    return text


def _no_failure(
    case: Case, precision: Precision | None, failing: Collection[Precision]
) -> RunnerError:
    where, within = (_PRECISION, f" in {precision}") if precision else (CASE, "")
    fix = f"It fails in {join([*failing])}."
    if not failing:
        fix = f"Measure it with `nox -s matrix -- --case {case.name}`."
    what = f"no result shows that {case.name} fails{within}"
    return refuse(Problem(where, what, fix), ExitCode.NOT_REPRODUCED)


def _notes(bug: KnownBug) -> Iterator[str]:
    """Yield what to know before it is sent."""
    yield "Nothing was sent. Read it, and look for an issue that is open already."
    if bug.fixed:
        yield f"It is fixed in {bug.fixed}: there is nothing left to mend."
    if bug.case.block.kind is not CaseKind.BUG:
        yield f"The case describes a {bug.case.block.kind}, not a bug."
    if bug.case.block.simulates:
        yield f"It uses a stand-in: {bug.case.block.simulates}"
    if bug.case.block.reports:
        yield f"Reported already: {join(bug.case.block.reports)}"
