"""`diff` of two sets of evidence: stores, published sets, publications. Nothing is run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from repromatrix.runner import project
from repromatrix.runner.cli.stdout import say
from repromatrix.runner.compare.diff import compare, in_table_order
from repromatrix.runner.compare.render import DiffReport, render
from repromatrix.runner.compare.sides import EvidenceSide, is_publication, read_side
from repromatrix.runner.errors import ExitCode, OldFault, refuse
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.planning.selection import named_cases, select
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from repromatrix.runner.cli.diff import DiffOptions


def compare_evidence(loaded: Project, options: DiffOptions) -> ExitCode:
    """Print what differs between two sets of evidence; raises RunnerError."""
    if loaded.places.own:
        found, allowed = " ".join(options.case), "a case of the evidence, by name"
        raise refuse(OldFault(where="--case", found=found, allowed=allowed))
    if options.rerun:
        allowed = "two sets of evidence as they are: nothing is run"
        raise refuse(OldFault(where="--rerun", found="evidence on both sides", allowed=allowed))
    before, after = (read_side(text, loaded) for text in (options.before, options.after))
    answer = _answer(loaded, options, before, after)
    if not answer.differences:
        fault = OldFault(where="diff", found="no cell on either side", allowed="a measured cell")
        raise refuse(fault, ExitCode.NOTHING_SELECTED)
    say(render(answer, options.format))
    return answer.exit_code


def _answer(
    loaded: Project, options: DiffOptions, before: EvidenceSide, after: EvidenceSide
) -> DiffReport:
    wanted = _wanted(loaded, options, before, after)
    one, other = (_chosen(held, loaded, wanted) for held in (before, after))
    both = (options.before, options.after)
    return DiffReport(
        before=_named(options.before, before, options),
        after=_named(options.after, after, options),
        differences=in_table_order(compare(one, other, loaded.cases), loaded.cases, loaded.names),
        cases=loaded.cases,
        environments=loaded.names,
        of_one_set=len({*both}) > 1 and all(is_publication(text, loaded) for text in both),
    )


def _named(text: str, held: EvidenceSide, options: DiffOptions) -> str:
    """Say what a side is; what is pasted holds no path of this machine."""
    return f"{text} ({held.title})" if options.format == "text" else held.title


def _wanted(
    loaded: Project, options: DiffOptions, before: EvidenceSide, after: EvidenceSide
) -> Callable[[Cell], bool]:
    """Return what says yes to the cells that were asked for, also of cases only evidence knows."""
    chosen = select(dataclasses.replace(options, case=()), loaded.cases, loaded.names)
    held = {row.cell.case for row in (*before.rows, *after.rows)}
    cases = set(named_cases(options.case, [*loaded.cases, *sorted(held - {*loaded.cases})]))
    if options.area or options.model:
        cases &= chosen.cases

    def wanted(cell: Cell) -> bool:
        return (
            cell.case in cases
            and cell.precision in chosen.precisions
            and options.only_device in {None, cell.device}
            and (chosen.workarounds is None or cell.workaround in chosen.workarounds)
        )

    return wanted


def _chosen(
    held: EvidenceSide, loaded: Project, wanted: Callable[[Cell], bool]
) -> Mapping[Cell, Observation]:
    """Return one row per cell: what is current in this checkout before the rest, then the later."""
    rows = [row for row in held.rows if wanted(row.cell)]
    return answering_rows(rows, loaded.cases, project.informed(loaded, rows).environments)
