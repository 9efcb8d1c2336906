"""What is known from evidence of today's cases and pins, and of a torch where one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from repromatrix.runner.audit.torches import (
    depending,
    is_alike,
    only_alike,
    release_of,
    standing_for,
    torch_sides,
)
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.snapshot import Snapshot
from repromatrix.runner.judging.verdicts import in_releases, only_in
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Line, Source, belongs
from repromatrix.runner.model.environment_name import under_torch, with_torch
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import (
    Device,
    Exercised,
    Outcome,
    Precision,
    reading_of,
)
from repromatrix.runner.model.packages import TORCH

if TYPE_CHECKING:
    from packaging.version import Version

_STILL = frozenset({Source.RELEASE, Source.PAIR, Source.TORCH, Source.STACK})
"""`main` moves and an interpreter is its owner's: nobody else's versions equal theirs."""


class CellResult(NamedTuple):
    """What is known of one measured cell."""

    fails: bool | None
    """None where no result can be relied on."""
    declines: bool
    """Whether the case itself cannot judge there."""
    why: str
    """Why it has no answer; empty where it has one."""


NOT_RUN = CellResult(fails=None, declines=False, why="was not run")
CONTESTED = CellResult(fails=None, declines=False, why="has contradicting results")


class MeasuredCell(NamedTuple):
    """What answers need of a current row; the row itself is read where it is shown."""

    result: CellResult
    ran: tuple[str, str] | None
    """The build of torch and the version of Python; None where the machine decided."""


Lines = Mapping[Line, Mapping[str, MeasuredCell]]
"""What was measured, by case, workaround, precision and device, then by environment."""
OtherLines = Mapping[Line, Mapping[str, MeasuredCell | None]]
"""The same under other torches; None where no row is current."""
_NOTHING: Mapping[str, MeasuredCell] = MappingProxyType({})


def measured(row: Observation) -> MeasuredCell:
    """Return what answers need of a current row; equal ones are one object."""
    facts = (row.outcome, row.exercised, row.cell.precision, row.unstable)
    return measured_on(facts, row.provenance.torch_build, row.provenance.python)


@lru_cache(maxsize=4096)
def measured_on(
    facts: tuple[Outcome, Exercised, Precision, bool], build: str, python: str
) -> MeasuredCell:
    """Return the same of what was seen, and whether it is unstable, with a torch and a Python."""
    outcome, exercised, precision, unstable = facts
    fails = reading_of(outcome, exercised, unstable=unstable).fails
    if fails is not None:
        why = ""
    elif unstable:
        why = "is unstable"
    elif outcome.reading.fails is not None:
        why = f"never computed in {precision}"
    else:
        why = outcome.verb
    declines = outcome is Outcome.DECLINES and not unstable
    ran = (build, python) if outcome.is_evidence else None
    return MeasuredCell(CellResult(fails, declines, why), ran)


@dataclass(frozen=True, kw_only=True)
class KnownEvidence:
    """Cases, the environments whose versions never change, and the rows of the one in the other."""

    cases: Mapping[str, Case]
    environments: Mapping[str, Environment]
    lines: Lines
    """What was measured of each cell; nothing of contested ones."""
    row_of: Callable[[Cell], Observation]
    """Gives the row of one of these cells, as it was measured."""
    moved: Mapping[Cell, Cell]
    """Cells for which another one stands, which was measured under another torch."""
    contested: Mapping[Cell, Observation]
    """Cells about which the sources disagree: they answer nothing."""
    commits: tuple[PinnedCommit, ...] = ()
    """The breaks and fixes that were searched for their commit."""
    snapshot: Snapshot | None = None
    """The newest publication; None where nothing was published."""
    torch: str = ""
    """The torch that it is known for; empty: that of the releases."""
    by_torch: frozenset[str] = frozenset()
    """The cases that depend on torch of which only what ends as under that torch is known."""

    def of(self, case: Case) -> Iterator[Environment]:
        """Yield the environments that a case has cells in, in the order of the table.

        What was measured under another torch stands for the release below it.
        """
        return (
            environment
            for environment in self.environments.values()
            if self.holds(case, environment)
        )

    def holds(self, case: Case, environment: Environment) -> bool:
        """Say whether a case has cells in an environment of which something could be known."""
        return (
            environment.source is not Source.TORCH
            and belongs(case, environment)
            and (case.name not in self.by_torch or (case.name, environment.name) in self._held)
        )

    @cached_property
    def _held(self) -> frozenset[tuple[str, str]]:
        """The environments in which a case that depends on torch has any row."""
        return frozenset(
            (case, name)
            for (case, *_), line in self.lines.items()
            if case in self.by_torch
            for name in line
        )

    @cached_property
    def torch_of_releases(self) -> str:
        """The torch that the releases were measured with."""
        return next((self.environments[name].version(TORCH) for name in self.releases()), "")

    def is_for(self, case: Case, torch: str) -> bool:
        """Say whether what is known of a case says anything about a version of torch."""
        if case.name not in self.by_torch:
            return torch_sides(case, torch) == torch_sides(case, self.torch_of_releases)
        is_held = any(name == case.name for name, _ in self._held)
        return is_held and torch_sides(case, torch) == torch_sides(case, self.torch)

    def unusable(self, release: str) -> str:
        """Say why no case can be run on a release with that torch; empty where it can."""
        held = self.environments.get(with_torch(release, self.torch)) if self.torch else None
        return held.unusable if held else ""

    def commits_of(self, case: str) -> Sequence[PinnedCommit]:
        """Return the breaks and fixes of a case that were searched for their commit."""
        return self._commits.get(case, ())

    @cached_property
    def _commits(self) -> dict[str, list[PinnedCommit]]:
        found: dict[str, list[PinnedCommit]] = {}
        for row in self.commits:
            found.setdefault(row.case, []).append(row)
        return found

    def only_in(self, case: Case) -> tuple[Environment, ...]:
        """Return the stacks or pairs that have what a case needs and no release has."""
        return only_in(case, self.environments.values(), self._in_releases)

    @cached_property
    def _in_releases(self) -> frozenset[str]:
        return in_releases(self.environments.values())

    def releases(self) -> tuple[str, ...]:
        """Return the published releases, oldest first."""
        return tuple(
            environment.name
            for environment in self.environments.values()
            if environment.source is Source.RELEASE and not environment.extras
        )

    def span(self, package: str) -> tuple[Version, Version] | None:
        """Return the oldest and the newest version of a package; None where none was measured."""
        texts = {environment.version(package) for environment in self.environments.values()}
        versions = [release_of(package, text) for text in texts if text]
        return (min(versions), max(versions)) if versions else None

    def ran_on(self, device: Device) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the builds of torch and the minor versions of Python that a device ran with."""
        ran = self._ran[device]
        builds = {build for build, _ in ran if build}
        pythons = {".".join(python.split(".")[:2]) for _, python in ran if python}
        return tuple(sorted(builds)), tuple(sorted(pythons))

    @cached_property
    def _ran(self) -> dict[Device, set[tuple[str, str]]]:
        """The builds of torch and the versions of Python of all that ran, by device."""
        found: dict[Device, set[tuple[str, str]]] = {device: set() for device in Device}
        for (_, _, _, device), line in self.lines.items():
            found[device].update(cell.ran for cell in {*line.values()} if cell.ran)
        for cell, row in self.contested.items():
            if row.outcome.is_evidence and not under_torch(cell.environment):
                ran = (side.provenance for side in row.sides)
                found[cell.device].update((one.torch_build, one.python) for one in ran)
        return found

    def line(
        self, case: str, workaround: str, precision: Precision, device: Device
    ) -> Mapping[str, MeasuredCell]:
        """Return what was measured of a case, by environment."""
        return self.lines.get((case, workaround, precision, device), _NOTHING)

    def row(self, cell: Cell) -> Observation:
        """Return the row that answers for a measured cell."""
        return self.row_of(self.moved.get(cell, cell))

    def fails(self, cell: Cell) -> bool | None:
        """Return whether a cell fails; None where no result can be relied on."""
        return self.result(cell).fails

    def result(self, cell: Cell) -> CellResult:
        """Return all that an answer may need of a cell."""
        found = self.lines.get(cell.line, _NOTHING).get(cell.environment)
        if found is None:
            return CONTESTED if cell in self.contested else NOT_RUN
        return found.result


def known(
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
    rows: Iterable[Observation],
    commits: Iterable[PinnedCommit] = (),
    torch: str = "",
) -> KnownEvidence:
    """Return what is known from evidence: only what is measured on today's cases and pins."""
    seen, contested = current(rows, cases, still(environments))
    ours, others = lines_of(seen)
    return concluded(
        *(cases, environments, ours, others, seen.__getitem__),
        contested=contested,
        commits=commits,
        torch=torch,
    )


def lines_of(
    rows: Mapping[Cell, Observation],
) -> tuple[dict[Line, dict[str, MeasuredCell]], dict[Line, dict[str, MeasuredCell]]]:
    """Return what current rows say, and apart from it what those under other torches say."""
    ours: dict[Line, dict[str, MeasuredCell]] = {}
    others: dict[Line, dict[str, MeasuredCell]] = {}
    for cell, row in rows.items():
        lines = others if under_torch(cell.environment) else ours
        lines.setdefault(cell.line, {})[cell.environment] = measured(row)
    return ours, others


def still(environments: Mapping[str, Environment]) -> dict[str, Environment]:
    """Return the environments whose versions never change."""
    return {
        name: environment
        for name, environment in environments.items()
        if environment.source in _STILL
    }


def concluded(  # noqa: PLR0913 - what was measured, and of what
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
    ours: Lines,
    others: OtherLines,
    row_of: Callable[[Cell], Observation],
    *,
    contested: Mapping[Cell, Observation] = MappingProxyType({}),
    commits: Iterable[PinnedCommit] = (),
    torch: str = "",
    snapshot: Snapshot | None = None,
) -> KnownEvidence:
    """Return what is known from current results, `others` being those under other torches.

    `row_of` gives the row of one of their cells. A cell that was measured under `torch` as well
    answers with that row. Of a case that depends on torch only what was measured with one that is
    alike is known.
    """
    held = still(environments)
    under: Lines = {
        line: {name: cell for name, cell in cells.items() if cell and name in held}
        for line, cells in others.items()
    }
    by_torch = depending(torch, cases, (ours, under), held) if torch else {}
    ours = only_alike(ours, by_torch, held)
    under = only_alike(under, by_torch, held)
    lines, moved = dict(ours), {}
    for line, names in standing_for(torch, ours, under, by_torch, held):
        case, workaround, precision, device = line
        lines[line] = {
            **ours.get(line, {}),
            **{at: under[line][name] for at, name in names.items()},
        }
        for at, name in names.items():
            cell = Cell(case, workaround, at, precision, device)
            moved[cell] = cell._replace(environment=name)
    return KnownEvidence(
        cases=cases,
        environments=held,
        lines=lines,
        row_of=row_of,
        moved=moved,
        contested={
            cell: row
            for cell, row in contested.items()
            if cell not in moved and is_alike(cell, by_torch, held)
        },
        commits=tuple(row for row in commits if {row.before, row.at} <= held.keys()),
        snapshot=snapshot,
        torch=torch,
        by_torch=frozenset(by_torch),
    )
