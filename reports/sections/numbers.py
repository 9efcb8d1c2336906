"""What cells measured beside their outcome: numbers, and how often each dtype was computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from repromatrix.reports.text import number, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.text import join

WIDTH = 240


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One of the counts: its part of the bar, and which of the patterns it is drawn in."""

    name: str
    x: float
    width: float
    pattern: int


def shares(counts: Mapping[str, int]) -> tuple[Part, ...]:
    """Return the parts of a bar, in the order of the counts; what was never counted has none."""
    parts, x = [], 0.0
    for pattern, (name, count) in enumerate(counts.items()):
        width = WIDTH * count / (sum(counts.values()) or 1)
        if count:
            parts.append(Part(name=name, x=round(x, 1), width=round(width, 1), pattern=pattern % 5))
        x += width
    return tuple(parts)


_Key = tuple[str, str, "Precision"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One number of one variant over the releases, precisions alike together."""

    name: str
    variant: str
    precisions: str
    device: str
    runs: tuple[tuple[str, str], ...]
    """Each value to the digits that are shown, and the neighbouring releases that have it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Computed:
    """Results of computing operators by dtype, in the newest release that has them."""

    variant: str
    precision: Precision
    device: str
    release: str
    counts: tuple[str, ...]
    parts: tuple[Part, ...]
    exercised: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Dtypes:
    """The dtypes that a case computed in: one column each."""

    names: tuple[str, ...]
    rows: tuple[Computed, ...]


def measured(survey: Survey, name: str) -> tuple[Measured, ...]:
    """Return every number that a case measured, equal neighbours folded."""
    alike: dict[tuple[str, str, str, tuple[tuple[str, str], ...]], list[str]] = {}
    for (device, variant, precision), rows in _grouped(survey, name):
        for label in sorted({label for row in rows for label in row.seen.measured}):
            key = device, variant, label, _runs(survey, label, rows)
            alike.setdefault(key, []).append(precision.value)
    return tuple(
        Measured(
            name=visible(label),
            variant=visible(variant),
            precisions=join(precisions),
            device=device,
            runs=runs,
        )
        for (device, variant, label, runs), precisions in alike.items()
    )


def _grouped(survey: Survey, name: str) -> Iterator[tuple[_Key, list[Judged]]]:
    groups = survey.series(name).items()
    for (variant, device, precision), rows in sorted(groups, key=lambda item: item[0][1]):
        evidence = [row for row in rows.values() if row.seen.outcome.is_evidence]
        yield (device.value, variant, precision), evidence


def _runs(survey: Survey, label: str, rows: list[Judged]) -> tuple[tuple[str, str], ...]:
    having = [row for row in rows if label in row.seen.measured]
    folded = groupby(having, key=lambda row: number(row.seen.measured[label]))
    runs = ((value, [row.seen.cell.environment for row in rows]) for value, rows in folded)
    return tuple(
        (value, " to ".join(dict.fromkeys(survey.spans([name]) for name in (names[0], names[-1]))))
        for value, names in runs
    )


def dtypes(survey: Survey, name: str) -> Dtypes:
    """Return the dtype counts of a case, one row per variant, precision and device."""
    newest = [
        rows[-1]
        for _, every in _grouped(survey, name)
        if (rows := [row for row in every if row.seen.computed])
    ]
    names = sorted({dtype for row in newest for dtype in row.seen.computed})
    return Dtypes(
        names=tuple(visible(dtype) for dtype in names),
        rows=tuple(_computed(survey, row, names) for row in newest),
    )


def _computed(survey: Survey, row: Judged, names: list[str]) -> Computed:
    seen = row.seen
    counts = (seen.computed.get(dtype) for dtype in names)
    return Computed(
        variant=visible(seen.cell.workaround),
        precision=seen.cell.precision,
        device=seen.cell.device.value,
        release=survey.spans([seen.cell.environment]),
        counts=tuple(f"{count:,}" if count else "" for count in counts),
        parts=shares({visible(dtype): seen.computed.get(dtype, 0) for dtype in names}),
        exercised=seen.exercised.value,
    )
