"""What to run on the releases between two on which an architecture differs. Pure.

If the releases on both sides of one agree about an architecture, it does not run there. Releases
between others get the probes of the feature releases around them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import PROBES


def lacking(
    history: SweepHistory, releases: Sequence[str], *, first: bool = False
) -> Mapping[str, Sequence[str]]:
    """Return by release the architectures that were not run on it, and change around it.

    `releases` are all that exist, in their order. With `first` it is what to run first: of each gap
    the newest release, as few patches change anything. What they answer closes gaps or makes them
    smaller: ask again until there is none.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for kind, between in _gaps(history, releases):
        for name in between[-1:] if first else between:
            found[name].add(kind)
    return {name: sorted(found[name]) for name in releases if name in found}


def new_probes(history: SweepHistory, releases: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the probes that releases between others lack, and those around them were run with."""
    partial = [one for one in history.releases.values() if one.chosen]
    found = {one.name: _around(history, releases, one.name) & {*one.lacking} for one in partial}
    return {name: probes for name, probes in found.items() if probes}


def probes_between(history: SweepHistory, releases: Sequence[str], name: str) -> frozenset[str]:
    """Return the probes for an architecture that was not run on a release between others.

    Those of the release, where it was run in part, and those of the whole ones around it.
    """
    known = history.releases.get(name)
    own = _every() - {*known.lacking} if known else frozenset()
    return own | _around(history, releases, name)


def _around(history: SweepHistory, releases: Sequence[str], name: str) -> frozenset[str]:
    """Return the probes that both whole releases around one were run with."""
    place = {each: at for at, each in enumerate(releases)}
    older = [one for one in history.whole if place[one] < place[name]]
    newer = [one for one in history.whole if place[one] > place[name]]
    if not older or not newer:
        return frozenset()
    lacking = (history.releases[one].lacking for one in (older[-1], newer[0]))
    return _every().difference(*lacking)


def _every() -> frozenset[str]:
    return frozenset(probe.name for probe in PROBES)


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
