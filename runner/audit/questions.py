"""The question of `audit` and `advise`, its evidence, and how sure an answer is.

An answer is measured at these versions, derived from both sides, or unknown. A set of packages is
placed among the environments of a case by the versions of the packages that the case's expectations
name. Nothing is concluded beyond what was measured: unknown is not a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from operator import le
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.torches import (
    depending,
    is_alike,
    release_of,
    seen_under,
    torch_requirements,
    torch_sides,
)
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.snapshot import Snapshot
from repromatrix.runner.judging.verdicts import in_releases, only_in
from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Source, belongs
from repromatrix.runner.model.environment_name import taken_apart, under_torch, with_torch
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.model.packages import TORCH, TRANSFORMERS

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.version import Version

_STILL = frozenset({Source.RELEASE, Source.PAIR, Source.TORCH, Source.STACK})
"""`main` moves and an interpreter is its owner's: nobody else's versions equal theirs."""


class CellResult(NamedTuple):
    """What is known of one measured cell."""

    fails: bool | None
    """None where no result can be relied on."""
    declines: bool
    """Whether the case itself cannot judge there."""
    why: str
    """Why it has no answer; empty where it has one."""


@dataclass(frozen=True, kw_only=True)
class KnownEvidence:
    """Cases, the environments whose versions never change, and the rows of the one in the other."""

    cases: Mapping[str, Case]
    environments: Mapping[str, Environment]
    seen: Mapping[Cell, Observation]
    """The current row of each cell; contested cells have none."""
    contested: Mapping[Cell, Observation]
    """Cells about which the sources disagree: they answer nothing."""
    commits: tuple[PinnedCommit, ...] = ()
    """The breaks and fixes that were searched for their commit."""
    snapshot: Snapshot | None = None
    """The newest publication; None where nothing was published."""
    torch: str = ""
    """The torch that it is known for; empty: that of the releases."""
    by_torch: frozenset[str] = frozenset()
    """The cases that depend on torch of which only what ends as under that torch is known."""

    def of(self, case: Case) -> Iterator[Environment]:
        """Yield the environments that a case has cells in, in the order of the table.

        What was measured under another torch stands for the release below it.
        """
        return (
            held
            for held in self.environments.values()
            if held.source is not Source.TORCH
            and belongs(case, held)
            and (case.name not in self.by_torch or (case.name, held.name) in self._held)
        )

    @cached_property
    def _held(self) -> frozenset[tuple[str, str]]:
        """The environments in which a case that depends on torch has any row."""
        return frozenset(
            (cell.case, cell.environment) for cell in self.seen if cell.case in self.by_torch
        )

    @cached_property
    def torch_of_releases(self) -> str:
        """The torch that the releases were measured with."""
        return next((self.environments[name].version(TORCH) for name in self.releases()), "")

    def is_for(self, case: Case, torch: str) -> bool:
        """Say whether what is known of a case says anything about a version of torch."""
        if case.name not in self.by_torch:
            return torch_sides(case, torch) == torch_sides(case, self.torch_of_releases)
        is_held = any(name == case.name for name, _ in self._held)
        return is_held and torch_sides(case, torch) == torch_sides(case, self.torch)

    def unusable(self, release: str) -> str:
        """Say why no case can be run on a release with that torch; empty where it can."""
        held = self.environments.get(with_torch(release, self.torch)) if self.torch else None
        return held.unusable if held else ""

    def only_in(self, case: Case) -> tuple[Environment, ...]:
        """Return the stacks or pairs that have what a case needs and no release has."""
        return only_in(case, self.environments.values(), self._in_releases)

    @cached_property
    def _in_releases(self) -> frozenset[str]:
        return in_releases(self.environments.values())

    def releases(self) -> tuple[str, ...]:
        """Return the published releases, oldest first."""
        return tuple(
            environment.name
            for environment in self.environments.values()
            if environment.source is Source.RELEASE and not environment.extras
        )

    def span(self, package: str) -> tuple[Version, Version] | None:
        """Return the oldest and the newest version of a package; None where none was measured."""
        texts = {environment.version(package) for environment in self.environments.values()}
        versions = [release_of(package, text) for text in texts if text]
        return (min(versions), max(versions)) if versions else None

    def ran_on(self, device: Device) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the builds of torch and the minor versions of Python that a device ran with."""
        ran = self._ran[device]
        builds = {build for build, _ in ran if build}
        pythons = {".".join(python.split(".")[:2]) for _, python in ran if python}
        return tuple(sorted(builds)), tuple(sorted(pythons))

    @cached_property
    def _ran(self) -> dict[Device, set[tuple[str, str]]]:
        """The builds of torch and the versions of Python of all that ran, by device."""
        ran = {
            (cell.device, cell.environment, side.provenance.torch_build, side.provenance.python)
            for cell, row in (*self.seen.items(), *self.contested.items())
            if row.outcome.is_evidence
            for side in row.sides or (row,)
        }
        found: dict[Device, set[tuple[str, str]]] = {device: set() for device in Device}
        for device, environment, build, python in ran:
            if not under_torch(environment):
                found[device].add((build, python))
        return found

    def fails(self, cell: Cell) -> bool | None:
        """Return whether a cell fails; None where no result can be relied on."""
        row = self.seen.get(cell)
        return None if row is None else row.reading.fails

    def declines(self, cell: Cell) -> bool:
        """Return whether the case itself cannot judge there: no run would change that."""
        row = self.seen.get(cell)
        return row is not None and row.outcome is Outcome.DECLINES and not row.unstable

    def result(self, cell: Cell) -> CellResult:
        """Return all that an answer may need of a cell."""
        return CellResult(self.fails(cell), self.declines(cell), self.why_silent(cell))

    def why_silent(self, cell: Cell) -> str:
        """Say why a cell has no answer; empty where it has one."""
        row = self.seen.get(cell)
        if row is None:
            return "has contradicting results" if cell in self.contested else "was not run"
        if row.reading.fails is not None:
            return ""
        if row.unstable:
            return "is unstable"
        if row.outcome.reading.fails is not None:
            return f"never computed in {cell.precision}"
        return row.outcome.verb


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditQuestion:
    """The chosen cells; no case means all of them."""

    cases: tuple[str, ...] = ()
    precisions: tuple[Precision, ...] = tuple(Precision)
    device: Device = Device.CPU
    ignored: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    """The families of models that were asked for."""
    left_out: frozenset[Spot] = frozenset()
    """Cells of chosen cases that are not asked for."""
    is_about_cases: bool = True
    """False where no case is about the models that were asked for: then none is chosen."""

    def chosen(self, cases: Mapping[str, Case]) -> tuple[Case, ...]:
        """Return the chosen cases without those that are ignored."""
        if not self.is_about_cases:
            return ()
        return tuple(cases[name] for name in self.cases or cases if name not in self.ignored)

    def by_shared_code(self, cases: Mapping[str, Case]) -> dict[str, tuple[str, ...]]:
        """Return, of the chosen cases that ran none of the models, the families that they ran."""
        return {
            case.name: case.block.families
            for case in self.chosen(cases)
            if case.block.is_by_shared_code(self.models)
        }


def known(
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
    rows: Iterable[Observation],
    commits: Iterable[PinnedCommit] = (),
    torch: str = "",
) -> KnownEvidence:
    """Return what is known from evidence: only what is measured on today's cases and pins.

    A cell that was measured under `torch` as well answers with that row. Of a case that depends on
    torch only what was measured with one that is alike is known.
    """
    still = {
        name: environment
        for name, environment in environments.items()
        if environment.source in _STILL
    }
    seen, contested = current(rows, cases, still)
    by_torch = depending(torch, cases, seen, still) if torch else {}
    alike = {cell: row for cell, row in seen.items() if is_alike(cell, by_torch, still)}
    under = seen_under(torch, alike, by_torch, still)
    contested = {
        cell: row
        for cell, row in contested.items()
        if cell not in under and is_alike(cell, by_torch, still)
    }
    seen = {cell: row for cell, row in alike.items() if not under_torch(cell.environment)} | under
    return KnownEvidence(
        cases=cases,
        environments=still,
        seen=seen,
        contested=contested,
        commits=tuple(row for row in commits if {row.before, row.at} <= still.keys()),
        torch=torch,
        by_torch=frozenset(by_torch),
    )


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
    neighbours: VersionNeighbours | tuple[Says, str]
    """Where it has no place, what is said of the case, and why."""


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
            rests_on=tuple(known.seen[cell(name)] for name in self.rests_on),
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
    neighbours: dict[object, VersionNeighbours] = {}
    by_case = {}
    for case in cases:
        names = deciding(case, known)
        own = case.name if case.name in known.by_torch else ""  # only some environments count
        key = (names, case.extras, case.block.environments, own)
        obstacle = _obstacle(case, names, installed, known)
        if not obstacle and key not in neighbours:  # most cases name nothing but transformers
            neighbours[key] = _neighbours(case, names, installed, known)
        by_case[case.name] = CasePosition(case=case, neighbours=obstacle or neighbours[key])
    return by_case


def _neighbours(
    case: Case, names: Sequence[str], installed: Installed, known: KnownEvidence
) -> VersionNeighbours:
    ours = tuple(release_of(name, installed.version(name)) for name in names)
    return around(ours, vectors(case, names, known))


def vectors(case: Case, names: Sequence[str], known: KnownEvidence) -> dict[str, Vector]:
    """Return the versions of some packages in each environment of a case that has them all."""
    return {
        environment.name: tuple(release_of(name, environment.version(name)) for name in names)
        for environment in known.of(case)
        if all(map(environment.version, names))
    }


def around(ours: Vector, measured: Mapping[str, Vector]) -> VersionNeighbours:
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
    for name in names:
        if name in installed.loose:
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
    missing = [not_listed(name) for name in names if not installed.version(name)]
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
    if name in installed.loose:
        return Says.UNKNOWN, not_pinned(name, installed.loose[name])
    if not version:
        says = Says.NOT_APPLICABLE if installed.whole else Says.UNKNOWN
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
        names = deciding(position.case, known)
        concluded = conclude(near, lambda name: known.result(cell(name)), names)
    return concluded.of(cell, known)


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
    between = {name: fails(name) for name in _between(low, high, near.vectors)}
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


def _between(
    low: Sequence[str], high: Sequence[str], measured: Mapping[str, Vector]
) -> Iterator[str]:
    lows, highs = [measured[name] for name in low], [measured[name] for name in high]
    for name, vector in measured.items():
        if len(vector) == 1:  # versions of one package are in one line
            if lows[0] <= vector <= highs[0]:
                yield name
        elif any(_under(edge, vector) for edge in lows) and any(
            _under(vector, edge) for edge in highs
        ):
            yield name


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
