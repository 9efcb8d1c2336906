"""Where a case fails, as bands along the releases: high is failing, low is passing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from repromatrix.reports.figures.scale import STEP, Tick, at, ticks
from repromatrix.reports.text import visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.text import join

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
_KNOWN = {True: State.FAILS, False: State.PASSES}


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

    device: Device
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
    for variant in case.variants:
        for precision in Precision:
            key = variant, device, precision
            states = _states(series.get(key, {}), failing.get(key, {}), names)
            alike.setdefault((variant, states), []).append(precision.value)
    bands = tuple(
        _band(_label(variant, precisions), number, states, releases)
        for number, ((variant, states), precisions) in enumerate(alike.items())
    )
    return Timeline(
        device=device,
        width=at(len(releases)) + STEP,
        height=_HEAD + _BAND * len(bands) + 4,
        ticks=ticks(releases),
        bands=bands,
        text="; ".join(f"{band.label}: {_words(band)}" for band in bands),
    )


def _states(
    rows: Mapping[str, Judged], failing: Mapping[str, bool], names: Sequence[str]
) -> States:
    return tuple(
        _KNOWN[failing[name]] if name in failing else _unknown(rows.get(name)) for name in names
    )


def _unknown(row: Judged | None) -> State:
    absent = row is not None and row.seen.outcome is Outcome.NOT_APPLICABLE
    return State.ABSENT if absent else State.UNKNOWN


def _label(variant: str, precisions: list[str]) -> str:
    named = "all" if len(precisions) == len(Precision) else join(precisions)
    return visible(f"{variant}, {named}" if variant else named)


def _band(label: str, number: int, states: Sequence[State], releases: Sequence[str]) -> Band:
    top = _HEAD + _BAND * number
    bars = []
    for state, members in groupby(range(len(states)), key=states.__getitem__):
        places = list(members)
        if state is not State.ABSENT:
            bars.append(_bar(state, places[0], places[-1], top, releases))
    return Band(label=label, y=top + 14, bars=tuple(bars))


def _bar(state: State, first: int, last: int, top: int, releases: Sequence[str]) -> Bar:
    below, height = state.shape
    span = releases[first] if first == last else f"{releases[first]} to {releases[last]}"
    return Bar(
        state=state,
        x=at(first),
        y=top + below,
        width=(last - first + 1) * STEP - 1,
        height=height,
        says=visible(f"{state} on {span}" if state is not State.UNKNOWN else f"unknown: {span}"),
    )


def _words(band: Band) -> str:
    return ", ".join(bar.says for bar in band.bars) or "not applicable"
