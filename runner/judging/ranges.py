"""Intervals of releases, derived from measured cells and never typed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repromatrix.runner.judging.axes import Axis
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """Neighbouring releases that fail; `unknown_*` are releases that say nothing.

    They lie at its edges, or `within` it, where nobody measured what both neighbours do.

    `after` is the last release that passed before it, `until` the first that passed behind it:
    empty where no release on that side was measured to pass.
    """

    releases: tuple[str, ...]
    after: str
    unknown_before: tuple[str, ...]
    unknown_behind: tuple[str, ...]
    until: str
    unknown_within: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The range in words, gaps written as gaps."""
        first, last = self.releases[0], self.releases[-1]
        span = first if first == last else f"{first} to {last}"
        begin = f" (after {self.after}, by {first})" if self.unknown_before and self.after else ""
        begin += f" ({len(self.unknown_within)} of these unknown)" if self.unknown_within else ""
        if self.until and self.unknown_behind:
            return f"{span}{begin}, fixed after {last}, by {self.until}"
        return (
            f"{span}{begin}, fixed in {self.until}" if self.until else f"{span}{begin}, not fixed"
        )


def failing_ranges(order: Sequence[str], seen: Mapping[str, Observation]) -> tuple[Range, ...]:
    """Derive the ranges in which a cell fails along an ordered list of releases.

    `seen` maps a release to its observation for one case, workaround, precision and device.
    A release without a judged observation is unknown: it neither opens nor closes a range.
    """
    ranges: list[Range] = []
    current: list[str] = []
    gap: list[str] = []
    within: list[str] = []
    before: tuple[str, ...] = ()
    last_pass = ""
    for release in order:
        match fails(seen.get(release)):
            case None:
                gap.append(release)
            case True:
                if current:
                    within += gap
                else:
                    before, within = tuple(gap), []
                current.append(release)
                gap = []
            case False:
                if current:
                    ranges.append(_range(current, last_pass, (before, within, gap), release))
                current, gap, last_pass = [], [], release
    if current:
        ranges.append(_range(current, last_pass, (before, within, gap), ""))
    return tuple(ranges)


def ranges_along(axis: Axis, seen: Mapping[str, Observation]) -> tuple[Range, ...]:
    """Derive the ranges along an axis of labelled environments; `seen` maps environments.

    An environment that cannot run the case says nothing, not even that a gap is open.
    """
    rows = {point.label: seen.get(point.environment) for point in axis}
    known = {label: row for label, row in rows.items() if row is not None}
    absent = {label for label, row in known.items() if row.outcome.reading is Reading.ABSENT}
    return failing_ranges([point.label for point in axis if point.label not in absent], known)


def _range(
    releases: Sequence[str], after: str, unknown: Sequence[Sequence[str]], until: str
) -> Range:
    before, within, behind = map(tuple, unknown)
    return Range(
        releases=tuple(releases),
        after=after,
        unknown_before=before,
        unknown_behind=behind,
        until=until,
        unknown_within=within,
    )


def fails(row: Observation | None) -> bool | None:
    """Say whether a cell fails; None where nothing is known that could be relied on."""
    return None if row is None else row.reading.fails
