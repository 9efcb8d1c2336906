"""The commit that decides where no resolver can part the packages: time parts its sources.

A package and what it needs may have moved together from one release to the next. Its commits moved
one by one, each with what it declared on its day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from repromatrix.runner.bisect.clone import Clone
from repromatrix.runner.bisect.commit_search import Inquiry, Tried
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.packages import Blame, BlameOutcome
from repromatrix.runner.bisect.pinning import Pinning, key_of
from repromatrix.runner.bisect.search import Edge
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.evidence.commits import ChangeKey, PinnedCommit
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.packages import MOVED


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What is known of the commits of packages that cannot be installed apart.

    `row` is None where nobody searched them.
    """

    group: tuple[str, ...]
    """All that cannot be installed apart, the packages under test among them."""
    row: PinnedCommit | None = None
    beside: tuple[tuple[str, str, str], ...] = ()
    """The others of the group, each with its version at the parent and at the commit."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The packages of the group whose commits can be searched."""
        return tuple(package for package in MOVED if package in self.group)


def undivided(blame: Blame) -> Decision | None:
    """Return the packages that are left because no environment holds them apart.

    None where there are none, or none of them is under test.
    """
    if blame.ending is not BlameOutcome.UNDECIDED:
        return None
    hidden = [trial for least in blame.least for trial in least.hidden]
    found, ends = Decision(group=blame.culprits), (blame.ends.good, blame.ends.bad)
    is_apart = any(trial.environment is None for trial in hidden)
    is_everywhere = all(end.version(package) for end in ends for package in found.sources)
    return found if found.sources and is_apart and is_everywhere else None


@dataclass(frozen=True, kw_only=True, slots=True)
class DecidingCommits:
    """Says which commit decides, from what is known or by a search in clones."""

    home: Home
    clones: Sequence[Clone]
    terms: Terms
    known: Mapping[ChangeKey, PinnedCommit]
    tried: Tried
    rerun: bool = False

    def __call__(self, blame: Blame, asked: CaseQuestion) -> Decision | None:
        """Return what decides, None where packages do; raises RunnerError and Interrupted."""
        left = undivided(blame)
        if left is None:
            return None
        ends = (blame.ends.good, blame.ends.bad)
        good, bad = (Version(end.version(left.sources[0])) for end in ends)
        edge = Edge.RISE if good <= bad else Edge.FALL
        older, newer = ends if edge is Edge.RISE else ends[::-1]
        inquiry = Inquiry(asked=asked, edge=edge, older=older, newer=newer)
        row = self.known.get(key_of(inquiry))
        row = row if row and row.package in left.sources else None
        clones = [clone for clone in self.clones if clone.sources.package in left.sources]
        if clones and not (row and row.commit):
            # What is kept of the search are its trials, as the ends may lie far apart.
            rows: list[PinnedCommit] = []
            Pinning(
                home=self.home,
                clones=clones,
                terms=self.terms,
                keep=rows.append,
                tried=self.tried,
                rerun=self.rerun,
            ).pin([inquiry])
            row = rows[-1]
        return Decision(group=left.group, row=row, beside=self._beside(left.group, row))

    def _beside(
        self, group: Sequence[str], row: PinnedCommit | None
    ) -> tuple[tuple[str, str, str], ...]:
        """Return the versions beside a commit, as far as its environments are known here."""
        if row is None or not row.commit:
            return ()
        sides = []
        for text in (row.environment_before, row.environment_at):
            name, _, digest = text.partition(" ")
            environment = self.home.made(name)
            if environment is None or environment.digest != digest:
                return ()
            sides.append(environment)
        old, new = sides
        others = [package for package in group if package != row.package]
        return tuple((each, old.version(each), new.version(each)) for each in others)
