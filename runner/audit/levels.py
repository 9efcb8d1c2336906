"""How sure an answer is: measured at these versions, derived from both sides, or unknown.

A set of packages is placed among the environments of a case by the versions of the packages that
the case's expectations name. Nothing is concluded beyond what was measured: unknown is not a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

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
class CellAnswer:
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
class VersionNeighbours:
    """The environments of a case around a set of versions."""

    vectors: Mapping[str, Vector]
    """The versions of the deciding packages, by environment."""
    exact: tuple[str, ...]
    below: tuple[str, ...]
    """Environments in which no deciding package is newer than ours, the newest first."""
    above: tuple[str, ...]
    """Environments in which no deciding package is older than ours, the oldest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CasePosition:
    """Where a set of packages stands among the environments of a case, or why it has no place."""

    case: Case
    neighbours: VersionNeighbours | None
    says: Says = Says.UNKNOWN
    """Where it has no place: unknown, or not applicable."""
    why: str = ""


class Spot(NamedTuple):
    """A case in a precision, in whatever environment."""

    case: str
    precision: Precision


def deciding(case: Case, known: KnownEvidence) -> tuple[str, ...]:
    """Return the packages whose versions decide where a set of packages stands for a case.

    In downstream stacks that includes the program: no release by itself has it.
    """
    programs = {environment.program for environment in known.only_in(case)} - {""}
    return tuple(dict.fromkeys([*named(case), *sorted(programs)]))


def named(case: Case) -> tuple[str, ...]:
    """Return the packages that a case's expectations and pairs name, transformers first."""
    names: set[str] = {
        canonicalize_name(requirement.name)
        for entry in case.block.fails
        for requirement in entry.when
    }
    names |= {name for pair in case.block.environments for name, _ in taken_apart(pair).changed}
    return (TRANSFORMERS, *sorted(names - {TRANSFORMERS}))


def positions(
    cases: Iterable[Case], installed: Installed, known: KnownEvidence
) -> dict[str, CasePosition]:
    """Return for each case where a set of packages stands among its environments."""
    neighbours: dict[object, VersionNeighbours] = {}
    by_case = {}
    for case in cases:
        names = deciding(case, known)
        if obstacle := _obstacle(case, names, installed, known):
            says, why = obstacle
            by_case[case.name] = CasePosition(case=case, neighbours=None, says=says, why=why)
            continue
        key = (names, case.extras, case.block.environments)
        if key not in neighbours:  # most cases name nothing but transformers
            neighbours[key] = _neighbours(case, names, installed, known)
        by_case[case.name] = CasePosition(case=case, neighbours=neighbours[key])
    return by_case


def _neighbours(
    case: Case, names: Sequence[str], installed: Installed, known: KnownEvidence
) -> VersionNeighbours:
    ours = tuple(_version(name, installed.version(name)) for name in names)
    vectors = {
        environment.name: tuple(_version(name, environment.version(name)) for name in names)
        for environment in known.of(case)
        if all(map(environment.version, names))
    }
    ordered = sorted(vectors, key=vectors.__getitem__)
    return VersionNeighbours(
        vectors=vectors,
        exact=tuple(name for name in ordered if vectors[name] == ours),
        below=tuple(name for name in reversed(ordered) if _under(vectors[name], ours)),
        above=tuple(name for name in ordered if _under(ours, vectors[name])),
    )


def _obstacle(
    case: Case, names: Sequence[str], installed: Installed, known: KnownEvidence
) -> tuple[Says, str] | None:
    """Return why a set of packages has no place for a case; None where it has one."""
    for name in names:
        if name in installed.loose:
            return Says.UNKNOWN, f"{name} is not pinned ({installed.loose[name]})"
    for requirement in case.head.dependencies:
        # torch is often installed apart, and every case needs it.
        if canonicalize_name(requirement.name) != TORCH and not requirements.holds(
            requirement, installed.pins, installed.markers
        ):
            return _unmet(requirement, installed, known)
    python = installed.python
    if python and not SpecifierSet(case.head.requires_python).contains(python, prereleases=True):
        return Says.NOT_APPLICABLE, f"needs Python {case.head.requires_python}, has {python}"
    missing = [name for name in names if not installed.version(name)]
    return (Says.UNKNOWN, f"{missing[0]} is not listed") if missing else None


def _unmet(
    requirement: Requirement, installed: Installed, known: KnownEvidence
) -> tuple[Says, str]:
    """Say what an unmet requirement means: outside the measured versions the case is unknown."""
    name = canonicalize_name(requirement.name)
    version = installed.version(name)
    if name in installed.loose:
        return Says.UNKNOWN, f"{name} is not pinned ({installed.loose[name]})"
    if not version:
        says = Says.NOT_APPLICABLE if installed.whole else Says.UNKNOWN
        return says, f"needs {requirement}, which is not listed"
    versions = (environment.version(name) for environment in known.environments.values())
    measured = [_version(name, text) for text in versions if text]
    # Many cases ask for the oldest measured version: that says nothing about older ones.
    if not measured or not min(measured) <= _version(name, version) <= max(measured):
        return Says.UNKNOWN, f"{name} {version} is outside the measured versions"
    return Says.NOT_APPLICABLE, f"needs {requirement}, has {version}"


def answer(
    position: CasePosition,
    workaround: str,
    precision: Precision,
    device: Device,
    known: KnownEvidence,
) -> CellAnswer:
    """Return what is known of a cell of a case at the versions that stand there."""

    def cell(environment: str) -> Cell:
        return Cell(position.case.name, workaround, environment, precision, device)

    def fails(environment: str) -> bool | None:
        return known.fails(cell(environment))

    near = position.neighbours
    rests_on: tuple[str, ...] = ()
    level = Level.UNKNOWN
    if near is None:
        says, why = position.says, position.why
    elif near.exact:
        says, why = _measured([cell(name) for name in near.exact], known)
        if not why:
            level, rests_on = Level.MEASURED, near.exact[:1]
    else:
        low, high = _edge(near.below, near, fails), _edge(near.above, near, fails)
        says, why = _derived(low, high, near, fails, deciding(position.case, known))
        if not why:
            level, rests_on = Level.DERIVED, (low[0], high[0])
    return CellAnswer(
        case=position.case.name,
        workaround=workaround,
        precision=precision,
        device=device,
        says=says,
        level=level,
        rests_on=tuple(known.seen[cell(name)] for name in rests_on),
        why=why,
    )


def _measured(cells: Sequence[Cell], known: KnownEvidence) -> tuple[Says, str]:
    """Return what cells at exactly these versions say, and why where that is nothing."""
    answers = {known.fails(cell) for cell in cells}
    if answers in ({True}, {False}):
        return Says.HITS if True in answers else Says.CLEAR, ""
    why = next(filter(None, map(known.why_silent, cells)), "has contradicting results")
    declines = all(map(known.declines, cells))
    says = Says.NOT_APPLICABLE if declines else Says.UNKNOWN
    return says, f"{cells[0].environment} {why}"


def _derived(
    low: Sequence[str],
    high: Sequence[str],
    near: VersionNeighbours,
    fails: Callable[[str], bool | None],
    names: Sequence[str],
) -> tuple[Says, str]:
    """Return what cells on both sides and between them agree on, and why where they do not."""
    if not low or not high:
        return Says.UNKNOWN, _outside(names, low, high)
    between = {name: fails(name) for name in near.vectors if _between(name, low, high, near)}
    answers = {*between.values()} - {None}
    if len(answers) == 1:
        return Says.HITS if True in answers else Says.CLEAR, ""
    if between[low[0]] is between[high[0]]:
        return Says.UNKNOWN, f"both outcomes were measured between {low[0]} and {high[0]}"
    verbs = ["fails" if between[name] else "passes" for name in (low[0], high[0])]
    why = f"between {low[0]}, which {verbs[0]}, and {high[0]}, which {verbs[1]}"
    return Says.UNKNOWN, why


def _edge(
    names: Sequence[str], near: VersionNeighbours, fails: Callable[[str], bool | None]
) -> tuple[str, ...]:
    """Return the environments with an answer that no other such environment is closer than."""
    edge: list[str] = []
    for name in names:
        vector = near.vectors[name]
        if edge and len(vector) == 1:
            break  # versions of one package are in one line
        nearer = (near.vectors[other] for other in edge)
        behind = any(_under(vector, other) or _under(other, vector) for other in nearer)
        if not behind and fails(name) is not None:
            edge.append(name)
    return tuple(edge)


def _between(name: str, low: Iterable[str], high: Iterable[str], near: VersionNeighbours) -> bool:
    vector = near.vectors[name]
    return any(_under(near.vectors[other], vector) for other in low) and any(
        _under(vector, near.vectors[other]) for other in high
    )


def _under(left: Vector, right: Vector) -> bool:
    return all(ours <= theirs for ours, theirs in zip(left, right, strict=True))


def _outside(names: Sequence[str], low: Sequence[str], high: Sequence[str]) -> str:
    if not low and not high:
        return "nothing was measured on either side"
    if len(names) > 1:
        side = "older" if high else "newer"
        return f"nothing was measured on the {side} side of these {' and '.join(names)}"
    if high:
        return f"older than what was measured ({high[0]})"
    return f"newer than what was measured ({low[0]})"


@lru_cache(maxsize=4096)
def _version(name: str, text: str) -> Version:
    """Parse a version; the local part of torch's names its build, which does not matter here."""
    version = Version(text)
    return Version(version.public) if name == TORCH else version
