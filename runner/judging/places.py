"""In which places the failures of an entry happen, and which of them are one to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from repromatrix.runner.judging.verdicts import Judged, worded
from repromatrix.runner.model.case import Case, Failure
from repromatrix.runner.model.frames import same_name, same_place
from repromatrix.runner.model.outcomes import Outcome

Statements = Mapping[str, AbstractSet[str]]
"""Places in the order in which they were seen, with the lines of code that failed there."""


def by_place(entry: Failure, judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Group the cells of an entry by place: those that fail with its words, whatever the place.

    What is stale or unstable, and what has no traceback, is left out.
    """
    found: dict[str, list[Judged]] = {}
    for row in judged:
        stands = row.entry is entry and not row.stale and not row.seen.unstable
        # What was stopped, or crashed, has no place.
        failed = row.seen.failed if row.seen.outcome is Outcome.FAILS else None
        if stands and failed is not None and failed.place and worded(entry, row.seen):
            found.setdefault(failed.place, []).append(row)
    return found


def statements(judged: Iterable[Judged]) -> Statements:
    """Return the places of failures, each with the lines of code that failed there."""
    found: dict[str, set[str]] = {}
    for row in judged:
        failed = row.seen.failed
        if failed is not None and failed.place:
            found.setdefault(failed.place, set()).add(failed.statement)
    return found


def grouped(seen: Statements, stated: Iterable[Sequence[str]] = ()) -> list[tuple[str, ...]]:
    """Group places that are one to an entry, in the order in which they were seen.

    One are those that an entry states already, and functions of one name in which the same line of
    code fails: there a library moved it. Everything else may be another bug, and a person says if
    it is not.
    """

    def are_one(place: str, other: str) -> bool:
        """Say whether two places are one, or a library moved the one to the other."""
        lines = seen[place] & seen.get(other, set()) - {""}
        return same_place(place, other) or (bool(lines) and same_name(place, other))

    groups = [[*one] for one in stated if one]
    for place in seen:
        own = next((group for group in groups if any(are_one(place, at) for at in group)), None)
        if own is None:
            groups.append([place])
        elif place not in own:
            own.append(place)
    return [tuple(group) for group in groups]


def distinct(places: Iterable[str]) -> tuple[str, ...]:
    """Return each place once; one without a class gives way to the same with its class."""
    once = dict.fromkeys(places)
    return tuple(
        one
        for one in once
        if not any(len(one) < len(other) and same_place(one, other) for other in once)
    )


def apart(entry: Failure, judged: Iterable[Judged]) -> list[list[Judged]]:
    """Return the cells of an entry by what is one place to it; more than one: other bugs, maybe."""
    cells = by_place(entry, judged)
    seen = statements(row for rows in cells.values() for row in rows)
    found = [
        [row for place in group for row in cells.get(place, ())]
        for group in grouped(seen, (entry.where,))
    ]
    return [rows for rows in found if rows]


def told(entry: Failure, judged: Iterable[Judged]) -> tuple[str, ...]:
    """Return the places that evidence tells of an entry; those that it states, where it tells none.

    What it states stays in the order in which it stands.
    """
    seen = distinct(by_place(entry, judged))
    stated = [one for one in entry.where if any(same_place(one, other) for other in seen)]
    fresh = [one for one in seen if not any(same_place(one, other) for other in stated)]
    return (*stated, *fresh) or entry.where


def never_seen(case: Case, judged: Sequence[Judged]) -> dict[int, tuple[str, ...]]:
    """Return the places that an entry states and in which none of its cells fails, by its number.

    An entry of which no cell has a place says nothing: it may be new, or its evidence old.
    """
    found: dict[int, tuple[str, ...]] = {}
    for number, entry in enumerate(case.block.fails):
        seen = by_place(entry, judged) if entry.where else {}
        absent = [place for place in entry.where if not any(same_place(place, it) for it in seen)]
        if seen and absent:
            found[number] = tuple(absent)
    return found
