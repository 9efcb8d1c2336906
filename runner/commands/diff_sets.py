"""`diff` of two sets of evidence: stores, published sets, publications. Nothing is run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from runner import project
from runner.comparing.evidence import is_publication, read_side
from runner.errors import ExitCode, Fault, refuse
from runner.evidence.survey import choose
from runner.judging.difference import Change
from runner.judging.sets import meet
from runner.planning.selection import named_cases, select
from runner.telling import pasted_sets, sets
from runner.telling.sets import Compared
from runner.terminal.speaking import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.commands.diff import Comparing
    from runner.comparing.evidence import Held
    from runner.model.cell import Cell
    from runner.model.observation import Observation
    from runner.project import Project


def compare_evidence(loaded: Project, options: Comparing) -> ExitCode:
    """Print what differs between two sets of evidence; raises RunnerError."""
    if loaded.places.own:
        found, allowed = " ".join(options.wish.case), "a case of the evidence, by name"
        raise refuse(Fault(where="--case", found=found, allowed=allowed))
    if options.rerun:
        allowed = "two sets of evidence as they are: nothing is run"
        raise refuse(Fault(where="--rerun", found="evidence on both sides", allowed=allowed))
    before, after = (read_side(text, loaded) for text in (options.before, options.after))
    answer = _answer(loaded, options, before, after)
    if not answer.met:
        fault = Fault(where="diff", found="no cell on either side", allowed="a measured cell")
        raise refuse(fault, ExitCode.NOTHING_SELECTED)
    _tell(answer, options.format)
    return _code(answer)


def _answer(loaded: Project, options: Comparing, before: Held, after: Held) -> Compared:
    wanted = _wanted(loaded, options, before, after)
    one, other = (_chosen(held, loaded, wanted) for held in (before, after))
    both = (options.before, options.after)
    return Compared(
        before=_named(options.before, before, options),
        after=_named(options.after, after, options),
        met=meet(one, other, loaded.cases, loaded.names),
        cases=loaded.cases,
        environments=loaded.names,
        of_one_set=len({*both}) > 1 and all(is_publication(text, loaded) for text in both),
    )


def _named(text: str, held: Held, options: Comparing) -> str:
    """Say what a side is; what is pasted holds no path of this machine."""
    return f"{text} ({held.title})" if options.format == "text" else held.title


def _wanted(
    loaded: Project, options: Comparing, before: Held, after: Held
) -> Callable[[Cell], bool]:
    """Return what says yes to the cells that were asked for, also of cases only evidence knows."""
    wish = options.wish
    chosen = select(dataclasses.replace(wish, case=()), loaded.cases, loaded.names)
    held = {row.cell.case for row in (*before.rows, *after.rows)}
    cases = set(named_cases(wish.case, [*loaded.cases, *sorted(held - {*loaded.cases})], "case"))
    if wish.area or wish.model:
        cases &= chosen.cases

    def wanted(cell: Cell) -> bool:
        return (
            cell.case in cases
            and cell.precision in chosen.precisions
            and (options.every_device or cell.device is wish.device)
            and (chosen.workarounds is None or cell.workaround in chosen.workarounds)
        )

    return wanted


def _chosen(
    held: Held, loaded: Project, wanted: Callable[[Cell], bool]
) -> Mapping[Cell, Observation]:
    """Return one row per cell: what is current in this checkout before the rest, then the later."""
    rows = [row for row in held.rows if wanted(row.cell)]
    return choose(rows, loaded.cases, project.informed(loaded, rows).environments)


def _tell(answer: Compared, form: str) -> None:
    match form:
        case "markdown":
            say(pasted_sets.markdown(answer))
        case "json":
            say(pasted_sets.as_json(answer))
        case _:
            say(sets.text(answer))


def _code(answer: Compared) -> ExitCode:
    if any(met.change.differs for met in answer.met):
        return ExitCode.UNEXPECTED
    # A cell that is another on each side says as little as one without an answer.
    known = [met for met in answer.alike if met.change is not Change.UNKNOWN]
    return ExitCode.AS_EXPECTED if known else ExitCode.UNDECIDED
