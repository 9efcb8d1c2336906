"""What probes found over a line of releases: runs of releases in which one did the same. Pure.

What holds is not written down, as nearly everything does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple

from repromatrix.runner.evidence.swept.changes import Found, ProbeChange, change_of
from repromatrix.runner.evidence.swept.probes import BUILD, DTYPES
from repromatrix.runner.evidence.swept.records import (
    ProbeKey,
    ProbeRecord,
    ProbeStatus,
    architecture_of,
)


class ProbeRun(NamedTuple):
    """Neighbouring measured releases in which a probe did the same on an architecture."""

    first: str
    last: str
    record: ProbeRecord
    """What it found; of the summary, what the first of the releases gave."""


class Architecture(NamedTuple):
    """One architecture that was swept."""

    name: str
    class_name: str
    home: str
    """The release on which its tiny model was made."""
    first: str
    """The first measured release that has it."""
    recipe: str = ""
    """The digest of the recipe that was run; empty where it is not known."""


class SweptRelease(NamedTuple):
    """What a release was measured with."""

    name: str
    environment: str
    """The digest of the environment."""
    hardware: str
    types: int
    """How many architectures it has, with a recipe or without."""
    lacking: tuple[str, ...]
    """Probes that were not run on it."""
    missing: tuple[str, ...]
    """Architectures that were not run on it."""
    chosen: tuple[str, ...] = ()
    """Those that alone were run, where the releases on both sides differ; empty where all were."""
    code: str = ""
    """The digest of the code of the probes that were run; empty where it is not known."""

    def ran(self, kind: str) -> bool:
        """Say whether an architecture was run on it, if it has it."""
        return kind in self.chosen if self.chosen else kind not in self.missing


@dataclass(frozen=True, kw_only=True)
class SweepHistory:
    """The answers of a line of releases, in their order."""

    releases: Mapping[str, SweptRelease] = field(default_factory=dict)
    architectures: Mapping[str, Architecture] = field(default_factory=dict)
    outcomes: Mapping[ProbeKey, tuple[ProbeRun, ...]] = field(default_factory=dict)
    """What did not hold; of what does, nothing is kept."""
    numbers: Mapping[ProbeKey, tuple[ProbeRun, ...]] = field(default_factory=dict)
    """Summaries of outputs; a new run begins where they differ by more than the tolerance."""
    _built: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The place of each measured release."""
        return {name: at for at, name in enumerate(self.releases)}

    @property
    def whole(self) -> tuple[str, ...]:
        """The releases on which every architecture was run."""
        return tuple(name for name, release in self.releases.items() if not release.chosen)

    def measured(self, kind: str) -> tuple[str, ...]:
        """Return the releases on which an architecture was run."""
        first = self.order[self.architectures[kind].first]
        return tuple(
            name for name, release in [*self.releases.items()][first:] if release.ran(kind)
        )

    def classes_of(self, architecture: str) -> tuple[str, ...]:
        """Return the further classes of an architecture; of their own history, not of its."""
        return tuple(self._classes.get(architecture, ()))

    @cached_property
    def _classes(self) -> Mapping[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for kind in self.architectures:
            found[architecture_of(kind)].append(kind)
        return found

    def record(self, key: ProbeKey, release: str) -> ProbeRecord | None:
        """Return what a probe found on a release; None where it was not run."""
        if release not in self.ran_on(key):
            return None
        found = self._at(self.outcomes, key, release) or self._at(self.numbers, key, release)
        return found or _held(key)

    def keys(self, kind: str) -> tuple[ProbeKey, ...]:
        """Return the probes of an architecture, first whether it is built."""
        return self._keys.get(kind, ())

    def line(self, key: ProbeKey) -> tuple[tuple[str, ProbeRecord], ...]:
        """Return what a probe found on each release on which it was run."""
        names, held = [*self.releases], _held(key)
        records: dict[str, ProbeRecord] = {}
        for run in (*reversed(self.numbers.get(key, ())), *reversed(self.outcomes.get(key, ()))):
            covered = names[self.order[run.first] : self.order[run.last] + 1]
            records |= dict.fromkeys(covered, run.record)
        return tuple((name, records.get(name, held)) for name in self.ran_on(key))

    def ran_on(self, key: ProbeKey) -> tuple[str, ...]:
        """Return the releases on which a probe was run; what is not built is asked no more."""
        if key.kind not in self.architectures:
            return ()
        names = self.measured(key.kind) if key.probe == BUILD else self._built_on(key.kind)
        if lacking := self._lacking.get(key.probe):
            return tuple(name for name in names if name not in lacking)
        return names

    @cached_property
    def _lacking(self) -> Mapping[str, frozenset[str]]:
        """The releases on which a probe was not run, by its name; most have none."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for name, release in self.releases.items():
            for probe in release.lacking:
                found[probe].add(name)
        return {probe: frozenset(names) for probe, names in found.items()}

    def _built_on(self, kind: str) -> tuple[str, ...]:
        """Return the releases that build an architecture; each probe of it asks for them."""
        if kind not in self._built:
            build = ProbeKey(kind, BUILD)
            names = self.measured(kind)
            self._built[kind] = tuple(
                name for name in names if not self._at(self.outcomes, build, name)
            )
        return self._built[kind]

    def changes_of(self, kind: str) -> Iterator[tuple[str, str, ProbeChange]]:
        """Yield what changed on an architecture, with the release before and the release."""
        for key in self.keys(kind):
            if key in self.outcomes or len(self.numbers.get(key, ())) > 1:
                for (against, before), (release, after) in pairwise(self.line(key)):
                    # Within one run of releases it is the same record.
                    if before is not after and (change := change_of(before, after)):
                        yield against, release, change

    def bad_on(self, kind: str, release: str) -> tuple[ProbeRecord, ...]:
        """Return what does not hold of an architecture on a release."""
        keys = (key for key in self.keys(kind) if key in self.outcomes)
        found = (self.record(key, release) for key in keys)
        return tuple(record for record in found if record and record.status.is_bad)

    def built(self, release: str) -> int:
        """Return how many architectures a release builds."""
        records = (self.record(ProbeKey(kind, BUILD), release) for kind in self.architectures)
        return sum(record is not None and not record.status.is_bad for record in records)

    @cached_property
    def _keys(self) -> Mapping[str, tuple[ProbeKey, ...]]:
        return {kind: tuple(ProbeKey(kind, name) for name in DTYPES) for kind in self.architectures}

    def found(self, release: str) -> Found:
        """Return everything that a release was found to do."""
        every = (key for kind in self.architectures for key in self.keys(kind))
        records = ((key, self.record(key, release)) for key in every)
        return {key: record for key, record in records if record is not None}

    def _at(
        self, runs: Mapping[ProbeKey, tuple[ProbeRun, ...]], key: ProbeKey, release: str
    ) -> ProbeRecord | None:
        at = self.order[release]
        for run in runs.get(key, ()):
            if self.order[run.first] <= at <= self.order[run.last]:
                return run.record
        return None


@cache
def _held(key: ProbeKey) -> ProbeRecord:
    """Return that a probe holds: most do, on every release."""
    return ProbeRecord(key=key, status=ProbeStatus.HOLDS)
