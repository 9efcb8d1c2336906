"""Everything that the page is about, completed: every cell of the table, observed or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from reports import tables
from runner.model.cell import Cell, Source, belongs
from runner.model.naming import with_extras
from runner.model.observation import LOCAL
from runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from runner.judging.verdicts import Judged
    from runner.model.case import Case
    from runner.model.cell import Environment

_IN_THE_TABLE = frozenset({Source.RELEASE, Source.MAIN})


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Cases, environments in the order of the table, and one judged observation per cell."""

    cases: Mapping[str, Case]
    environments: Sequence[Environment]
    rows: Mapping[Cell, Judged]
    areas: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names of all environments, oldest first."""
        return tuple(environment.name for environment in self.environments)

    @cached_property
    def columns(self) -> tuple[Environment, ...]:
        """The columns of the table: what is laid on top of a release stands in its column."""
        return tuple(item for item in self.environments if item.column == item.name)

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """The names of the columns that follow each other in time: releases, then main."""
        return tuple(item.name for item in self.columns if item.source in _IN_THE_TABLE)

    def standing(self, case: Case, column: str) -> str:
        """Return the environment of a case in a column."""
        return with_extras(column, case.extras) if column in self.releases else column

    @cached_property
    def by_name(self) -> dict[str, Environment]:
        """The environments by their names."""
        return {environment.name: environment for environment in self.environments}

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The devices that something was observed on; the CPU when nothing was."""
        found = {cell.device for cell in self.rows}
        return tuple(device for device in Device if device in found) or (Device.CPU,)

    @cached_property
    def simulated(self) -> frozenset[str]:
        """The cases in which a stand-in keeps the contract of a real part."""
        return frozenset(name for name, case in self.cases.items() if case.block.simulates)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell of the table, also those without an observation."""
        return tuple(
            Cell(case.name, workaround, environment.name, precision, device)
            for device in self.devices
            for case in self.cases.values()
            for environment in self.environments
            if self._belongs(case, environment)
            for workaround in case.variants
            for precision in Precision
        )

    @cached_property
    def marks(self) -> pd.DataFrame:
        """One row per cell of the table, with its mark and its flags."""
        return tables.marks(self.rows.values(), self.cells, self.simulated)

    @cached_property
    def pivot(self) -> tables.Pivot:
        """The marks by precision of every case, workaround, device and release."""
        return tables.pivot(self.marks)

    def of_case(self, name: str) -> list[Judged]:
        """Return what was observed of a case, in the order of the table."""
        variants = list(self.cases[name].variants)
        found = [row for cell, row in self.rows.items() if cell.case == name]
        ordered = tables.in_order(found, self.order)
        # The workarounds of a case stand in the order of its file, not in that of the alphabet.
        return sorted(ordered, key=lambda row: variants.index(row.seen.cell.workaround))

    def on(self, device: Device) -> str:
        """Return `, cuda` where a device must be named because there are several."""
        return f", {device}" if len(self.devices) > 1 else ""

    def _belongs(self, case: Case, environment: Environment) -> bool:
        observed = (case.name, environment.name) in self._observed
        # Of another machine's interpreter nothing is missing where nothing was observed.
        asked = environment.source is not Source.INTERPRETER and belongs(case, environment)
        return observed or asked

    @cached_property
    def _observed(self) -> frozenset[tuple[str, str]]:
        return frozenset((cell.case, cell.environment) for cell in self.rows)


def survey(
    cases: Mapping[str, Case],
    environments: Sequence[Environment],
    judged: Iterable[Judged],
    areas: Mapping[str, str] | None = None,
) -> Survey:
    """Arrange evidence; of two observations of a cell one that was run counts, then a local one."""
    known = {environment.name for environment in environments}
    rows: dict[Cell, Judged] = {}
    for row in sorted(judged, key=_preference):
        cell = row.seen.cell
        variants = cases[cell.case].variants if cell.case in cases else ()
        if cell.environment in known and cell.workaround in variants:
            rows.setdefault(cell, row)
    return Survey(cases=cases, environments=environments, rows=rows, areas=areas or {})


def _preference(row: Judged) -> tuple[bool, bool, str]:
    return (not row.seen.outcome.was_run, row.seen.source != LOCAL, row.seen.source)
