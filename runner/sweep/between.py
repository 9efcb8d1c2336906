"""Which architectures to run on the releases between two on which they do otherwise. Pure.

Where the releases on both sides of one agree about an architecture, it is not run there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from repromatrix.runner.sweep.history import SweepHistory


def lacking(history: SweepHistory, releases: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return by release the architectures that were not run on it, and change around it.

    `releases` are all that exist, in their order.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for kind, between in _gaps(history, releases):
        for name in between:
            found[name].add(kind)
    return {name: sorted(found[name]) for name in releases if name in found}


def next_runs(history: SweepHistory, releases: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return what to run next: of each gap the newest release, as few patches change anything.

    What they answer closes gaps or makes them smaller: ask again until there is none.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for kind, between in _gaps(history, releases):
        found[between[-1]].add(kind)
    return {name: sorted(found[name]) for name in releases if name in found}


def _gaps(history: SweepHistory, releases: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield an architecture and the releases without it between two on which it differs."""
    place = {name: at for at, name in enumerate(releases)}
    for kind in history.architectures:
        ran = {*history.measured(kind)}
        pairs = {(against, release) for against, release, _ in history.changes_of(kind)}
        for against, release in sorted(pairs):
            between = releases[place[against] + 1 : place[release]]
            if left := [name for name in between if name not in ran]:
                yield kind, left
