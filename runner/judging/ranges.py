"""Where an answer changes along versions; axes, failing ranges, what a bug affects. Pure.

Ranges are derived from measured cells, never typed by hand. A pair shows that nothing else has to
change; that no measured environment contradicts it shows that its version is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

from packaging.version import Version

from repromatrix.runner.judging.verdicts import described, expected
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment, Source, belongs
from repromatrix.runner.model.environment_name import taken_apart, with_extras
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome, Reading
from repromatrix.runner.model.packages import TRANSFORMERS

P = TypeVar("P")
A = TypeVar("A")


class Segment(NamedTuple, Generic[P, A]):
    """Neighbouring points with one answer; those beside and between them have none."""

    answer: A
    points: list[P]
    before: list[P]
    """Those without an answer, back to the segment before it."""
    within: list[P]
    behind: list[P]


def segments(order: Iterable[P], answer: Callable[[P], A | None]) -> list[Segment[P, A]]:
    """Cut ordered points where their answer changes; None is no answer, and changes nothing."""
    found: list[Segment[P, A]] = []
    gap: list[P] = []
    for point in order:
        said = answer(point)
        if said is None:
            gap.append(point)
        elif found and found[-1].answer == said:
            found[-1].points.append(point)
            found[-1].within.extend(gap)
            gap.clear()
        else:
            before, gap = gap, []
            found.append(Segment(said, [point], before, [], gap))
    return found


class Point(NamedTuple):
    """What a point of an axis is called, and the environment that was measured there."""

    label: str
    environment: str


Axis = tuple[Point, ...]

_APART = frozenset({Source.PAIR, Source.STACK})


def axes(case: Case, environments: Mapping[str, Environment]) -> tuple[Axis, ...]:
    """Return the axes of a case: the columns of the table, then one per release that has pairs.

    On the axis of a pair stand the versions of the changed packages on one release, the release
    itself among them with the versions of its lock. Pairs with a package that their releases have
    not share an axis along the releases. Last comes one axis per program that there are stacks of,
    along its versions: a stack is no release of transformers.
    """
    own = [environment for environment in environments.values() if belongs(case, environment)]
    line = [one for one in own if one.source not in _APART]
    releases = tuple(
        Point(one.column, one.name)
        for one in line
        # A `main` that is older than a release was measured ends no range: that release does.
        if one.source is not Source.MAIN or one is line[-1]
    )
    pairs = [one for one in own if one.source is Source.PAIR]
    versions = tuple(_along_versions(pairs, environments))
    on_versions = {point.environment for axis in versions for point in axis}
    added = _along_releases(pairs, environments)
    stacks: dict[str, list[Environment]] = {}
    for one in own:
        if one.source is Source.STACK:
            stacks.setdefault(one.program, []).append(one)
    return (
        releases,
        *versions,
        *(axis for axis in added if len(axis) > 1 or axis[0].environment not in on_versions),
        *(
            tuple(
                Point(f"{program} {one.version(program)}", one.name)
                for one in sorted(group, key=lambda one: Version(one.version(program)))
            )
            for program, group in stacks.items()
        ),
    )


def _along_versions(
    pairs: Sequence[Environment], environments: Mapping[str, Environment]
) -> Iterator[Axis]:
    groups: dict[tuple[str, tuple[str, ...]], list[Environment]] = {}
    for one in pairs:
        parts = taken_apart(one.name)
        packages = tuple(package for package, _ in parts.changed)
        groups.setdefault((with_extras(parts.base, parts.extras), packages), []).append(one)
    for (base, packages), group in groups.items():
        every = [*group, *([environments[base]] if base in environments else [])]
        # A package that its base does not have has no place among the versions.
        points = [one for one in every if all(map(one.version, packages))]
        points.sort(key=lambda one: [Version(one.version(name)) for name in packages])
        if len(points) > 1:
            yield tuple(
                Point(
                    ", ".join(f"{name} {one.version(name)}" for name in packages) + f" on {base}",
                    one.name,
                )
                for one in points
            )


def _along_releases(
    pairs: Sequence[Environment], environments: Mapping[str, Environment]
) -> Iterator[Axis]:
    """Yield the axes of pairs that add what their releases do not have."""
    groups: dict[str, list[Point]] = {}
    for one in pairs:
        parts = taken_apart(one.name)
        base = with_extras(parts.base, parts.extras)
        held = environments.get(base)
        if held is None or not all(held.version(package) for package, _ in parts.changed):
            changed = ", ".join(f"{package} {version}" for package, version in parts.changed)
            groups.setdefault(changed, []).append(Point(f"{base} with {changed}", one.name))
    yield from map(tuple, groups.values())


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
        last = self.releases[-1]
        begin = f" (after {self.after}, by {self.releases[0]})"
        begin = begin if self.unknown_before and self.after else ""
        begin += f" ({len(self.unknown_within)} of these unknown)" if self.unknown_within else ""
        if self.until and self.unknown_behind:
            return f"{_span(self.releases)}{begin}, fixed after {last}, by {self.until}"
        return f"{_span(self.releases)}{begin}, {_end(self.until)}"


def _span(failing: Sequence[str]) -> str:
    first, last = failing[0], failing[-1]
    return first if first == last else f"{first} to {last}"


def _end(fixed: str) -> str:
    return f"fixed in {fixed}" if fixed else "not fixed"


def failing_ranges(
    order: Sequence[str], seen: Mapping[str, Observation | None]
) -> tuple[Range, ...]:
    """Derive the ranges in which a cell fails along an ordered list of releases.

    `seen` maps a release to its observation for one case, workaround, precision and device.
    A release without a judged observation is unknown: it neither opens nor closes a range.
    """
    found = segments(order, lambda release: fails(seen.get(release)))
    passed = ["", *(each.points[-1] for each in found)]
    passes = [*(each.points[0] for each in found[1:]), ""]
    return tuple(
        Range(
            releases=tuple(each.points),
            after=after,
            unknown_before=tuple(each.before),
            unknown_behind=tuple(each.behind),
            until=until,
            unknown_within=tuple(each.within),
        )
        for each, after, until in zip(found, passed, passes, strict=False)
        if each.answer
    )


def ranges_along(axis: Axis, seen: Mapping[str, Observation]) -> tuple[Range, ...]:
    """Derive the ranges along an axis of labelled environments; `seen` maps environments.

    An environment that cannot run the case says nothing, not even that a gap is open.
    """
    rows = {point.label: seen.get(point.environment) for point in axis}
    known = {label: row for label, row in rows.items() if row is not None}
    absent = {label for label, row in known.items() if row.outcome.reading is Reading.ABSENT}
    return failing_ranges([point.label for point in axis if point.label not in absent], known)


def fails(row: Observation | None) -> bool | None:
    """Say whether a cell fails; None where nothing is known that could be relied on."""
    return None if row is None else row.reading.fails


class Interval(NamedTuple):
    """Neighbouring versions in which a case fails, or of which nobody knows that it does not."""

    first: str
    """Empty where no older version is known to be safe."""
    fixed: str
    """The first version behind it that passes; empty where none does."""
    last: str
    """Its last version, where the next one cannot run the case or has another bug; else empty."""
    failing: tuple[str, ...]
    """Those of its versions that were measured to fail."""

    @property
    def text(self) -> str:
        """The interval in words."""
        end = f"not measurable after {self.last}" if self.last else _end(self.fixed)
        return f"{_span(self.failing)}, {end}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Affected:
    """The versions of the package at fault in which one bug of a case fails."""

    title: str
    package: str
    intervals: tuple[Interval, ...]
    failing: frozenset[str]
    """The environments in which it was measured to fail."""


def affected(
    case: Case, environments: Mapping[str, Environment], seen: Mapping[str, Observation]
) -> tuple[Affected, ...]:
    """Return what one series of a case hits: each bug with the package that its entry blames.

    `seen` maps an environment to its observation. A version is safe only if the case passes in an
    environment that holds it and this bug fails in none: packages move together from lock to lock.
    """
    bugs: dict[tuple[str, str], set[str]] = {}
    for name, row in seen.items():
        if row.reading.fails:
            bugs.setdefault(bug_of(case, row, environments[name]), set()).add(name)
    hits = []
    for (title, package), failing in bugs.items():
        by_version: dict[str, list[Observation | None]] = {}
        for name, row in seen.items():
            held = environments[name]
            if held.source.has_lock and (version := held.version(package)):
                is_other = row.reading.fails and name not in failing
                by_version.setdefault(version, []).append(None if is_other else row)
        telling = {version: max(rows, key=_tells) for version, rows in by_version.items()}
        if spans := intervals(sorted(telling, key=Version), telling):
            here = frozenset(failing)
            hits.append(Affected(title=title, package=package, intervals=spans, failing=here))
    return tuple(hits)


def bug_of(case: Case, row: Observation, environment: Environment) -> tuple[str, str]:
    """Return the title of a failure and the package at fault; of an unexpected one, the case's."""
    entry = expected(case, row.cell, environment)
    if entry is None or not described(entry, row):
        return own_bug(case)
    return case.title_of(entry), entry.package or TRANSFORMERS


def own_bug(case: Case) -> tuple[str, str]:
    """Return the title of a case and the package at fault in the bug that it names."""
    own = next((entry.package for entry in case.block.fails if not entry.title), "")
    return case.block.title, own or TRANSFORMERS


def _tells(row: Observation | None) -> tuple[bool, bool, bool, bool]:
    """Rank the rows of one version: failures, passes, another bug, whatever applies, the rest."""
    return fails(row) is True, fails(row) is False, row is None, not _is_silent(row)


def intervals(order: Sequence[str], seen: Mapping[str, Observation | None]) -> tuple[Interval, ...]:
    """Derive what is affected along versions, oldest first; `seen` has what was seen of each.

    Only a pass was measured to be safe, so that a gap beside a failure counts as affected. A
    version that cannot run the case, makes it decline, or fails by another bug of it (None), ends
    an interval too: there the case cannot show this bug.
    """
    found: list[Interval] = []
    bounded = False
    for absent, group in groupby(order, key=lambda version: _is_silent(seen[version])):
        versions = list(group)
        for failing in () if absent else failing_ranges(versions, seen):
            first = (*failing.unknown_before, *failing.releases)[0]
            ends = not failing.until and versions[-1] != order[-1]
            found.append(
                Interval(
                    first=first if bounded or failing.after else "",
                    fixed=failing.until,
                    last=versions[-1] if ends else "",
                    failing=failing.releases,
                )
            )
        bounded = True
    return tuple(found)


def _is_silent(row: Observation | None) -> bool:
    return row is None or row.outcome in {Outcome.NOT_APPLICABLE, Outcome.DECLINES}
