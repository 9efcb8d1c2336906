"""What is known from evidence of today's cases and pins, and of a torch where one is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from repromatrix.runner.audit.torches import (
    depending,
    is_alike,
    release_of,
    seen_under,
    torch_sides,
)
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.snapshot import Snapshot
from repromatrix.runner.judging.verdicts import in_releases, only_in
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Source, belongs
from repromatrix.runner.model.environment_name import under_torch, with_torch
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome
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


@dataclass(frozen=True, kw_only=True)
class KnownEvidence:
    """Cases, the environments whose versions never change, and the rows of the one in the other."""

    cases: Mapping[str, Case]
    environments: Mapping[str, Environment]
    seen: Mapping[Cell, Observation]
    """The current row of each cell; contested cells have none."""
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
            held
            for held in self.environments.values()
            if held.source is not Source.TORCH
            and belongs(case, held)
            and (case.name not in self.by_torch or (case.name, held.name) in self._held)
        )

    @cached_property
    def _held(self) -> frozenset[tuple[str, str]]:
        """The environments in which a case that depends on torch has any row."""
        return frozenset(
            (cell.case, cell.environment) for cell in self.seen if cell.case in self.by_torch
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
        ran = {
            (cell.device, cell.environment, side.provenance.torch_build, side.provenance.python)
            for cell, row in (*self.seen.items(), *self.contested.items())
            if row.outcome.is_evidence
            for side in row.sides or (row,)
        }
        found: dict[Device, set[tuple[str, str]]] = {device: set() for device in Device}
        for device, environment, build, python in ran:
            if not under_torch(environment):
                found[device].add((build, python))
        return found

    def fails(self, cell: Cell) -> bool | None:
        """Return whether a cell fails; None where no result can be relied on."""
        row = self.seen.get(cell)
        return None if row is None else row.reading.fails

    def declines(self, cell: Cell) -> bool:
        """Return whether the case itself cannot judge there: no run would change that."""
        row = self.seen.get(cell)
        return row is not None and row.outcome is Outcome.DECLINES and not row.unstable

    def result(self, cell: Cell) -> CellResult:
        """Return all that an answer may need of a cell."""
        return CellResult(self.fails(cell), self.declines(cell), self.why_silent(cell))

    def why_silent(self, cell: Cell) -> str:
        """Say why a cell has no answer; empty where it has one."""
        row = self.seen.get(cell)
        if row is None:
            return "has contradicting results" if cell in self.contested else "was not run"
        if row.reading.fails is not None:
            return ""
        if row.unstable:
            return "is unstable"
        if row.outcome.reading.fails is not None:
            return f"never computed in {cell.precision}"
        return row.outcome.verb


def known(
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
    rows: Iterable[Observation],
    commits: Iterable[PinnedCommit] = (),
    torch: str = "",
) -> KnownEvidence:
    """Return what is known from evidence: only what is measured on today's cases and pins.

    A cell that was measured under `torch` as well answers with that row. Of a case that depends on
    torch only what was measured with one that is alike is known.
    """
    still = {
        name: environment
        for name, environment in environments.items()
        if environment.source in _STILL
    }
    seen, contested = current(rows, cases, still)
    by_torch = depending(torch, cases, seen, still) if torch else {}
    alike = {cell: row for cell, row in seen.items() if is_alike(cell, by_torch, still)}
    under = seen_under(torch, alike, by_torch, still)
    contested = {
        cell: row
        for cell, row in contested.items()
        if cell not in under and is_alike(cell, by_torch, still)
    }
    seen = {cell: row for cell, row in alike.items() if not under_torch(cell.environment)} | under
    return KnownEvidence(
        cases=cases,
        environments=still,
        seen=seen,
        contested=contested,
        commits=tuple(row for row in commits if {row.before, row.at} <= still.keys()),
        torch=torch,
        by_torch=frozenset(by_torch),
    )
