"""How sure an answer is: measured at these versions, derived from both sides, or unknown.

A set of packages stands among the environments of a case by the versions of the packages that
the case's expectations name. Nothing is concluded beyond what was measured: unknown is no pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import TORCH, TRANSFORMERS

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from repromatrix.runner.audit.questions import KnownEvidence

Vector = tuple[Version, ...]


class Level(StrEnum):
    """What an answer rests on."""

    MEASURED = "measured"
    DERIVED = "derived"
    UNKNOWN = "unknown"


class Says(StrEnum):
    """What is said of a cell at somebody's versions."""

    HITS = "hits"
    CLEAR = "clear"
    NOT_APPLICABLE = "not-applicable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stand:
    """What is known of one cell of a case at somebody's versions."""

    case: str
    workaround: str
    precision: Precision
    device: Device
    says: Says
    level: Level
    rests_on: tuple[Observation, ...] = ()
    """The measured cell, or those on both sides, older ones first."""
    why: str = ""
    """Why it is unknown or does not apply."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionPlace:
    """Where versions stand among environments."""

    vectors: Mapping[str, Vector]
    """The versions of the named packages, by environment."""
    exact: tuple[str, ...]
    below: tuple[str, ...]
    """Environments with no named package newer than ours, the newest first."""
    above: tuple[str, ...]
    """Environments with no named package older than ours, the oldest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BasisPackage:
    """What a set of packages is for a case: a place among its environments, or why it has none."""

    case: Case
    place: VersionPlace | None
    stopped: Says = Says.UNKNOWN
    """Where there is no place: unknown, or not applicable."""
    why: str = ""


def deciding(case: Case, known: KnownEvidence) -> tuple[str, ...]:
    """Return the packages by whose versions somebody stands among a case's environments.

    In stacks of a program that is the program, too: no release by itself has it.
    """
    programs = {one.program for one in known.only_in(case)} - {""}
    return tuple(dict.fromkeys([*named(case), *sorted(programs)]))


def named(case: Case) -> tuple[str, ...]:
    """Return the packages that a case's expectations and pairs name, transformers first."""
    found: set[str] = {
        canonicalize_name(requirement.name)
        for entry in case.block.fails
        for requirement in entry.when
    }
    found |= {name for pair in case.block.environments for name, _ in taken_apart(pair).changed}
    return (TRANSFORMERS, *sorted(found - {TRANSFORMERS}))


def grounds(
    cases: Iterable[Case], installed: Installed, known: KnownEvidence
) -> dict[str, BasisPackage]:
    """Say of each case where a set of packages stands for it."""
    places: dict[object, VersionPlace] = {}
    found = {}
    for case in cases:
        reason = _reason(case, installed, known)
        if reason is not None:
            stopped, why = reason
            found[case.name] = BasisPackage(case=case, place=None, stopped=stopped, why=why)
            continue
        key = (deciding(case, known), case.extras, case.block.environments)
        if key not in places:  # most cases name nothing but transformers
            places[key] = _place(case, installed, known)
        found[case.name] = BasisPackage(case=case, place=places[key])
    return found


def _place(case: Case, installed: Installed, known: KnownEvidence) -> VersionPlace:
    names = deciding(case, known)
    ours = tuple(_version(name, installed.version(name)) for name in names)
    vectors = {
        one.name: tuple(_version(name, one.version(name)) for name in names)
        for one in known.of(case)
        if all(map(one.version, names))
    }
    ordered = sorted(vectors, key=vectors.__getitem__)
    return VersionPlace(
        vectors=vectors,
        exact=tuple(name for name in ordered if vectors[name] == ours),
        below=tuple(name for name in reversed(ordered) if _under(vectors[name], ours)),
        above=tuple(name for name in ordered if _under(ours, vectors[name])),
    )


def _reason(case: Case, installed: Installed, known: KnownEvidence) -> tuple[Says, str] | None:
    """Say why a set of packages has no place for a case, if it has none."""
    for name in deciding(case, known):
        if name in installed.loose:
            return Says.UNKNOWN, f"{name} is not pinned ({installed.loose[name]})"
    if obstacle := _obstacle(case, installed, known):
        return obstacle
    missing = [name for name in deciding(case, known) if not installed.version(name)]
    return (Says.UNKNOWN, f"{missing[0]} is not named") if missing else None


def _obstacle(case: Case, installed: Installed, known: KnownEvidence) -> tuple[Says, str] | None:
    """Say what keeps a case from these versions; beyond what was measured that is unknown."""
    for asked in case.head.dependencies:
        name = canonicalize_name(asked.name)
        if name == TORCH or requirements.holds(asked, installed.pins, installed.markers):
            continue  # torch is often installed apart, and no case is without it
        if name in installed.loose:
            return Says.UNKNOWN, f"{name} is not pinned ({installed.loose[name]})"
        if not installed.version(name):
            missing = Says.NOT_APPLICABLE if installed.whole else Says.UNKNOWN
            return missing, f"needs {asked}, which is not named"
        if _is_beyond(asked, installed, known):
            return Says.UNKNOWN, f"{name} {installed.version(name)} is not among what was measured"
        return Says.NOT_APPLICABLE, f"needs {asked}, has {installed.version(name)}"
    python = installed.python
    if python and not SpecifierSet(case.head.requires_python).contains(python, prereleases=True):
        return Says.NOT_APPLICABLE, f"needs Python {case.head.requires_python}, has {python}"
    return None


def _is_beyond(asked: Requirement, installed: Installed, known: KnownEvidence) -> bool:
    """Say whether a version was never measured, whatever a case asks for.

    Many cases ask for the oldest version that was measured: it says nothing about older ones.
    """
    name = canonicalize_name(asked.name)
    ours = _version(name, installed.version(name))
    held = [
        _version(name, one.version(name))
        for one in known.environments.values()
        if one.version(name)
    ]
    return not held or not min(held) <= ours <= max(held)


def stand(
    at: BasisPackage, workaround: str, precision: Precision, device: Device, known: KnownEvidence
) -> Stand:
    """Return what is known of a cell of the ground's case."""

    def cell(environment: str) -> Cell:
        return Cell(at.case.name, workaround, environment, precision, device)

    def said(says: Says, level: Level, rests_on: Iterable[str] = (), why: str = "") -> Stand:
        return Stand(
            case=at.case.name,
            workaround=workaround,
            precision=precision,
            device=device,
            says=says,
            level=level,
            rests_on=tuple(known.seen[cell(name)] for name in rests_on),
            why=why,
        )

    def answer(name: str) -> bool | None:
        return known.fails(cell(name))

    place = at.place
    if place is None:
        return said(at.stopped, Level.UNKNOWN, why=at.why)
    if place.exact:
        answers = {name: answer(name) for name in place.exact}
        if set(answers.values()) in ({True}, {False}):
            return said(_says(answers[place.exact[0]]), Level.MEASURED, place.exact[:1])
        why = next((known.why_silent(cell(one)) for one in place.exact), "") or "is contradictory"
        declined = all(known.declines(cell(one)) for one in place.exact)
        silent = Says.NOT_APPLICABLE if declined else Says.UNKNOWN
        return said(silent, Level.UNKNOWN, why=f"{place.exact[0]} {why}")
    low, high = _edge(place.below, place, answer), _edge(place.above, place, answer)
    if not low or not high:
        return said(Says.UNKNOWN, Level.UNKNOWN, why=_outside(deciding(at.case, known), low, high))
    between = {name: answer(name) for name in place.vectors if _between(name, low, high, place)}
    answers = {name: one for name, one in between.items() if one is not None}
    if len(set(answers.values())) > 1:
        return said(Says.UNKNOWN, Level.UNKNOWN, why=_mixed(answers, (low, high)))
    return said(_says(answers[low[0]]), Level.DERIVED, (low[0], high[0]))


def _says(answer: bool | None) -> Says:  # noqa: FBT001 - it is the answer itself
    return Says.HITS if answer else Says.CLEAR


def _edge(
    names: Sequence[str], place: VersionPlace, answer: Callable[[str], bool | None]
) -> tuple[str, ...]:
    """Return the environments that answer and that no other one stands before."""
    found: list[str] = []
    for name in names:
        mine = place.vectors[name]
        if found and len(mine) == 1:
            break  # versions of one package stand in one line
        nearer = (place.vectors[one] for one in found)
        behind = any(_under(mine, one) or _under(one, mine) for one in nearer)
        if not behind and answer(name) is not None:
            found.append(name)
    return tuple(found)


def _between(name: str, low: Iterable[str], high: Iterable[str], place: VersionPlace) -> bool:
    mine = place.vectors[name]
    return any(_under(place.vectors[one], mine) for one in low) and any(
        _under(mine, place.vectors[one]) for one in high
    )


def _under(one: Vector, other: Vector) -> bool:
    return all(left <= right for left, right in zip(one, other, strict=True))


def _outside(names: Sequence[str], low: Sequence[str], high: Sequence[str]) -> str:
    if not low and not high:
        return "nothing was measured on either side"
    if len(names) > 1:
        side = "older" if high else "newer"
        return f"nothing was measured on the {side} side of these {' and '.join(names)}"
    if high:
        return f"older than what was measured ({high[0]})"
    return f"newer than what was measured ({low[0]})"


def _mixed(answers: dict[str, bool | None], edges: tuple[Sequence[str], Sequence[str]]) -> str:
    said = {True: "fails", False: "passes"}
    (low, *_), (high, *_) = edges
    if answers[low] is answers[high]:
        return f"both outcomes were measured between {low} and {high}"
    return (
        f"between {low}, which {said[bool(answers[low])]},"
        f" and {high}, which {said[bool(answers[high])]}"
    )


@lru_cache(maxsize=4096)
def _version(name: str, text: str) -> Version:
    """Read a version; torch's build is chosen when it is installed and says nothing here."""
    found = Version(text)
    return Version(found.public) if name == TORCH else found
