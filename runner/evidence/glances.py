"""What answers for each cell, at a glance: the rest of a row is read when it is asked for.

An answer about somebody's versions looks at thousands of cells, to see whether they pass, and
shows a few of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from repromatrix.runner.evidence import answers, published
from repromatrix.runner.evidence.answering import answering_row, answering_rows, is_standing
from repromatrix.runner.evidence.database import addressed
from repromatrix.runner.evidence.published import WRITTEN, Keep, PublishedSheet
from repromatrix.runner.judging.ranges import fails
from repromatrix.runner.judging.verdicts import is_current, stands
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths

Ran = tuple[str, str]
"""The build of torch and the version of Python."""


class Glance(NamedTuple):
    """Whether cells fail, and how to read one of them in full."""

    fails: bool | None
    """None where nothing is known that could be relied on."""
    read: Callable[[Cell], Observation]
    counts: bool = True
    """Whether it is current and undisputed; the others answer nothing."""


class GlancedRows(Mapping["Cell", "Observation"]):
    """The observation that answers for each cell, read in full when it is looked up."""

    def __init__(self, cases: Mapping[str, Case], environments: Mapping[str, Environment]) -> None:
        """Begin with nothing; what is added must be about these cases and environments."""
        self.cases, self.environments = cases, environments
        self.ran: set[tuple[Device, Ran]] = set()
        """What was measured with, by the device."""
        self.contested: set[Cell] = set()
        """Cells about which the sources disagree: they answer nothing."""
        self._glances: dict[Cell, Glance] = {}
        self._read: dict[Cell, Observation] = {}

    def add(self, cells: Collection[Cell], glance: Glance) -> None:
        """Add what a current published row says of some cells."""
        twice = [cell for cell in cells if cell in self._glances]
        for cell in twice:
            self.take(glance.read(cell))
        if twice:
            cells = [cell for cell in cells if cell not in twice]
        self._glances.update(dict.fromkeys(cells, glance))

    def take(self, row: Observation) -> None:
        """Add a row; where another is known, both are read to see which answers."""
        if not self._is_standing(row):
            return
        before = self._glances.get(row.cell)
        if before is None:
            self.put(row)
        else:
            self.put(answering_row([before.read(row.cell), row], self._is_standing))

    def put(self, row: Observation) -> None:
        """Add the row that answers for a cell."""
        case, environment = self.cases[row.cell.case], self.environments[row.cell.environment]
        today = is_current(row, case, environment)
        counts = today and not row.sides
        self._glances[row.cell] = Glance(fails(row), lambda _: row, counts)
        if today and row.sides:
            self.contested.add(row.cell)
        if today and row.outcome.is_evidence:
            for side in row.sides or [row]:
                ran = side.provenance
                self.ran.add((side.cell.device, (ran.torch_build, ran.python)))

    def _is_standing(self, row: Observation) -> bool:
        cell = row.cell
        return is_standing(row, self.cases[cell.case], self.environments[cell.environment])

    def fails(self, cell: Cell) -> bool | None:
        """Say whether a cell fails; None where nothing is known that could be relied on."""
        glance = self._glances.get(cell)
        return glance.fails if glance is not None and glance.counts else None

    def failing(self) -> list[Cell]:
        """Return the cells that are known to fail."""
        return [cell for cell, glance in self._glances.items() if glance.fails and glance.counts]

    def __getitem__(self, cell: Cell) -> Observation:
        glance = self._glances[cell]
        if not glance.counts:
            raise KeyError(cell)
        if cell not in self._read:
            self._read[cell] = glance.read(cell)
        return self._read[cell]

    def __iter__(self) -> Iterator[Cell]:
        return (cell for cell, glance in self._glances.items() if glance.counts)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def of_rows(
    rows: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> GlancedRows:
    """Return what answers of observations that have been read."""
    seen = GlancedRows(cases, environments)
    for cell, row in answering_rows(rows, cases, environments).items():
        if cell.case in cases and cell.environment in environments:
            seen.put(row)
    return seen


def of_places(
    places: Paths,
    say: Callable[[str], None],
    about: tuple[Mapping[str, Case], Mapping[str, Environment]],
    cases: Collection[str] | None = None,
    keep: Keep | None = None,
) -> GlancedRows:
    """Return what answers of published and local evidence; the local comes last."""
    seen = GlancedRows(*about)
    for sheet in published.sheets(places.published, cases):
        if sheet.case in seen.cases:
            with addressed(sheet.where, WRITTEN):
                _look(sheet, seen, keep)
    if places.store.exists():
        with answers.opened_to_read(places, say) as store:
            for row in store.rows(cases, keep):
                if row.cell.case in seen.cases and row.cell.environment in seen.environments:
                    seen.take(row)
    return seen


def _look(sheet: PublishedSheet, seen: GlancedRows, keep: Keep | None) -> None:
    today = _today(sheet, seen)
    for wanted, rows in sheet.variants(keep) if today else ():
        names = {
            publication: ran.keys() if wanted is None else ran.keys() & wanted
            for publication, ran in today.items()
        }
        for row in rows:
            cells = sheet.cells(row, names.get(row.publication, ()))
            outcome = Outcome(row.outcome)
            if cells and outcome.was_run:
                answer = published.fails(row.outcome, row.exercised, row.flags)
                seen.add(cells, Glance(answer, partial(sheet.observation, row)))
                if outcome.is_evidence:
                    today_ran = today[row.publication]
                    seen.ran.update({(cell.device, today_ran[cell.environment]) for cell in cells})


def _today(sheet: PublishedSheet, seen: GlancedRows) -> Mapping[str, Mapping[str, Ran]]:
    """Return what ran what, by publication and environment: where both are those of today."""
    found: defaultdict[str, dict[str, Ran]] = defaultdict(dict)
    case = seen.cases[sheet.case]
    for (name, publication), held in sheet.held.items():
        environment = seen.environments.get(name)
        measured_on = (sheet.case_digest, held.digest, published.MEASURED)
        if environment is not None and stands(measured_on, case, environment):
            found[publication][name] = (held.torch, held.python)
    return found
