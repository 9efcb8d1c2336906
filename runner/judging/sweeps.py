"""One environment with many versions of a single package. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.specifiers import SpecifierSet

    from runner.judging.culprits import Trial
    from runner.searching.oracle import Answer


class Stretch(NamedTuple):
    """Neighbouring versions with the same answer."""

    answer: Answer
    versions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """What the bad end answers with each version of a package, oldest first."""

    package: str
    base: str
    trials: tuple[tuple[str, Trial], ...]

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """Versions joined as long as they answer the same."""
        return tuple(
            Stretch(said, tuple(version for version, _ in within))
            for said, within in groupby(self.trials, key=lambda one: one[1].answer)
        )


def minors(versions: Iterable[str], within: SpecifierSet, own: str) -> tuple[str, ...]:
    """Return the newest version of every minor line within bounds, oldest first.

    The version that the environment has itself stands for its line.
    """
    newest: dict[tuple[int, int], str] = {}
    for text in sorted({*versions, own}, key=Version):
        version = Version(text)
        line = (version.major, version.minor)
        if (text == own or within.contains(version)) and newest.get(line) != own:
            newest[line] = text
    return tuple(newest.values())
