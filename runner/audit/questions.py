"""The question of `audit` and `advise`, and how sure an answer is.

An answer is measured at these versions, derived from both sides, or unknown. A set of packages is
placed among the environments of a case by the versions of the packages that the case's expectations
name. Nothing is concluded beyond what was measured: unknown is not a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from itertools import product
from math import prod
from operator import le
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from repromatrix.runner.audit.known import CellResult, KnownEvidence
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.torches import release_of, torch_requirements
from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import TORCH, TRANSFORMERS

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.version import Version


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditQuestion:
    """The chosen cells; no case means all of them."""

    cases: tuple[str, ...] = ()
    precisions: tuple[Precision, ...] = tuple(Precision)
    device: Device = Device.CPU
    ignored: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    """The families of models that were asked for."""
    packages: frozenset[str] = frozenset()
    """Those at fault in the bugs that are asked for; all where it is empty."""
    features: frozenset[str] = frozenset()
    """What is used, as it was said: it orders the answer, and leaves nothing out."""
    left_out: frozenset[Spot] = frozenset()
    """Cells of chosen cases that are not asked for."""

    def chosen(self, cases: Mapping[str, Case]) -> tuple[Case, ...]:
        """Return the chosen cases without those that are ignored."""
        return tuple(cases[name] for name in self.cases or cases if name not in self.ignored)


_MOST = 100
"""So many combinations of allowed versions are looked at."""

# Where a set of packages stands among the environments of a case

Vector = tuple[Any, ...]
"""The versions of the deciding packages, or their places in lines of versions."""


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

    @property
    def measured_in(self) -> tuple[str, ...]:
        """The environments in which the cells were measured that it rests on."""
        return tuple(row.cell.environment for row in self.rests_on)


class Vectors(dict[str, Vector]):
    """The versions of the deciding packages, by environment."""

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        """Take them; they are not to be changed."""
        super().__init__(vectors)
        self.above = cache(self._above)
        """Return the environments in which no package is older than in one of them."""
        self.below = cache(self._below)
        """Return the environments in which no package is newer than in one of them."""

    @cached_property
    def in_line(self) -> bool:
        """Whether they are of one package, so that of two one is always newer."""
        return all(len(vector) == 1 for vector in self.values())

    def _above(self, name: str) -> frozenset[str]:
        return frozenset(each for each, vector in self.items() if _under(self[name], vector))

    def _below(self, name: str) -> frozenset[str]:
        return frozenset(each for each, vector in self.items() if _under(vector, self[name]))


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionNeighbours:
    """The environments of a case around a set of versions."""

    vectors: Vectors
    exact: tuple[str, ...]
    below: tuple[str, ...]
    """Environments in which no deciding package is newer than ours, the newest first."""
    above: tuple[str, ...]
    """Environments in which no deciding package is older than ours, the oldest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CasePosition:
    """Where a set of packages stands among the environments of a case, or why it has no place."""

    case: Case
    neighbours: VersionNeighbours | tuple[Says, str]
    """Where it has no place, what is said of the case, and why."""
    allowed: tuple[VersionNeighbours, ...] = ()
    """Where ranges are given, the places of the measured versions that they allow."""


class Conclusion(NamedTuple):
    """What the results around a set of versions say."""

    says: Says
    level: Level
    rests_on: tuple[str, ...]
    """The environment that was measured, or the nearest ones on both sides, older ones first."""
    why: str = ""
    """Why it is unknown or does not apply."""

    def of(self, cell: Callable[[str], Cell], known: KnownEvidence) -> CellAnswer:
        """Return it with the rows that it rests on; `cell` gives that of an environment."""
        case, workaround, _, precision, device = cell("")
        return CellAnswer(
            case=case,
            workaround=workaround,
            precision=precision,
            device=device,
            says=self.says,
            level=self.level,
            rests_on=tuple(known.row(cell(name)) for name in self.rests_on),
            why=self.why,
        )


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
    """Return the packages that a case's expectations and pairs name: transformers, the others.

    torch is none of them: it says which evidence of the case answers, and is no place in it.
    """
    names: set[str] = {
        canonicalize_name(requirement.name)
        for entry in case.block.fails
        for requirement in entry.when
    }
    names |= {name for pair in case.block.environments for name, _ in taken_apart(pair).changed}
    return (TRANSFORMERS, *sorted(names - {TRANSFORMERS, TORCH}))


def positions(
    cases: Iterable[Case], installed: Installed, known: KnownEvidence
) -> dict[str, CasePosition]:
    """Return for each case where a set of packages stands among its environments."""
    neighbours: dict[object, tuple[VersionNeighbours, ...]] = {}
    by_case = {}
    for case in cases:
        names = deciding(case, known)
        own = case.name if case.name in known.by_torch else ""  # only some environments count
        key = (names, case.extras, case.block.environments, own)
        obstacle = _obstacle(case, names, installed, known)
        if not obstacle and key not in neighbours:  # most cases name nothing but transformers
            measured = vectors(case, names, known)
            allowed = product(*(possible(name, installed, known) for name in names))
            neighbours[key] = tuple(around(ours, measured) for ours in allowed)
        places = () if obstacle else neighbours[key]
        by_case[case.name] = CasePosition(
            case=case,
            neighbours=obstacle or _outer(places),
            allowed=places if len(places) > 1 else (),
        )
    return by_case


def possible(name: str, installed: Installed, known: KnownEvidence) -> tuple[Version, ...]:
    """Return the version of a package, or the measured ones that its range allows, in order."""
    if name not in installed.ranges:
        return (release_of(name, installed.version(name)),)
    specifier = SpecifierSet(installed.ranges[name])
    texts = {environment.version(name) for environment in known.environments.values()} - {""}
    versions = {release_of(name, text) for text in texts}
    return tuple(sorted(specifier.filter(versions, prereleases=True)))


def _outer(places: Sequence[VersionNeighbours]) -> VersionNeighbours:
    """Return what stands around all places: below the first and above the last."""
    first, last = places[0], places[-1]
    exact = tuple(dict.fromkeys(name for place in places for name in place.exact))
    return VersionNeighbours(
        vectors=first.vectors, exact=exact, below=first.below, above=last.above
    )


def vectors(case: Case, names: Sequence[str], known: KnownEvidence) -> Vectors:
    """Return the versions of some packages in each environment of a case that has them all."""
    return Vectors(
        {
            environment.name: tuple(release_of(name, environment.version(name)) for name in names)
            for environment in known.of(case)
            if all(map(environment.version, names))
        }
    )


def around(ours: Vector, measured: Vectors) -> VersionNeighbours:
    """Return the environments around a set of versions."""
    ordered = sorted(measured, key=measured.__getitem__)
    return VersionNeighbours(
        vectors=measured,
        exact=tuple(name for name in ordered if measured[name] == ours),
        below=tuple(name for name in reversed(ordered) if _under(measured[name], ours)),
        above=tuple(name for name in ordered if _under(ours, measured[name])),
    )


def _obstacle(
    case: Case, names: Sequence[str], installed: Installed, known: KnownEvidence
) -> tuple[Says, str] | None:
    """Return why a set of packages has no place for a case; None where it has one."""
    if unusable := known.unusable(installed.version(TRANSFORMERS)):
        return Says.NOT_APPLICABLE, unusable
    allowed = {name: possible(name, installed, known) for name in names if name in installed.ranges}
    for name in names:
        if name in installed.loose and not allowed.get(name):
            return Says.UNKNOWN, not_pinned(name, installed.loose[name])
    if prod(map(len, allowed.values())) > _MOST:
        name = min(allowed, key=lambda name: name == TRANSFORMERS)
        return Says.UNKNOWN, not_pinned(name, installed.loose[name])
    for requirement in case.head.dependencies:
        # torch is often installed apart, and every case needs it.
        if canonicalize_name(requirement.name) != TORCH and (
            why := unmet(requirement, installed, known)
        ):
            return why
    python = installed.python
    if python and not SpecifierSet(case.head.requires_python).contains(python, prereleases=True):
        return Says.NOT_APPLICABLE, f"needs Python {case.head.requires_python}, has {python}"
    missing = [
        not_listed(name) for name in names if not (installed.version(name) or name in allowed)
    ]
    found = [*_torch_obstacles(case, installed, known), *missing]
    return (Says.UNKNOWN, found[0]) if found else None


def _torch_obstacles(case: Case, installed: Installed, known: KnownEvidence) -> Iterator[str]:
    """Yield why nothing is known of a case that depends on torch; where none is listed, none is."""
    torch = installed.version(TORCH)
    if not torch_requirements(case):
        return
    if TORCH in installed.loose:
        yield not_pinned(TORCH, installed.loose[TORCH])
    elif torch and not known.is_for(case, str(release_of(TORCH, torch))):
        yield outside(TORCH, torch)


def not_pinned(name: str, why: str) -> str:
    """Say that a package has no version, and why."""
    return f"{name} is not pinned ({why})"


def not_listed(name: str) -> str:
    """Say that nothing is known of a package."""
    return f"{name} is not listed"


def outside(name: str, version: str) -> str:
    """Say that nothing was measured that would tell about a version."""
    return f"{name} {version} is outside the measured versions"


def unmet(
    requirement: Requirement, installed: Installed, known: KnownEvidence
) -> tuple[Says, str] | None:
    """Say what an unmet requirement means, and why; None where it is met.

    Outside the measured versions the case is unknown.
    """
    if requirements.holds(requirement, installed.pins, installed.markers):
        return None
    name = canonicalize_name(requirement.name)
    version = installed.version(name)
    if name in installed.ranges and name != TORCH:
        allowed = possible(name, installed, known)
        meeting = [one for one in allowed if requirement.specifier.contains(one, prereleases=True)]
        if allowed and len(meeting) in {0, len(allowed)}:
            return None if meeting else (Says.NOT_APPLICABLE, f"needs {requirement}")
    if name in installed.loose:
        return Says.UNKNOWN, not_pinned(name, installed.loose[name])
    if not version:
        is_absent = installed.whole or name in installed.absent
        says = Says.NOT_APPLICABLE if is_absent else Says.UNKNOWN
        return says, f"needs {requirement}, which is not listed"
    span = known.span(name)
    # Many cases ask for the oldest measured version: that says nothing about older ones.
    if span is None or not span[0] <= release_of(name, version) <= span[1]:
        return Says.UNKNOWN, outside(name, version)
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

    near = position.neighbours
    if isinstance(near, tuple):
        concluded = Conclusion(near[0], Level.UNKNOWN, (), near[1])
    else:
        line = known.line(position.case.name, workaround, precision, device)

        def result(name: str) -> CellResult:
            return line[name].result if name in line else known.result(cell(name))

        names = deciding(position.case, known)
        every = [conclude(place, result, names) for place in position.allowed or (near,)]
        concluded = _agreed(every) if position.allowed else every[0]
    return concluded.of(cell, known)


def _agreed(every: Sequence[Conclusion]) -> Conclusion:
    """Return what is concluded of all versions of a range; unknown where that is not one thing."""
    first, last = every[0], every[-1]
    if {each.says for each in every} - {first.says} or first.says is Says.UNKNOWN:
        why = "not the same is known of all measured versions that are allowed"
        return Conclusion(Says.UNKNOWN, Level.UNKNOWN, (), why)
    rests_on = (*first.rests_on[:1], *last.rests_on[-1:])
    return Conclusion(first.says, Level.DERIVED if rests_on else first.level, rests_on, first.why)


def conclude(
    near: VersionNeighbours, result: Callable[[str], CellResult], names: Sequence[str]
) -> Conclusion:
    """Return what results in the environments around a set of versions say of it. Pure.

    `result` gives that of an environment; `names` are the deciding packages.
    """
    if near.exact:
        says, why = _measured(near.exact, [result(name) for name in near.exact])
        level, rests_on = Level.MEASURED, near.exact[:1]
    else:

        def fails(name: str) -> bool | None:
            return result(name).fails

        low, high = _edge(near.below, near, fails), _edge(near.above, near, fails)
        says, why = _derived(low, high, near, fails, names)
        level, rests_on = Level.DERIVED, (*low[:1], *high[:1])
    return Conclusion(says, Level.UNKNOWN, (), why) if why else Conclusion(says, level, rests_on)


def _measured(names: Sequence[str], results: Sequence[CellResult]) -> tuple[Says, str]:
    """Return what cells at exactly these versions say, and why where that is nothing."""
    answers = {result.fails for result in results}
    if answers in ({True}, {False}):
        return Says.HITS if True in answers else Says.CLEAR, ""
    why = next((result.why for result in results if result.why), "has contradicting results")
    declines = all(result.declines for result in results)
    says = Says.NOT_APPLICABLE if declines else Says.UNKNOWN
    return says, f"{names[0]} {why}"


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
    between = {name: fails(name) for name in _between(low, high, near)}
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
    behind: set[str] = set()
    for name in names:
        if edge and near.vectors.in_line:
            break
        if name not in behind and fails(name) is not None:
            edge.append(name)
            behind |= near.vectors.above(name) | near.vectors.below(name)
    return tuple(edge)


def _between(low: Sequence[str], high: Sequence[str], near: VersionNeighbours) -> frozenset[str]:
    lows, highs = map(near.vectors.above, low), map(near.vectors.below, high)
    return frozenset().union(*lows) & frozenset().union(*highs)


def _under(left: Vector, right: Vector) -> bool:
    return all(map(le, left, right))


def _outside(names: Sequence[str], low: Sequence[str], high: Sequence[str]) -> str:
    if not low and not high:
        return "nothing was measured on either side"
    if len(names) > 1:
        side = "older" if high else "newer"
        return f"nothing was measured on the {side} side of these {' and '.join(names)}"
    if high:
        return f"older than what was measured ({high[0]})"
    return f"newer than what was measured ({low[0]})"
