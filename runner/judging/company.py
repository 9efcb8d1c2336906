"""What the table knows of a culprit: the versions it fails with, and what stood beside it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from packaging.version import Version

from runner.searching.oracle import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.model.cell import Environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The versions of a package, from the oldest to the newest seen."""

    package: str
    first: str
    last: str

    @property
    def text(self) -> str:
        """`peft 0.14.0 to 0.15.2`, or `peft 0.15.2`."""
        span = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return f"{self.package} {span}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Company:
    """Neighbouring versions of a package with which every measured environment is bad."""

    culprit: Span
    environments: int
    others: tuple[Span, ...]


def company(
    package: str,
    version: str,
    answers: Mapping[str, Answer],
    environments: Mapping[str, Environment],
    others: Sequence[str],
) -> Company | None:
    """Return the failing versions around one of them; None where an environment there passes.

    `answers` are what the environments of the table say, by name.
    """
    versions: dict[str, list[Environment]] = {}
    good: set[str] = set()
    for name, said in answers.items():
        held = environments[name].version(package)
        if held and said is not Answer.UNKNOWN:
            versions.setdefault(held, []).append(environments[name])
            if said is Answer.NO:
                good.add(held)
    order = sorted(versions, key=Version)
    if version not in versions or version in good:
        return None
    place = order.index(version)
    before = takewhile(lambda one: one not in good, reversed(order[:place]))
    bad = [*reversed([*before]), *takewhile(lambda one: one not in good, order[place:])]
    within = [environment for one in bad for environment in versions[one]]
    spans = [_span(other, within) for other in others if other != package]
    return Company(
        culprit=Span(package=package, first=bad[0], last=bad[-1]),
        environments=len(within),
        others=tuple(span for span in spans if span),
    )


def _span(package: str, within: Sequence[Environment]) -> Span | None:
    held = sorted({one.version(package) for one in within} - {""}, key=Version)
    return Span(package=package, first=held[0], last=held[-1]) if held else None
