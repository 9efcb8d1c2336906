"""The evidence arranged for pages: every cell of the table, observed or not.

What every page of a case needs is computed once for all cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import chain
from typing import Any, Concatenate, ParamSpec, TypeVar

from repromatrix.reports.marks import Mark, SeenMark, mark_of, seen_as
from repromatrix.reports.text import spans, visible
from repromatrix.runner.evidence.commits import ChangeKey, PinnedCommit
from repromatrix.runner.evidence.history import MainHistory
from repromatrix.runner.judging.counts import Bug, bugs_of
from repromatrix.runner.judging.ranges import Affected, Axis, Range, affected, axes, ranges_along
from repromatrix.runner.judging.verdicts import (
    CheckedClaim,
    Judged,
    check_claims,
    in_releases,
    only_in,
)
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell, Environment, Source, belongs
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision

SeriesKey = tuple[str, Device, Precision]
"""Workaround, device and precision."""

Series = dict[SeriesKey, dict[str, "Judged"]]
"""What was observed, by environment, oldest first."""

Failing = dict[SeriesKey, dict[str, bool]]

Stack = tuple[SeenMark, ...]
"""What the cells of one variant in one environment show, one per precision."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Asked = ParamSpec("_Asked")


class Once(dict[_Key, _Value]):
    """Values that are computed where they are first asked for."""

    def __init__(self, compute: Callable[[_Key], _Value]) -> None:
        """Compute nothing yet."""
        super().__init__()
        self._compute = compute

    def __missing__(self, key: _Key) -> _Value:
        """Compute the value, and keep it."""
        value = self[key] = self._compute(key)
        return value


def once_of_a_survey(
    compute: Callable[Concatenate[Survey, _Asked], _Value],
) -> Callable[Concatenate[Survey, _Asked], _Value]:
    """Let a function of a survey compute each result once; the survey keeps it."""

    @wraps(compute)
    def result(survey: Survey, /, *asked: _Asked.args, **named: _Asked.kwargs) -> _Value:
        key = (compute, *asked)
        if key not in survey.results:
            survey.results[key] = compute(survey, *asked, **named)
        return survey.results[key]  # type: ignore[no-any-return]

    return result


_IN_THE_TABLE = frozenset({Source.RELEASE, Source.MAIN})


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Cases, environments in the order of the table, and one judged observation per cell."""

    cases: Mapping[str, Case]
    environments: Sequence[Environment]
    rows: Mapping[Cell, Judged]
    dates: Mapping[str, str] = field(default_factory=dict)
    """The day on which each release was published, `2025-03-21`."""
    commits: Mapping[ChangeKey, PinnedCommit] = field(default_factory=dict)
    """The changes that were searched for their commit."""
    main: MainHistory = field(default_factory=MainHistory)
    """What the cases do along the main branch."""
    results: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What functions have computed of it."""

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names of all environments, oldest first."""
        return tuple(environment.name for environment in self.environments)

    @cached_property
    def columns(self) -> tuple[Environment, ...]:
        """The columns of the table; an environment that extends a release is in its column.

        A `main` that is older than a release stands beside the releases, behind the newest one.
        """
        own = (item for item in self.environments if item.column == item.name)
        ranks = {name: name not in self.line for name in self.releases}
        return tuple(sorted(own, key=lambda item: ranks.get(item.name, 2)))

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """The names of the columns that follow each other in time: releases, then main."""
        own = (item for item in self.environments if item.column == item.name)
        return tuple(item.name for item in own if item.source in _IN_THE_TABLE)

    @cached_property
    def line(self) -> tuple[str, ...]:
        """The releases that changes are read along: `main` only where it is the newest.

        A `main` that was measured before the newest release came stands between two releases, and
        neither of them is compared with it.
        """
        return tuple(
            name
            for name in self.releases
            if self.by_name[name].source is not Source.MAIN or name == self.releases[-1]
        )

    def only_in(self, case: Case) -> tuple[Environment, ...]:
        """Return the columns of a case that needs what no release by itself has.

        They are the stacks of a program, or the pairs that the case names; else there are none.
        """
        return only_in(case, self.columns, self._in_releases)

    @cached_property
    def _in_releases(self) -> frozenset[str]:
        return in_releases(self.columns)

    def standing(self, case: Case, column: str) -> str:
        """Return the environment of a case in a column."""
        return with_extras(column, case.extras) if column in self.releases else column

    def spans(self, environments: Iterable[str]) -> str:
        """Return environments as spans of their columns.

        What a case lays on top of every release is said once of the case, not in each name.
        """
        return spans((self.column_of[name] for name in environments), self._places)

    @cached_property
    def _places(self) -> dict[str, int]:
        columns = dict.fromkeys(self.column_of.values())
        beside = {*self.releases} - {*self.line}  # it cuts no span of releases in two
        order = [*(column for column in columns if column not in beside), "", *beside]
        return {column: place for place, column in enumerate(order)}

    @cached_property
    def column_of(self) -> dict[str, str]:
        """The column of each environment, by their names."""
        return {environment.name: environment.column for environment in self.environments}

    @cached_property
    def by_name(self) -> dict[str, Environment]:
        """The environments by their names."""
        return {environment.name: environment for environment in self.environments}

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The devices that something was observed on; the CPU when nothing was."""
        found = {cell.device for cell in self.rows}
        return tuple(device for device in Device if device in found) or (Device.CPU,)

    def devices_of(self, name: str) -> tuple[Device, ...]:
        """Return the first device, and the others that something of a case was observed on.

        A GPU is lent by the minute: what nobody had time for there is no row of the table.
        """
        first, *others = self.devices
        seen = {device for _, device, _ in self.series(name)}
        return first, *(one for one in others if one in seen)

    def is_asked(self, name: str, environment: str, device: Device) -> bool:
        """Say whether the table has cells of a case and environment on a device."""
        return device is self.devices[0] or (name, environment, device) in self._elsewhere

    @cached_property
    def _elsewhere(self) -> frozenset[tuple[str, str, Device]]:
        first = self.devices[0]
        others = (cell for cell in self.rows if cell.device is not first)
        return frozenset((cell.case, cell.environment, cell.device) for cell in others)

    @cached_property
    def measured_on(self) -> frozenset[Device]:
        """The devices on which a case, not the machine, decided something."""
        return frozenset(
            cell.device for cell, row in self.rows.items() if row.seen.outcome.is_evidence
        )

    @cached_property
    def simulated(self) -> frozenset[str]:
        """The cases that use a stand-in for a real part."""
        return frozenset(name for name, case in self.cases.items() if case.block.simulates)

    @cached_property
    def standings(self) -> dict[str, tuple[str, ...]]:
        """The environments that each case has cells in, oldest first."""
        return {
            case.name: tuple(one.name for one in self.environments if self._belongs(case, one))
            for case in self.cases.values()
        }

    @cached_property
    def shown(self) -> tuple[tuple[Cell, SeenMark], ...]:
        """Every cell of the table, also without an observation, and what it shows."""
        return tuple(
            (Cell(name, workaround, environment, precision, device), seen)
            for name in self.cases
            for (workaround, device), stacks in self.stacks(name).items()
            for environment, stack in stacks.items()
            for precision, seen in zip(Precision, stack, strict=True)
        )

    @once_of_a_survey
    def stacks(self, name: str) -> Mapping[tuple[str, Device], Mapping[str, Stack]]:
        """Return what the table shows of each variant of a case on a device, by environment."""
        return {
            (way, device): self._shown_along(name, way, device)
            for device in self.devices
            for way in self.cases[name].branches
        }

    def _shown_along(self, name: str, workaround: str, device: Device) -> dict[str, Stack]:
        series = self.series(name)
        rows = [(each, series.get((workaround, device, each), {})) for each in Precision]
        return {
            environment: tuple(seen_as(row.get(environment), each) for each, row in rows)
            for environment in self.standings[name]
            if self.is_asked(name, environment, device)
        }

    @once_of_a_survey
    def of_case(self, name: str) -> tuple[Judged, ...]:
        """Return what was observed of a case, in the order of the table."""
        # Workarounds keep the order of the file of their case.
        variant = {workaround: place for place, workaround in enumerate(self.cases[name].branches)}
        precisions, devices = list(Precision), list(Device)

        def place(row: Judged) -> tuple[int, int, int, int]:
            _, workaround, environment, precision, device = row.seen.cell
            rank = precisions.index(precision), devices.index(device)
            return (variant[workaround], self.when[environment], *rank)

        return tuple(sorted(self._by_case.get(name, ()), key=place))

    @cached_property
    def _by_case(self) -> dict[str, list[Judged]]:
        found: dict[str, list[Judged]] = {}
        for cell, row in self.rows.items():
            found.setdefault(cell.case, []).append(row)
        return found

    @cached_property
    def when(self) -> dict[str, int]:
        """The place of each environment in their order."""
        return {environment: place for place, environment in enumerate(self.order)}

    @once_of_a_survey
    def series(self, name: str) -> Series:
        """Return what was observed of a case as series along the environments."""
        found: Series = {}
        for row in self.of_case(name):
            _, workaround, environment, precision, device = row.seen.cell
            found.setdefault((workaround, device, precision), {})[environment] = row
        return found

    @once_of_a_survey
    def failing(self, name: str) -> Failing:
        """Return where each series of a case fails; environments without a result are left out."""
        return {
            key: {
                environment: failed
                for environment, row in rows.items()
                if (failed := row.seen.reading.fails) is not None
            }
            for key, rows in self.series(name).items()
        }

    @once_of_a_survey
    def axes(self, name: str) -> tuple[Axis, ...]:
        """Return the axes of a case."""
        return axes(self.cases[name], self.by_name)

    @once_of_a_survey
    def affected(self, name: str, key: SeriesKey) -> tuple[Affected, ...]:
        """Return what a series of a case hits, by bug and package."""
        return affected(self.cases[name], self.by_name, self._seen(name, key))

    @once_of_a_survey
    def ranges(self, name: str, key: SeriesKey) -> tuple[tuple[Range, ...], ...]:
        """Return the ranges in which a series of a case fails, along each of its axes."""
        seen = self._seen(name, key)
        return tuple(ranges_along(axis, seen) for axis in self.axes(name))

    def _seen(self, name: str, key: SeriesKey) -> dict[str, Observation]:
        rows = self.series(name).get(key, {})
        return {environment: row.seen for environment, row in rows.items()}

    @once_of_a_survey
    def bugs(self, name: str) -> tuple[Bug, ...]:
        """Return the bugs of a case, on devices with a result."""
        rows = (row.seen for row in self.of_case(name))
        on_devices = (row for row in rows if row.cell.device in self.measured_on)
        return bugs_of(self.cases[name], self.by_name, on_devices)

    @once_of_a_survey
    def claims(self, name: str) -> tuple[CheckedClaim, ...]:
        """Return the claims of a case with what was measured of them."""
        rows = [row.seen for row in self.of_case(name)]
        return check_claims(self.cases[name], rows, self.by_name)

    def failing_ranges(self, case: Case) -> Iterator[tuple[Device, list[str], tuple[str, ...]]]:
        """Yield where the plain case fails: device, precisions that agree, and their ranges."""
        for device in self.devices:
            alike: dict[tuple[str, ...], list[str]] = {}
            for precision in Precision:
                ranges = chain.from_iterable(self.ranges(case.name, (PLAIN, device, precision)))
                if texts := tuple(visible(each.text) for each in ranges):
                    alike.setdefault(texts, []).append(precision.value)
            for texts, precisions in alike.items():
                yield device, precisions, texts

    def unmeasured(self, name: str) -> str:
        """Return why nothing is known of a case, in words; empty where anything was measured.

        Without a result a case is neither broken nor safe, and no page may let it look so.
        """
        rows = self.of_case(name)
        if any(row.seen.outcome.is_evidence for row in rows):
            return ""
        waits = any(mark_of(row) is Mark.NEEDS_GPU for row in rows)
        return Mark.NEEDS_GPU.words if waits else "not measured yet"

    def is_of_cpu_kernel(self, name: str) -> bool:
        """Say whether every failure of a case is the message of a kernel that a GPU has not."""
        failed = [row.seen.failed for row in self.of_case(name) if row.seen.failed is not None]
        return bool(failed) and all(how.is_of_cpu_kernel for how in failed)

    def on(self, device: Device) -> str:
        """Return `, cuda` where a device must be named because there are several."""
        return f", {device}" if len(self.devices) > 1 else ""

    def _belongs(self, case: Case, environment: Environment) -> bool:
        observed = (case.name, environment.name) in self._observed
        # An interpreter of another machine has only the cells that were observed.
        asked = environment.source is not Source.INTERPRETER and belongs(case, environment)
        return observed or asked

    @cached_property
    def _observed(self) -> frozenset[tuple[str, str]]:
        return frozenset((cell.case, cell.environment) for cell in self.rows)


def survey(  # noqa: PLR0913, PLR0917 - what is arranged
    cases: Mapping[str, Case],
    environments: Sequence[Environment],
    judged: Iterable[Judged],
    dates: Mapping[str, str] | None = None,
    commits: Mapping[ChangeKey, PinnedCommit] | None = None,
    main: MainHistory | None = None,
) -> Survey:
    """Arrange the rows that answer, one for each cell."""
    known = {environment.name for environment in environments}
    variants = {name: frozenset(case.branches) for name, case in cases.items()}
    rows: dict[Cell, Judged] = {}
    for row in judged:
        cell = row.seen.cell
        if cell.environment in known and cell.workaround in variants.get(cell.case, ()):
            rows[cell] = row
    return Survey(
        cases=cases,
        environments=environments,
        rows=rows,
        dates=dates or {},
        commits=commits or {},
        main=(main or MainHistory()).within(cases),
    )
