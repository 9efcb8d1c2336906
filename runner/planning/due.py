"""Which cells are due: those whose result is not to be expected from that of others. Pure.

A case that starts processes or compiles takes far longer than others, and many workarounds stand
where their case passes without them: neither has to be measured on every release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

from packaging.version import Version

from repromatrix.runner.judging.ranges import fails
from repromatrix.runner.judging.verdicts import covering, live
from repromatrix.runner.model.case import PLAIN, Case, Isolation, Trigger
from repromatrix.runner.model.cell import Cell, Environment, Source, belongs
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.planning.plan import Axes, Why, deciding

_HEAVY = frozenset({Trigger.COMPILE, Trigger.DISTRIBUTED})


def is_heavy(case: Case) -> bool:
    """Say whether a case starts processes or compiles."""
    block = case.block
    return (
        block.processes > 1
        or block.isolation is Isolation.PROCESS
        or not _HEAVY.isdisjoint(block.triggers)
    )


def due(grid: Axes, known: Mapping[Cell, Observation]) -> Callable[[Cell], bool]:
    """Return what says whether a cell of the grid is due, by expectations and what is known.

    On a release that is not the newest of its minor line, and not beside a change, two kinds of
    cells are not due: those of a case that starts processes or compiles, and those of a workaround
    where its case passes in that precision. What is known to deny its neighbours is a change.
    """
    decisive = deciding(grid, known)
    newest = _newest_of_lines(grid.environments)
    failing = _failing(grid, known)

    def is_due(cell: Cell) -> bool:
        if cell.environment in newest or cell in decisive:
            return True
        plain = cell._replace(workaround=PLAIN)
        if decisive.get(plain) is Why.CHANGE:
            return True
        if is_heavy(grid.cases[cell.case]):
            return False
        return cell == plain or plain in failing

    return is_due


def _newest_of_lines(environments: Mapping[str, Environment]) -> frozenset[str]:
    """Return the newest release of each minor line, and all that is no release."""
    newest: dict[object, str] = {}
    for name, environment in environments.items():
        line: object = name
        if environment.source is Source.RELEASE:
            line = (Version(environment.column).release[:2], environment.extras)
        newest[line] = name
    return frozenset(newest.values())


def _failing(grid: Axes, known: Mapping[Cell, Observation]) -> frozenset[Cell]:
    """Return the plain cells that are expected or known to fail."""
    found = {cell for cell, row in known.items() if not cell.workaround and fails(row)}
    for case, environment in product(grid.cases.values(), grid.environments.values()):
        if belongs(case, environment) and (entries := live(case, environment)):
            for precision in grid.precisions:
                cell = Cell(case.name, PLAIN, environment.name, precision, grid.device)
                if covering(entries, cell) is not None:
                    found.add(cell)
    return frozenset(found)
