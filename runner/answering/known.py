"""What is known when a question is asked, and the question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from runner.evidence.glances import of_rows
from runner.judging.apart import in_releases, only_in
from runner.judging.ranges import fails
from runner.model.cell import Cell, Source, belongs
from runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runner.evidence.glances import Seen
    from runner.model.case import Case
    from runner.model.cell import Environment
    from runner.model.observation import Observation

_STILL = frozenset({Source.RELEASE, Source.PAIR, Source.STACK})
"""What `main` holds moves, and an interpreter is somebody's own: nobody's versions equal theirs."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """Cases, the environments that stand still, and what was seen of the one in the other."""

    cases: Mapping[str, Case]
    environments: Mapping[str, Environment]
    seen: Seen
    """What is current; of a contested cell nothing."""

    def of(self, case: Case) -> Iterator[Environment]:
        """Yield the environments that a case has cells in, in the order of the table."""
        return (one for one in self.environments.values() if belongs(case, one))

    def only_in(self, case: Case) -> tuple[Environment, ...]:
        """Return the stacks or pairs that have what a case needs and no release has."""
        return only_in(case, self.environments.values(), self._in_releases)

    @cached_property
    def _in_releases(self) -> frozenset[str]:
        return in_releases(self.environments.values())

    def releases(self) -> tuple[str, ...]:
        """Return the published releases, oldest first."""
        return tuple(
            one.name
            for one in self.environments.values()
            if one.source is Source.RELEASE and not one.extras
        )

    def ran_on(self, device: Device) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the builds of torch and the minor versions of Python that a device ran with."""
        ran = [one for where, one in self.seen.ran if where is device]
        builds = {build for build, _ in ran if build}
        pythons = {".".join(python.split(".")[:2]) for _, python in ran if python}
        return tuple(sorted(builds)), tuple(sorted(pythons))

    def fails(self, cell: Cell) -> bool | None:
        """Say whether a cell fails; None where nothing is known that could be relied on."""
        return self.seen.fails(cell)

    def declines(self, cell: Cell) -> bool:
        """Say whether the case itself cannot judge there: no run would change that."""
        seen = self.seen.get(cell)
        return seen is not None and seen.outcome is Outcome.DECLINES and not seen.unstable

    def why_silent(self, cell: Cell) -> str:
        """Say why a cell answers nothing; empty where it does answer."""
        seen = self.seen.get(cell)
        if seen is None:
            return (
                "is said otherwise by two sources" if cell in self.seen.contested else "was not run"
            )
        if fails(seen) is not None:
            return ""
        if seen.unstable:
            return "is unstable"
        if seen.outcome is Outcome.PASSES or seen.outcome.is_failure:
            return f"never computed in {cell.precision}"
        return "declines to judge" if seen.outcome is Outcome.DECLINES else f"is {seen.outcome}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """Which cells are asked about; no case means all of them."""

    cases: tuple[str, ...] = ()
    precisions: tuple[Precision, ...] = tuple(Precision)
    device: Device = Device.CPU
    ignored: frozenset[str] = frozenset()

    def chosen(self, cases: Mapping[str, Case]) -> tuple[Case, ...]:
        """Return the cases that are asked about."""
        return tuple(cases[name] for name in self.cases or cases if name not in self.ignored)


def known(
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
    rows: Iterable[Observation],
) -> Known:
    """Return what is known from evidence: only what is measured on today's cases and pins."""
    still = standing_still(environments)
    return Known(cases=cases, environments=still, seen=of_rows(rows, cases, still))


def standing_still(environments: Mapping[str, Environment]) -> dict[str, Environment]:
    """Return the environments that somebody's versions may equal."""
    return {name: one for name, one in environments.items() if one.source in _STILL}
