"""The figure of one case by date: what it does on the main branch, and in the releases."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from repromatrix.reports.figures.releases import (
    LEFT,
    Band,
    State,
    Tick,
    Timeline,
    band_top,
    bar,
    figure_height,
    precision_words,
)
from repromatrix.reports.text import Link, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Device, Precision

_WIDTH = 780
_ROOM = 44
_LEAST = 3
"""The width of a bar for a single commit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MainSpan:
    """Neighbouring measured commits at which a case does the same, precisions together."""

    precisions: str
    state: State
    first: str
    """The day of the first commit."""
    last: str
    commits: tuple[Link, Link]
    """The first and the last."""
    count: int
    reasons: tuple[str, ...]
    """The errors, or why it could not be judged."""


class _Stretch(NamedTuple):
    """A state from one day to another."""

    state: State
    since: dt.date
    until: dt.date
    says: str


class _Scale(NamedTuple):
    """Days as places from left to right."""

    first: dt.date
    last: dt.date

    def x(self, day: dt.date) -> int:
        days = max(1, (self.last - self.first).days)
        return LEFT + round((day - self.first).days / days * _WIDTH)


def main_timeline(survey: Survey, case: Case, spans: Sequence[MainSpan]) -> Timeline | None:
    """Return the figure: a band of main and one of releases for precisions that agree.

    None where no commit of the main branch was measured. Releases are the first of each minor line;
    one lasts until the next.
    """
    if not spans:
        return None
    days = [dt.date.fromisoformat(day) for span in spans for day in (span.first, span.last)]
    scale = _Scale(min(days), max(days))
    rows: list[tuple[str, list[_Stretch]]] = []
    for precisions in dict.fromkeys(span.precisions for span in spans):
        there = [span for span in spans if span.precisions == precisions]
        rows.append((f"main, {precisions}", [*map(_of_span, there)]))
    for precisions, stretches in _of_releases(survey, case, scale):
        rows.append((f"releases, {precisions}", stretches))
    bands = tuple(
        _band(visible(label), number, stretches, scale)
        for number, (label, stretches) in enumerate(rows)
    )
    return Timeline(
        title="Where it fails on the main branch and in releases, by date",
        width=LEFT + _WIDTH + 2 * _LEAST,
        height=figure_height(len(bands)),
        ticks=_ticks(survey, scale),
        bands=bands,
        text="; ".join(
            f"{band.label}: {', '.join(bar.says for bar in band.bars)}" for band in bands
        ),
    )


def _of_span(span: MainSpan) -> _Stretch:
    since, until = map(dt.date.fromisoformat, (span.first, span.last))
    return _Stretch(span.state, since, until, f"{span.state} {span.first} to {span.last}")


def _firsts(survey: Survey, scale: _Scale) -> Iterator[tuple[str, dt.date]]:
    """Yield the first release of each minor line with its day, in the order of days."""
    seen: set[str] = set()
    for name in survey.line:
        minor = ".".join(name.split(".")[:2])
        if name == MAIN or minor in seen or name not in survey.dates:
            continue
        seen.add(minor)
        day = dt.date.fromisoformat(survey.dates[name])
        if scale.first <= day <= scale.last:
            yield name, day


def _ticks(survey: Survey, scale: _Scale) -> tuple[Tick, ...]:
    found: list[Tick] = []
    for name, day in _firsts(survey, scale):
        x = scale.x(day)
        if not found or x - found[-1].x >= _ROOM:
            found.append(Tick(x=x, label=".".join(name.split(".")[:2])))
    return tuple(found)


def _of_releases(survey: Survey, case: Case, scale: _Scale) -> Iterator[tuple[str, list[_Stretch]]]:
    firsts = [*_firsts(survey, scale)]
    ends = [*(day for _, day in firsts[1:]), scale.last]
    failing = survey.failing(case.name)
    alike: dict[tuple[bool | None, ...], list[str]] = {}
    for precision in Precision:
        known: Mapping[str, bool] = failing.get((PLAIN, Device.CPU, precision), {})
        states = tuple(known.get(survey.standing(case, name)) for name, _ in firsts)
        alike.setdefault(states, []).append(precision.value)
    for states, precisions in alike.items():
        if any(state is not None for state in states):
            yield precision_words(precisions), [*_stretches(firsts, ends, states)]


def _stretches(
    firsts: Sequence[tuple[str, dt.date]], ends: Sequence[dt.date], states: Iterable[bool | None]
) -> Iterator[_Stretch]:
    for (name, since), until, fails in zip(firsts, ends, states, strict=True):
        if fails is not None:
            state = State.FAILS if fails else State.PASSES
            yield _Stretch(state, since, until, f"{state} on {name} of {since}")


def _band(label: str, number: int, stretches: Iterable[_Stretch], scale: _Scale) -> Band:
    top = band_top(number)
    bars = []
    for stretch in stretches:
        x = scale.x(stretch.since)
        width = max(_LEAST, scale.x(stretch.until) - x - 1)
        bars.append(bar(stretch.state, x, top, width, stretch.says))
    return Band(label=label, y=top + 14, bars=tuple(bars))
