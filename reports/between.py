"""What each release breaks and heals against the one before it, once for all pages."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from reports.marks import happening
from reports.phrases import listed, number, page_of, shortened, visible
from runner.judging.difference import Change, Side, compare, key_of
from runner.model.outcomes import Precision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reports.survey import Survey
    from runner.judging.difference import Key, Pair
    from runner.model.observation import Observation

_ERROR = 160
SHOWN = (Change.BROKE, Change.FIXED, Change.CHANGED, Change.NEW, Change.GONE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One variant of a case that behaves otherwise than before, precisions alike together."""

    change: Change
    case: str
    href: str
    workaround: str
    precisions: str
    device: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Shift:
    """A measured number that moved though both sides pass."""

    case: str
    href: str
    workaround: str
    precision: Precision
    name: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Between:
    """A release beside the one before it; `unknown` cells say nothing on a side."""

    before: str
    differences: tuple[Difference, ...]
    shifts: tuple[Shift, ...]
    unknown: int

    def of(self, *changes: Change) -> tuple[Difference, ...]:
        """Return the differences of some kinds."""
        return tuple(one for one in self.differences if one.change in changes)


def between(survey: Survey) -> dict[str, Between]:
    """Return for every release but the first what became of each cell since the one before."""
    sides = _sides(survey)
    names = survey.releases
    return {
        after: _between(survey, sides[before], sides[after]) for before, after in pairwise(names)
    }


def _sides(survey: Survey) -> dict[str, Side]:
    columns = {one.name: one.column for one in survey.environments}
    seen: dict[str, dict[Key, Observation]] = {name: {} for name in survey.releases}
    for cell, row in survey.rows.items():
        found = seen.get(columns[cell.environment])
        if found is not None:
            found[key_of(cell)] = row.seen
    return {name: Side(name=name, seen=found) for name, found in seen.items()}


def _between(survey: Survey, before: Side, after: Side) -> Between:
    # Most cells are alike, and what is alike needs no comparison.
    keys = sorted(
        key
        for key in dict.fromkeys([*before.seen, *after.seen])
        if not _alike(before.seen.get(key), after.seen.get(key))
    )
    pairs = compare(_narrowed(before, keys), _narrowed(after, keys), survey.cases)
    return Between(
        before=before.name,
        differences=_differences(pairs),
        shifts=tuple(shift for pair in pairs for shift in _shifts(pair)),
        unknown=sum(pair.change is Change.UNKNOWN for pair in pairs),
    )


def _alike(one: Observation | None, other: Observation | None) -> bool:
    return (
        one is not None
        and other is not None
        and one.outcome is other.outcome
        and one.failed == other.failed
        and one.exercised is other.exercised
        and not (one.unstable or other.unstable)
        and one.measured == other.measured
    )


def _narrowed(side: Side, keys: Iterable[Key]) -> Side:
    return Side(name=side.name, seen={key: side.seen[key] for key in keys if key in side.seen})


def _differences(pairs: Iterable[Pair]) -> tuple[Difference, ...]:
    alike: dict[tuple[Change, str, str, str, str, str], list[Precision]] = {}
    for pair in pairs:
        if pair.change in SHOWN:
            case, workaround, precision, device = pair.key
            sides = told(pair.before), told(pair.after)
            key = pair.change, case, workaround, device.value, *sides
            alike.setdefault(key, []).append(precision)
    ordered = sorted(alike.items(), key=lambda item: (SHOWN.index(item[0][0]), *item[0][1:]))
    return tuple(_difference(*key, found) for key, found in ordered)


def _difference(  # noqa: PLR0913, PLR0917 - a row of the table
    change: Change,
    case: str,
    workaround: str,
    device: str,
    before: str,
    after: str,
    found: list[Precision],
) -> Difference:
    return Difference(
        change=change,
        case=visible(case),
        href=page_of(case),
        workaround=visible(workaround),
        precisions=listed([one.value for one in Precision if one in found]),
        device=device,
        before=before,
        after=after,
    )


def told(seen: Observation | None) -> str:
    """Return what happened in a few words: the error of a failure, else the outcome."""
    if seen is None:
        return "not applicable"
    if seen.failed is not None and seen.outcome.is_failure:
        return shortened(seen.failed.headline, _ERROR)
    reason = shortened(seen.reason, _ERROR)
    return f"{happening(seen.outcome)}: {reason}" if reason else happening(seen.outcome)


def _shifts(pair: Pair) -> Iterable[Shift]:
    for moved in pair.moved:
        yield Shift(
            case=visible(pair.key.case),
            href=page_of(pair.key.case),
            workaround=visible(pair.key.workaround),
            precision=pair.key.precision,
            name=visible(moved.name),
            before=number(moved.before),
            after=number(moved.after),
        )


def rows(found: Mapping[str, Between]) -> tuple[tuple[str, ...], ...]:
    """Return every difference as a row of a table: the release, and what became of what."""
    return tuple(
        (
            release,
            one.before,
            difference.change.value,
            difference.case,
            difference.workaround,
            difference.precisions,
            difference.device,
            difference.before,
            difference.after,
        )
        for release, one in found.items()
        for difference in one.differences
    )


COLUMNS = (
    *("release", "against", "change", "case", "workaround", "precisions", "device"),
    *("before", "after"),
)
