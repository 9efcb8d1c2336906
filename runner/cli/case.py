"""`case`: a case as a script, its plain path alone, or an issue about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.bisect.releases import failing_precisions
from repromatrix.runner.cli.options import (
    Console,
    OneCase,
    checked,
    command,
    line_printer,
    load_scripts,
    only_case,
    print_stdout,
)
from repromatrix.runner.errors import Conflict, ExitCode, InvalidValue, Problem, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.known_bugs import failing_series, known_bug
from repromatrix.runner.judging.issue import issue
from repromatrix.runner.model.case import PLAIN, Case, CaseKind
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import CASE
from repromatrix.runner.project import Project
from repromatrix.runner.scripts.plain import plain
from repromatrix.runner.text import join

_ENTRY, _PRECISION = "--entry", "--precision"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseOptions:
    """The options of `case`."""

    case: OneCase
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
    report: Annotated[bool, "Print an issue for the project at fault, to paste."] = False
    entry: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="With --report: the bug of the Nth entry of `fails` (by default the title's).",
        ),
    ] = None


@command("case")
def print_case(paths: Paths, options: CaseOptions, console: Console) -> ExitCode:
    """Print a case as a script, its plain path, or an issue about it. Nothing is sent."""
    if options.plain and options.report:
        why = "an issue holds the plain script already"
        raise refuse(Conflict("--plain", "--report", why))
    if options.precision and not (options.plain or options.report):
        what = "a case is printed with all its precisions"
        raise refuse(Problem(_PRECISION, what, "Add --plain or --report."))
    if options.entry is not None and not options.report:
        raise refuse(Problem(_ENTRY, "only an issue is about one entry", "Add --report."))
    loaded = load_scripts(paths, [options.case])
    case = only_case(loaded, options.case)
    precision = Precision(options.precision) if options.precision else None
    if options.report:
        print_stdout(_issue(loaded, case, precision, options.entry, console))
    elif options.plain:
        failing = failing_precisions(case, PLAIN, loaded.matrix.torch.version)
        if not (precision or failing):
            what = f"{case.name} does not say in which precision it fails"
            raise refuse(Problem(_PRECISION, what, f"Choose {join([*Precision], 'or')}."))
        print_stdout(plain(case, precision or failing[0]))
    else:
        print_stdout(case.script.text)
    return ExitCode.AS_EXPECTED


def _issue(
    loaded: Project, case: Case, precision: Precision | None, number: int | None, console: Console
) -> str:
    """Return the issue about the newest failure; raises RunnerError where none is known.

    Prints what to know before it is sent.
    """
    entries = case.block.fails
    if number is not None and not 1 <= number <= len(entries):
        raise refuse(InvalidValue(_ENTRY, number, f"a number from 1 to {len(entries)}"))
    title = case.title_of(entries[number - 1] if number else None)
    rows = answers.both(loaded.paths, line_printer(console, "yellow"), {case.name})
    environments = project.informed(loaded, rows).environments
    series = failing_series(case, environments, rows, title)
    chosen = precision or next(iter(series), None)
    if chosen is None or chosen not in series:
        where, within = (_PRECISION, f" in {precision}") if precision else (CASE, "")
        fix = f"Measure it with `nox -s matrix -- --case {case.name}`."
        fix = f"It fails in {join([*series])}." if series else fix
        what = f"no result shows that {case.name} fails{within}"
        raise refuse(Problem(where, what, fix), ExitCode.NOT_REPRODUCED)
    block, commits = case.block, known_commits(loaded.paths)
    bug = known_bug(case, environments, series, chosen, commits, title)
    console.print("Nothing was sent. Read it, and look for an issue that is open already.")
    if bug.fixed:
        console.print(f"It is fixed in {bug.fixed}: there is nothing left to mend.")
    if block.kind is not CaseKind.BUG:
        console.print(f"The case describes a {block.kind}, not a bug.")
    if block.simulates:
        console.print(f"It uses a stand-in: {block.simulates}")
    if block.reports:
        console.print(f"Reported already: {join(block.reports)}")
    return issue(bug, plain(case, chosen))
