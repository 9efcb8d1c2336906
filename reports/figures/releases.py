"""Figures along the releases: bands where a case fails, lines of what it measured.

Releases run from left to right; a line is named where there is room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from repromatrix.reports.text import number, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.text import join

STEP = 10
"""The width of one release."""
LEFT = 190
"""The room for names on the left."""
_ROOM = 44
"""The least distance between the names of two lines of releases."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A name below or above the figure, and where it stands."""

    x: int
    label: str


def at(place: int) -> int:
    """Return where a release begins."""
    return LEFT + place * STEP


def ticks(names: Sequence[str]) -> tuple[Tick, ...]:
    """Name the first release of each minor line, where there is room for it."""
    found: list[Tick] = []
    known = ""
    for place, name in enumerate(names):
        line = ".".join(name.split(".")[:2])
        if line != known and (not found or at(place) - found[-1].x >= _ROOM):
            found.append(Tick(x=at(place), label=line))
        known = line
    return tuple(found)


_BAND, _HEAD = 18, 16


class State(StrEnum):
    """What is known of a cell along a band."""

    FAILS = "fails"
    PASSES = "passes"
    UNKNOWN = "unknown"
    ABSENT = "absent"

    @property
    def shape(self) -> tuple[int, int]:
        """How far below the top of its band it begins, and how high it is: no need of a colour."""
        match self:
            case State.FAILS:
                return 2, 14
            case State.PASSES:
                return 11, 5
            case State.UNKNOWN | State.ABSENT:
                return 6, 6


States = tuple[State, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """Neighbouring releases in one state."""

    state: State
    x: int
    y: int
    width: int
    height: int
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """One variant, precisions that agree together."""

    label: str
    y: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The bands of one device; `text` says the same in words."""

    title: str
    width: int
    height: int
    ticks: tuple[Tick, ...]
    bands: tuple[Band, ...]
    text: str


def timeline(survey: Survey, case: Case, device: Device) -> Timeline:
    """Return the timeline of a case on one device: a band per variant, along the releases."""
    releases = survey.releases
    names = [survey.standing(case, column) for column in releases]
    series, failing = survey.series(case.name), survey.failing(case.name)
    alike: dict[tuple[str, States], list[str]] = {}
    for variant in case.branches:
        for precision in Precision:
            key = variant, device, precision
            rows, known = series.get(key, {}), failing.get(key, {})
            states = tuple(_state(rows.get(name), known.get(name)) for name in names)
            alike.setdefault((variant, states), []).append(precision.value)
    labels = [
        visible(", ".join(filter(None, [variant, precision_words(precisions)])))
        for (variant, _), precisions in alike.items()
    ]
    bands = tuple(
        _band(label, number, states, releases)
        for number, (label, (_, states)) in enumerate(zip(labels, alike, strict=True))
    )
    return Timeline(
        title=f"Where it fails along the releases, on {device}",
        width=at(len(releases)) + STEP,
        height=figure_height(len(bands)),
        ticks=ticks(releases),
        bands=bands,
        text="; ".join(
            f"{band.label}: {', '.join(bar.says for bar in band.bars) or 'not applicable'}"
            for band in bands
        ),
    )


def figure_height(bands: int) -> int:
    """Return the height of a figure of so many bands."""
    return _HEAD + _BAND * bands + 4


def band_top(number: int) -> int:
    """Return where a band begins."""
    return _HEAD + _BAND * number


def _state(row: Judged | None, fails: bool | None) -> State:  # noqa: FBT001 - it is the answer
    if fails is not None:
        return State.FAILS if fails else State.PASSES
    absent = row is not None and row.seen.outcome is Outcome.NOT_APPLICABLE
    return State.ABSENT if absent else State.UNKNOWN


def precision_words(precisions: Sequence[str]) -> str:
    """Return what precisions that agree are called: `bf16 and fp16`, or `all`."""
    return "all" if len(precisions) == len(Precision) else join(precisions)


def bar(state: State, x: int, top: int, width: int, says: str) -> Bar:
    """Return a bar in the band that begins at `top`."""
    below, height = state.shape
    return Bar(state=state, x=x, y=top + below, width=width, height=height, says=visible(says))


def _band(label: str, number: int, states: Sequence[State], releases: Sequence[str]) -> Band:
    top = band_top(number)
    bars = []
    for state, members in groupby(range(len(states)), key=states.__getitem__):
        places = list(members)
        first, last = places[0], places[-1]
        if state is not State.ABSENT:
            span = releases[first] if first == last else f"{releases[first]} to {releases[last]}"
            says = f"{state} on {span}" if state is not State.UNKNOWN else f"unknown: {span}"
            bars.append(bar(state, at(first), top, (last - first + 1) * STEP - 1, says))
    return Band(label=label, y=top + 14, bars=tuple(bars))


_TOP, _FLOOR, _HEIGHT = 24, 124, 144
_WIDE = 100
"""From this ratio of the largest to the smallest number on, steps are factors."""

Points = dict[str, float]
"""By release, oldest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stroke:
    """One precision as the path of a line."""

    precision: Precision
    path: str
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PlotLevel:
    """A value beside the figure, and its height."""

    y: int
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """One number of one variant on one device."""

    name: str
    variant: str
    device: Device
    width: int
    height: int
    ticks: tuple[Tick, ...]
    levels: tuple[PlotLevel, ...]
    strokes: tuple[Stroke, ...]
    by_factors: bool


def plots(survey: Survey, case: Case) -> tuple[Plot, ...]:
    """Return one plot of every number that was measured on two releases or more."""
    found: dict[tuple[Device, str], dict[str, dict[Precision, Points]]] = {}
    columns = {survey.standing(case, column): column for column in survey.releases}
    for (variant, device, precision), rows in survey.series(case.name).items():
        for environment, row in rows.items():
            if environment in columns and row.seen.outcome.is_evidence:
                for name, value in row.seen.measured.items():
                    lines = found.setdefault((device, name), {}).setdefault(variant, {})
                    lines.setdefault(precision, {})[columns[environment]] = value
    return tuple(
        _plot(survey.releases, (device, variant, name), lines)
        for (device, name), variants in found.items()
        for variant, lines in _plotted(variants)
    )


def _plotted(
    variants: Mapping[str, dict[Precision, Points]],
) -> Iterator[tuple[str, dict[Precision, Points]]]:
    """Yield the variant that a number is drawn of: the plain case, else the first that has it.

    The table beside the plots has the others: they hardly differ.
    """
    for variant in sorted(variants, key=lambda name: name != PLAIN):
        if max(map(len, variants[variant].values())) > 1:
            yield variant, variants[variant]
            return


class _Height:
    """The scale of a figure: linear, or logarithmic where values differ by orders of magnitude."""

    def __init__(self, values: Iterable[float]) -> None:
        finite = [value for value in values if math.isfinite(value)]
        self.low, self.high = min(finite, default=0.0), max(finite, default=0.0)
        above = [value for value in finite if value > 0]
        self.least = min(above, default=1.0)
        self.by_factors = self.low >= 0 and self.high / self.least >= _WIDE
        self.is_finite = bool(finite)

    def of(self, value: float) -> int:
        """Return the height of a value; NaN and infinity are drawn above everything."""
        if not math.isfinite(value):
            return _TOP - 12
        return round(_FLOOR - (_FLOOR - _TOP) * self._share(value))

    def _share(self, value: float) -> float:
        if self.high == self.low:
            return 0.5
        if not self.by_factors:
            # Halves: the difference of two large numbers may be none.
            return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        if value <= 0:
            return 0.0
        decades = math.log10(self.high) - math.log10(self.least)
        return 0.1 + 0.9 * (math.log10(value) - math.log10(self.least)) / decades


def _plot(
    releases: Sequence[str], key: tuple[Device, str, str], lines: Mapping[Precision, Points]
) -> Plot:
    device, variant, name = key
    height = _Height(value for points in lines.values() for value in points.values())
    return Plot(
        name=visible(name),
        variant=visible(variant),
        device=device,
        width=at(len(releases)) + 3 * STEP,
        height=_HEIGHT,
        ticks=ticks(releases),
        levels=_levels(height, lines),
        strokes=tuple(
            _stroke(precision, lines[precision], releases, height)
            for precision in Precision
            if precision in lines
        ),
        by_factors=height.by_factors,
    )


def _levels(height: _Height, lines: Mapping[Precision, Points]) -> tuple[PlotLevel, ...]:
    values = dict.fromkeys([height.low, height.high]) if height.is_finite else {}
    levels = [PlotLevel(y=height.of(value), label=number(value)) for value in values]
    if any(not math.isfinite(value) for points in lines.values() for value in points.values()):
        levels.append(PlotLevel(y=height.of(math.nan), label="not finite"))
    return tuple(levels)


def _stroke(
    precision: Precision, points: Points, releases: Sequence[str], height: _Height
) -> Stroke:
    path: list[str] = []
    last, level = -2, 0
    for place, release in enumerate(releases):
        if release not in points:
            continue
        y, x = height.of(points[release]), at(place)
        if place != last + 1:
            path.append(f"M{x} {y}")
        elif y != level:
            path.append(f"L{x} {y}")
        path.append(f"H{x + STEP - 2}")
        last, level = place, y
    return Stroke(precision=precision, path=_joined(path), says=_said(points))


def _joined(path: Sequence[str]) -> str:
    """Let steps on one level be one."""
    kept: list[str] = []
    for step in path:
        if step[0] == "H" and kept and kept[-1][0] == "H":
            kept.pop()
        kept.append(step)
    return "".join(kept)


def _said(points: Points) -> str:
    values = list(points.values())
    finite = [value for value in values if math.isfinite(value)]
    told = f"{number(min(finite))} to {number(max(finite))}" if finite else "never finite"
    first, last = next(iter(points)), next(reversed(points))
    return visible(f"{told}, on {len(values)} releases, {first} to {last}")
