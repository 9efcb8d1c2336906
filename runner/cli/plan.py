"""How `matrix` chooses what it runs: all that is due, what decides something, what time allows."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from repromatrix.runner import project
from repromatrix.runner.environments import building
from repromatrix.runner.execution.run import Run, RunTally, known_rows
from repromatrix.runner.judging.expectations import is_current
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.planning import budget as budgets
from repromatrix.runner.planning.budget import Values, Worth
from repromatrix.runner.planning.estimates import Costs, costs
from repromatrix.runner.planning.plan import Unit, applicable
from repromatrix.runner.planning.strategies import Axes, Why, deciding
from repromatrix.runner.text import plural

if TYPE_CHECKING:
    from rich.console import Console

_DRAWING = 5.0
"""Seconds of a budget that are kept for drawing the table; at most a tenth of it."""


class Strategy(StrEnum):
    """Which of the cells that are due are run."""

    ALL = "all"
    BOUNDARIES = "boundaries"


@dataclass(frozen=True, kw_only=True, slots=True)
class CellChooser:
    """The options that say what is run of what is due, as they were typed."""

    manner: Strategy
    seconds: float | None

    @property
    def limited(self) -> bool:
        """Whether cells that are due may be left."""
        return self.manner is Strategy.BOUNDARIES or self.seconds is not None


def choosing(strategy: Strategy, budget: str) -> CellChooser:
    """Read `--strategy` and `--budget`; raises RunnerError for a budget that is none."""
    return CellChooser(manner=strategy, seconds=budgets.seconds(budget) if budget else None)


def narrowed(planned: Run, how: CellChooser, began: float) -> Run:
    """Return a campaign that runs only what decides something, or what there is time for.

    `began` is when the time of the budget began, on the monotonic clock.
    """
    if not how.limited:
        return planned
    decides = decided(planned, planned.known)
    if how.manner is Strategy.BOUNDARIES:
        planned = dataclasses.replace(planned, asked=frozenset(decides))
    if how.seconds is None:
        return planned
    until = began + how.seconds - min(_DRAWING, how.seconds / 10)
    jobs, environments = planned.terms.jobs, len(planned.selection.environments)
    budget = budgets.Budget(
        until=until,
        workers=jobs,
        costs=costs_of(planned),
        values=_values(planned, decides),
        beside=max(1, jobs // environments),
    )
    terms = dataclasses.replace(planned.terms, until=until)
    return dataclasses.replace(planned, budget=budget, terms=terms)


def decided(planned: Run, known: Mapping[Cell, Observation]) -> dict[Cell, Why]:
    """Return what each selected cell decides, by some evidence."""
    loaded, selection = planned.project, planned.selection
    grid = Axes(
        cases={name: one for name, one in loaded.cases.items() if name in selection.cases},
        environments={
            name: one for name, one in loaded.environments.items() if name in selection.environments
        },
        precisions=[one for one in loaded.matrix.precisions if one in selection.precisions],
        device=planned.terms.device,
    )
    return {cell: why for cell, why in deciding(grid, known).items() if selection(cell)}


def _values(planned: Run, decides: Mapping[Cell, Why]) -> Values:
    loaded = planned.project

    def current(seen: Observation) -> bool:
        case, environment = seen.cell.case, seen.cell.environment
        held = is_current(seen, loaded.cases[case], loaded.environments[environment])
        return held and not seen.sides

    return Values(known=planned.known, decides=decides, current=current)


def costs_of(planned: Run) -> Costs:
    """Return what a plan is likely to cost, by the evidence at hand."""
    return costs(planned.known.values(), lambda name: not is_built(planned, name))


def is_built(planned: Run, name: str) -> bool:
    """Say whether an environment is there; what no lock describes is taken to be."""
    loaded = planned.project
    if planned.interpreter is not None or name not in loaded.locks:
        return True
    return building.is_built(loaded.places, name, project.recipe(loaded, name).digest)


def print_plan(planned: Run, console: Console) -> None:
    """Print what would run, and for how long by what earlier cells took."""
    known, every = costs_of(planned), planned.units()
    units = every if planned.budget is None else planned.budget.first(every)
    total = 0.0
    for unit in units:
        total += known.of_unit(unit)
        absent = "  to be built" if known.absent(unit.environment) else ""
        console.print(f"{unit.environment:>12}  {len(unit.cells):>4} cells{absent}")
    cells, minutes = sum(len(unit.cells) for unit in units), total / planned.terms.jobs / 60
    console.print(
        f"{cells} cells in {len(units)} environments, about {minutes:.1f} minutes"
        f" with {planned.terms.jobs} at once."
    )
    say_before(planned, console)
    if planned.budget is not None:
        _say_left(planned, frozenset(_cells(every)) - frozenset(_cells(units)), console)


def _cells(units: Sequence[Unit]) -> list[Cell]:
    return [cell for unit in units for cell in unit.cells]


def say_before(planned: Run, console: Console) -> None:
    """Say what a plan by boundaries takes for granted."""
    if planned.asked is None:
        return
    every = _able(planned)
    known = sum(1 for cell in every if cell not in planned.asked and cell in planned.known)
    decisive = sum(1 for cell in every if cell in planned.asked)
    taken = len(every) - decisive - known
    console.print(
        f"By boundaries: {decisive} of {len(every)} cells can decide what the cases expect."
        f" {taken} others are taken to do what both their neighbours do, as long as those agree."
    )


def _able(planned: Run) -> list[Cell]:
    """Return the selected cells that can be run, known or not."""
    loaded = planned.project
    return [
        cell
        for name in loaded.names
        if name in planned.selection.environments
        for cell in applicable(planned.selected(name), loaded.cases, loaded.environments[name])
    ]


def say_after(
    planned: Run,
    tally: RunTally,
    mine: Sequence[Judged],
    rows: Sequence[Observation],
    console: Console,
) -> None:
    """Say what was not run: what is inferred, what the next plan asks, what had no time."""
    if planned.asked is not None:
        inferred = sum(one.inferred is not None for one in mine)
        none = "No cell is inferred: published evidence answers for what was not run here."
        console.print(
            f"{inferred} cells inferred: not run, between two measured releases whose outcome and"
            " signature agree. They count as unproven, and are never published."
            if inferred
            else none
        )
        known = known_rows(rows, planned.project)
        left = decided(planned, known).keys() - known.keys()
        if left:
            console.print(f"{len(left)} cells lie between some that disagree: run it again.")
    if planned.budget is not None:
        _say_left(planned, tally.left, console)
        lone = sum(one.verdict.is_unexpected and one.seen.repeats == 1 for one in mine)
        if lone and time.monotonic() >= planned.budget.until:
            console.print(
                f"{plural(lone, 'unexpected result')} seen once: "
                "`--only unexpected` repeats and confirms."
            )


def _say_left(planned: Run, left: frozenset[Cell], console: Console) -> None:
    budget = planned.budget
    if budget is None or not left:
        console.print("The budget was enough: nothing is left.")
        return
    worth = [budget.values.worth(cell) for cell in left]
    told = ", ".join(f"{worth.count(one)} {_WORDS[one]}" for one in Worth if one in worth)
    console.print(f"Left for another run: {len(left)} cells: {told}.")


_WORDS = {
    Worth.CHANGE: "beside a change",
    Worth.END: "at the end of a line",
    Worth.STALE: "stale",
    Worth.GAP: "in gaps",
    Worth.KNOWN: "known",
}
