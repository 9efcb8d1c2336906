"""Whether a case is proven: seen to fail as described somewhere, and to pass somewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import Version

from runner.judging.expectations import described
from runner.judging.ranges import fails
from runner.model.outcomes import Exercised, Outcome
from runner.model.requirements import settled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.judging.verdicts import Judged

_FRAME = re.compile(r'(?m)^  File "([^"]+)", line')


def lacking(judged: Iterable[Judged]) -> tuple[str, ...]:
    """Name what a case still lacks to be proven, by its judged cells; nothing when it is."""
    rows = [
        one
        for one in judged
        if not one.seen.unstable and not one.stale and one.seen.exercised is not Exercised.NO
    ]
    lacks = [f"its failure ends in {frame}" for frame in sorted(set(_own_frames(rows)))]
    if not any(one.entry is not None and described(one.entry, one.seen) for one in rows):
        lacks.append("no measured cell fails as described")
    if not any(one.seen.outcome is Outcome.PASSES for one in rows):
        lacks.append("no measured cell passes")
    return tuple(lacks)


def _own_frames(rows: Iterable[Judged]) -> Iterator[str]:
    """Yield where an expected exception is raised by the case itself, and is no assert."""
    for one in rows:
        failed = one.seen.failed
        if one.entry is None or failed is None or failed.error_class == "AssertionError":
            continue
        frames = _FRAME.findall(failed.traceback)
        if frames and frames[-1].startswith("cases/"):
            yield f"{frames[-1]}, not in a library"


def crosses(judged: Iterable[Judged], *, since: str = "0") -> bool:
    """Say whether one variant in one precision is seen both to pass and to fail as described.

    Only environments with that version of transformers or a later one are looked at: a case that
    crosses is proven across versions of a package, not only across precisions.
    """
    first = Version(since)
    said: dict[tuple[str, ...], set[bool]] = {}
    for one in judged:
        cell, row = one.seen.cell, one.seen
        version = row.provenance.packages.get("transformers", "")
        if not version or settled(version) < first or fails(row) is None or one.stale:
            continue
        bad = one.entry is not None and described(one.entry, row)
        if bad or not fails(row):  # a failure of another kind proves neither
            said.setdefault((cell.workaround, cell.precision, cell.device), set()).add(bad)
    return any(len(found) == 2 for found in said.values())  # noqa: PLR2004
