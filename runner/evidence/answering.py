"""The one rule which row answers for a cell. Pure.

`bisect`, `blame`, `audit`, `accept`, planning and the pages all ask here. Whoever needs less (only
current rows, no disputed ones) filters the result and has no rule of its own.

Two machines may see different things in one cell. Then none is taken for the truth: the cell is
unstable, with every side named, until it is measured here and that is confirmed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from repromatrix.runner.judging.verdicts import is_current, is_standing
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import (
    NEEDS_GPU,
    PROTOCOL,
    Cell,
    Environment,
    belongs,
    cells_of,
    obstacles,
)
from repromatrix.runner.model.observation import LOCAL, MERGED, UNPUBLISHED, Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision

_ORDER = {outcome: number for number, outcome in enumerate(Outcome)}

Says = tuple[str, str, bool, str]


def says(row: Observation) -> Says:
    """Return what a row says, wherever it was measured; two rows that differ deny each other."""
    outcome, signature = row.kind
    return outcome.value, signature, row.unstable, row.exercised.value


def agrees(row: Observation, told: Observation) -> bool:
    """Say whether the case decided both, about the very same thing, and they say the same."""
    is_plain = row.outcome.is_evidence and not row.sides and not told.sides
    return is_plain and says(row) == says(told) and about(row) == about(told)


def about(row: Observation) -> tuple[object, ...]:
    """Return what a row is about: the cell, the case, the pins and the way of running."""
    ran = row.provenance
    return (*row.cell, ran.case_digest, ran.environment_digest, ran.protocol)


def answering_row(
    rows: Sequence[Observation], standing: Callable[[Observation], bool]
) -> Observation:
    """Return the row that answers for one cell; the order of the rows changes nothing.

    `standing` says whether a row was made with today's case, pins and way of running. There must
    be at least one row. The first kind of which there is a row answers:

    1. what this machine refused today: it must be seen, whatever was known before
    2. current, and the case decided
    3. current, and the machine decided (memory ran out)
    4. stale, and the case decided
    5. stale, and the machine decided
    6. why the cell was not run: a build that failed, a refusal of an older case or elsewhere

    Of one kind, this machine's rows go before merged ones, and those before published ones; then
    the later run goes before the earlier one.

    Rows that the case decided (2 and 4) and that deny each other answer together: the worst of
    them is returned, as unstable, with all of them as its `sides`. What this machine has repeated
    decides against what it saw once and against what is published. It does not decide against
    merged rows: the store leaves out those that were there when it was repeated.
    """
    if len(rows) == 1:
        return rows[0]
    # The sides of a disputed row may be denied by others, too.
    every = [side for row in rows for side in row.sides or (row,)]
    kinds = [_kind(row, current=standing(row)) for row in every]
    first = min(kinds)
    alike = [row for row, kind in zip(every, kinds, strict=True) if kind == first]
    if len(alike) == 1:
        return alike[0]
    match first:
        case 2:
            return _agreed(alike)
        case 4:  # of other pins or another text of the case there may be several
            leading = about(_leader(alike))
            return _agreed([row for row in alike if about(row) == leading])
        case _:
            return _leader(alike)


def answering_rows(
    rows: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> dict[Cell, Observation]:
    """Return the row that answers for each cell."""

    def standing(row: Observation) -> bool:
        case, environment = cases.get(row.cell.case), environments.get(row.cell.environment)
        return case is not None and environment is not None and is_standing(row, case, environment)

    found: dict[Cell, list[Observation]] = {}
    for row in rows:
        found.setdefault(row.cell, []).append(row)
    return {cell: answering_row(some, standing) for cell, some in found.items()}


def current(
    rows: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> tuple[dict[Cell, Observation], dict[Cell, Observation]]:
    """Return the current rows that answer, and apart from them those that are disputed.

    A disputed cell counts as not known: nothing is concluded from it, and a search asks it again.
    """
    known: dict[Cell, Observation] = {}
    contested: dict[Cell, Observation] = {}
    for cell, row in answering_rows(rows, cases, environments).items():
        case, environment = cases.get(cell.case), environments.get(cell.environment)
        if case and environment and is_current(row, case, environment):
            (contested if row.sides else known)[cell] = row
    return known, contested


def _kind(row: Observation, *, current: bool) -> int:
    """Return the number of the kind that a row is of, as `answering_row` lists them."""
    if not row.outcome.was_run:
        refused = row.outcome is Outcome.NOT_RUN and row.source == LOCAL  # nothing else is so
        return 1 if refused and current else 6
    stale = 0 if current else 2
    return stale + (2 if row.outcome.is_evidence else 3)


def _leader(rows: Sequence[Observation]) -> Observation:
    if len(rows) == 1:
        return rows[0]
    places = [
        (row.source == LOCAL, row.source == MERGED, row.provenance.run, row.repeats) for row in rows
    ]
    best = max(places)
    equal = [row for row, place in zip(rows, places, strict=True) if place == best]
    # These differ in what hardly matters; their text makes the order total, and costs the most.
    return equal[0] if len(equal) == 1 else max(equal, key=repr)


def _agreed(rows: Sequence[Observation]) -> Observation:
    """Return the row that answers for several about one thing, all decided by the case."""
    groups: dict[Says, list[Observation]] = {}
    repeated = [row for row in rows if row.source == LOCAL and row.is_confirmed]
    if repeated:
        rows = [*repeated, *(row for row in rows if row.source == MERGED)]
    for row in rows:
        groups.setdefault(says(row), []).append(row)
    worst, *others = sorted(
        map(_leader, groups.values()),
        key=lambda row: (not row.outcome.is_failure, _ORDER[row.outcome], says(row)),
    )
    if not others:
        return worst
    return dataclasses.replace(worst, unstable=True, sides=(worst, *others))


def contradictions(
    rows: Iterable[Observation],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> dict[Cell, Observation]:
    """Return the published row of each cell that this machine denies, repeated and comparable."""
    every = [
        row
        for row in rows
        if row.outcome.is_evidence
        and row.cell.case in cases
        and row.cell.environment in environments
        and is_standing(row, cases[row.cell.case], environments[row.cell.environment])
    ]
    here = {row.cell: row for row in every if row.source == LOCAL and row.is_confirmed}
    return {
        row.cell: row
        for row in every
        if row.source not in UNPUBLISHED
        and (own := here.get(row.cell)) is not None
        and says(own) != says(row)
        and are_comparable(own, row)
    }


def are_comparable(one: Observation, other: Observation) -> bool:
    """Say whether two rows ran on the same architecture, Python and version of torch."""
    return measured_with(one) == measured_with(other)


def measured_with(row: Observation) -> tuple[str, str, str]:
    """Return the architecture, the minor version of Python and torch's version of a row."""
    ran = row.provenance
    python = ".".join(ran.python.split(".")[:2])
    return ran.hardware.partition(" ")[0], python, ran.torch_build.partition("+")[0]


_HEADLINE = 100
"""Characters of an error in the words of a disputed cell."""


def answers(rows: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return one row for everything that rows are about, in the order of the runs.

    That a cell could not be run elsewhere says nothing where it was run.
    """
    ran = {row.cell for row in rows if row.outcome.was_run}
    groups: dict[tuple[object, ...], list[Observation]] = {}
    for row in rows:
        if row.source != MERGED or row.outcome.was_run or row.cell not in ran:
            groups.setdefault(about(row), []).append(row)
    return tuple(sorted(map(answer, groups.values()), key=lambda row: row.provenance.run))


def answer(rows: Sequence[Observation]) -> Observation:
    """Return the row that answers for several about one thing, whether it is current or not."""
    return answering_row(rows, lambda _: True)


def dispute(row: Observation) -> str:
    """Return who says what where a cell is disputed; nothing where it is not."""
    return "; ".join(map(side, row.sides))


def side(row: Observation) -> str:
    """Return what a row says and what it was seen on, in words."""
    detail = f": {row.failed.headline[:_HEADLINE]}" if row.failed else ""
    flags = ", unstable" * row.unstable + ", not exercised" * (row.exercised is Exercised.NO)
    ran = row.provenance
    where = "here, " if row.source == LOCAL else ""
    return f"{row.outcome}{flags}{detail} ({where}{ran.hardware}, torch {ran.torch_build})"


# The whole grid: every cell with what is known of it, be it only why it was not run


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """The axes of a survey."""

    cases: Mapping[str, Case]
    environments: Mapping[str, Environment]
    precisions: Sequence[Precision]
    devices: Sequence[Device]
    begun: Collection[tuple[str, str]] | None = None
    """The cases and environments of which a GPU measured something; without it all are asked for.

    A GPU is lent by the minute: what nobody had time for there is missed by nobody.
    """
    due: Callable[[Cell], bool] = lambda _: True
    """Says of a cell that no current row answers whether a rule asks for it to be measured."""

    def cells(self) -> Iterable[Cell]:
        """Yield every cell, case by case, in the order of the table."""
        for case in self.cases.values():
            for device in self.devices:
                for name, environment in self.environments.items():
                    is_begun = self.begun is None or (case.name, name) in self.begun
                    if belongs(case, environment) and (device is Device.CPU or is_begun):
                        yield from cells_of(case, name, self.precisions, device)


def survey(grid: Grid, known: Mapping[Cell, Observation]) -> tuple[Observation, ...]:
    """Return an observation for every cell of the grid."""

    @functools.cache
    def unrun(case_name: str, environment_name: str, device: Device) -> Observation:
        """Say why cells were not run: what keeps their case from their environment, if anything."""
        case, environment = grid.cases[case_name], grid.environments[environment_name]
        reasons = obstacles(case, environment, device)
        outcome = Outcome.NOT_APPLICABLE if reasons else Outcome.NOT_RUN
        outcome = Outcome.NOT_MEASURED if reasons == (NEEDS_GPU,) else outcome
        return Observation(
            cell=Cell(case_name, PLAIN, environment_name, grid.precisions[0], device),
            outcome=outcome,
            provenance=unmeasured(case, environment),
            source="",
            reason="; ".join(reasons) or "nobody has run it",
        )

    def shown(cell: Cell) -> Observation:
        row = known.get(cell)
        case, environment = grid.cases[cell.case], grid.environments[cell.environment]
        if row is not None and is_current(row, case, environment):
            return row
        blank = unrun(cell.case, cell.environment, cell.device)
        # Neither what an older version of the case did, nor why it was not run, says anything
        # where this one cannot be run.
        if blank.outcome is not Outcome.NOT_RUN:
            return dataclasses.replace(blank, cell=cell)
        if (row is None or row.outcome.was_run) and not grid.due(cell):
            reason = "no rule asks for it, and no published result answers"
            return dataclasses.replace(blank, cell=cell, outcome=Outcome.NOT_DUE, reason=reason)
        return dataclasses.replace(blank, cell=cell) if row is None else row

    return tuple(map(shown, grid.cells()))


def unmeasured(case: Case, environment: Environment) -> Provenance:
    """Return the provenance of a cell that was not run: what it would run on."""
    return Provenance(
        case_digest=case.digest,
        environment_digest=environment.digest,
        packages=environment.pins,
        python=environment.python,
        torch_build=environment.version("torch"),
        hardware="",
        protocol=PROTOCOL,
        run="",
    )
