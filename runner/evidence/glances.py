"""What answers for each cell, at a glance: the rest of a row is read when it is asked for.

An answer about somebody's versions looks at thousands of cells, to see whether they pass, and
shows a few of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from runner.evidence import published, reading
from runner.evidence.damage import addressed
from runner.evidence.publications import WRITTEN
from runner.judging.currency import contests, is_current, stands
from runner.judging.ranges import fails, judged
from runner.model.observation import LOCAL
from runner.model.outcomes import Device, Exercised, Outcome

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator

    from runner.evidence.published import Keep, Sheet
    from runner.evidence.store import Store
    from runner.model.case import Case
    from runner.model.cell import Cell, Environment
    from runner.model.observation import Observation, Provenance
    from runner.places import Places

    Ran = tuple[str, str]
    """The build of torch and the version of Python."""


class Glance(NamedTuple):
    """Whether cells fail, and how to read one of them in full."""

    fails: bool | None
    """None where nothing is known that could be relied on."""
    repeats: int
    read: Callable[[Cell], Observation]


class Seen(Mapping["Cell", "Observation"]):
    """The observation that answers for each cell, read in full when it is looked up."""

    def __init__(self, cases: Mapping[str, Case], environments: Mapping[str, Environment]) -> None:
        """Begin with nothing; what is added must be about these cases and environments."""
        self.cases, self.environments = cases, environments
        self.ran: set[tuple[Device, Ran]] = set()
        """What was measured with, by the device."""
        self.contested: set[Cell] = set()
        """Cells that one source saw fail and another saw pass: they answer nothing."""
        self._glances: dict[Cell, Glance] = {}
        self._read: dict[Cell, Observation] = {}

    def add(self, cells: Collection[Cell], glance: Glance) -> None:
        """Add what answers today for some cells; of two sources the later one counts."""
        for cell in () if self._glances.keys().isdisjoint(cells) else cells:
            before = self._glances.get(cell)
            if before is not None and contests(before.fails, glance.fails, glance.repeats):
                self.contested.add(cell)
        self._glances.update(dict.fromkeys(cells, glance))

    def fails(self, cell: Cell) -> bool | None:
        """Say whether a cell fails; None where nothing is known that could be relied on."""
        glance = self._glances.get(cell)
        return None if glance is None or cell in self.contested else glance.fails

    def failing(self) -> list[Cell]:
        """Return the cells that are known to fail."""
        found = [cell for cell, glance in self._glances.items() if glance.fails]
        return [cell for cell in found if cell not in self.contested]

    def __getitem__(self, cell: Cell) -> Observation:
        if cell in self.contested:
            raise KeyError(cell)
        if cell not in self._read:
            self._read[cell] = self._glances[cell].read(cell)
        return self._read[cell]

    def __iter__(self) -> Iterator[Cell]:
        return (cell for cell in self._glances if cell not in self.contested)

    def __len__(self) -> int:
        return len(self._glances) - len(self.contested)


def of_rows(
    rows: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> Seen:
    """Return what answers of observations that have been read; the later ones count."""
    seen = Seen(cases, environments)
    _add(rows, seen)
    return seen


def _add(rows: Iterable[Observation], seen: Seen) -> None:
    for row in rows:
        case = seen.cases.get(row.cell.case)
        environment = seen.environments.get(row.cell.environment)
        if case is None or environment is None or not is_current(row, case, environment):
            continue
        seen.add([row.cell], Glance(fails(row), row.repeats, partial(_given, row)))
        seen.ran.add((row.cell.device, (row.provenance.torch_build, row.provenance.python)))


def _given(row: Observation, _: Cell) -> Observation:
    return row


def of_places(
    places: Places,
    say: Callable[[str], None],
    about: tuple[Mapping[str, Case], Mapping[str, Environment]],
    cases: Collection[str] | None = None,
    keep: Keep | None = None,
) -> Seen:
    """Return what answers of published and local evidence; the local comes last."""
    seen = Seen(*about)
    for sheet in published.sheets(places.published, cases):
        if sheet.case in seen.cases:
            with addressed(sheet.where, WRITTEN):
                _look(sheet, seen, keep)
    if places.store.exists():
        with reading.opened_to_read(places, say) as store:
            _look_into(store, seen, cases, keep)
    return seen


def _look(sheet: Sheet, seen: Seen, keep: Keep | None) -> None:
    today = _today(sheet, seen)
    for wanted, rows in sheet.variants(keep) if today else ():
        names = {
            publication: ran.keys() if wanted is None else ran.keys() & wanted
            for publication, ran in today.items()
        }
        for row in rows:
            cells = sheet.cells(row, names.get(row.publication, ()))
            if cells and Outcome(row.outcome).was_run:
                answer = published.fails(row.outcome, row.exercised, row.flags)
                seen.add(cells, Glance(answer, 1, partial(sheet.observation, row)))
                today_ran = today[row.publication]
                seen.ran.update({(cell.device, today_ran[cell.environment]) for cell in cells})


def _today(sheet: Sheet, seen: Seen) -> Mapping[str, Mapping[str, Ran]]:
    """Return what ran what, by publication and environment: where both are those of today."""
    found: defaultdict[str, dict[str, Ran]] = defaultdict(dict)
    case = seen.cases[sheet.case]
    for (name, publication), held in sheet.held.items():
        environment = seen.environments.get(name)
        measured_on = (sheet.case_digest, held.digest, published.MEASURED)
        if environment is not None and stands(measured_on, case, environment):
            found[publication][name] = (held.torch, held.python)
    return found


def _look_into(store: Store, seen: Seen, cases: Collection[str] | None, keep: Keep | None) -> None:
    from runner.evidence.columns import cell_of, observation  # noqa: PLC0415 - a clone has none

    if store.has_merged:  # who answers is known once all sides of a cell are
        _add(store.rows(cases, keep), seen)
        return

    def in_full(row: sqlite3.Row, ran: Provenance, _: Cell) -> Observation:
        return observation(row, ran, LOCAL)

    for row, ran in store.selected(cases, keep):
        case = seen.cases.get(row["case_name"])
        environment = seen.environments.get(row["environment"])
        outcome = Outcome(row["outcome"])
        measured_on = (ran.case_digest, ran.environment_digest, ran.protocol)
        if case is None or environment is None or not outcome.was_run:
            continue
        if stands(measured_on, case, environment):
            answer = judged(outcome, Exercised(row["exercised"]), unstable=bool(row["unstable"]))
            glance = Glance(answer, row["repeats"], partial(in_full, row, ran))
            seen.add([cell_of(row)], glance)
            seen.ran.add((Device(row["device"]), (ran.torch_build, ran.python)))
