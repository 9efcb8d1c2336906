"""Which known bugs a set of packages has, how sure that is, and what avoids them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repromatrix.runner.audit import upgrades
from repromatrix.runner.audit.levels import (
    BasisPackage,
    Level,
    Says,
    Stand,
    deciding,
    grounds,
    stand,
)
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import AuditQuestion, KnownEvidence
from repromatrix.runner.audit.upgrades import Spot, Upgrade
from repromatrix.runner.judging.expectations import expected, judge
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.model.packages import TORCH


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionDifference:
    """A package that stands otherwise than where it was measured; empty is not named."""

    package: str
    ours: str
    measured: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """A workaround that passes at somebody's versions, in some of the precisions that hit."""

    name: str
    says: str
    skips: bool
    """Whether it avoids the bug by not doing the thing."""
    stands: tuple[Stand, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Avoiding:
    """Versions at which a case was measured to pass; only those that differ from ours."""

    environment: str
    changes: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A case that fails at somebody's versions."""

    case: Case
    stands: tuple[Stand, ...]
    """One for each precision in which it fails."""
    verdict: Verdict
    """Whether it fails as the case describes."""
    differences: tuple[VersionDifference, ...]
    remedies: tuple[Remedy, ...]
    """Those that avoid the thing come last."""
    newer: Avoiding | None
    older: Avoiding | None

    @property
    def seen(self) -> Observation:
        """The measured failure that it rests on."""
        return self.stands[0].rests_on[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """The answer, as a value."""

    installed: Installed
    question: AuditQuestion
    hits: tuple[Hit, ...]
    clear: tuple[Stand, ...]
    not_applicable: tuple[Stand, ...]
    unknown: tuple[Stand, ...]
    nearest: Upgrade | None
    """The nearest newer release on which everything that was asked passes."""
    fewest: Upgrade | None
    """The newer release with the fewest known bugs."""
    newest: Upgrade | None
    torch: tuple[str, ...]
    """The builds of torch that the evidence was measured with."""
    python: tuple[str, ...]


def audit(
    installed: Installed, known: KnownEvidence, question: AuditQuestion | None = None
) -> Audit:
    """Return which known bugs a set of packages has; unknown is no pass, and is told apart."""
    asked = question or AuditQuestion()
    standing = grounds(asked.chosen(known.cases), installed, known)
    now = {
        Spot(name, precision): stand(at, PLAIN, precision, asked.device, known)
        for name, at in standing.items()
        for precision in asked.precisions
    }
    nearest, fewest, newest = _upgrades(now, installed, known, asked)
    torch, python = known.ran_on(asked.device)
    return Audit(
        installed=installed,
        question=asked,
        hits=_hits(standing, now, installed, known),
        clear=_those(now, Says.CLEAR),
        not_applicable=_those(now, Says.NOT_APPLICABLE),
        unknown=_those(now, Says.UNKNOWN),
        nearest=nearest,
        fewest=fewest,
        newest=newest,
        torch=torch,
        python=python,
    )


def _upgrades(
    now: Mapping[Spot, Stand], installed: Installed, known: KnownEvidence, asked: AuditQuestion
) -> tuple[Upgrade | None, Upgrade | None, Upgrade | None]:
    """Return the nearest newer release without hits, the one with the fewest, and the newest."""
    names = upgrades.newer(installed, known, now.keys(), asked.device)
    if not names:
        return None, None, None
    counts = upgrades.failing(now.keys(), known, asked.device)

    def to(name: str) -> Upgrade:
        return upgrades.upgrade(name, now, known, asked.device)

    nearest = next((one for name in names if not counts[name] and (one := to(name)).clean), None)
    fewest = to(min(names, key=counts.__getitem__))
    if fewest.unknown:  # few known bugs may mean that little is known
        fewest = min(map(to, names), key=lambda one: one.bad)
    return nearest, fewest, to(names[-1])


def _those(now: Mapping[Spot, Stand], says: Says) -> tuple[Stand, ...]:
    return tuple(one for one in now.values() if one.says is says)


def _hits(
    standing: Mapping[str, BasisPackage],
    now: Mapping[Spot, Stand],
    installed: Installed,
    known: KnownEvidence,
) -> tuple[Hit, ...]:
    failing: dict[str, list[Stand]] = {}
    for spot, one in now.items():
        if one.says is Says.HITS:
            failing.setdefault(spot.case, []).append(one)
    return tuple(_hit(standing[name], found, installed, known) for name, found in failing.items())


def _hit(
    at: BasisPackage, stands: Sequence[Stand], installed: Installed, known: KnownEvidence
) -> Hit:
    seen = stands[0].rests_on[0]
    environment = known.environments[seen.cell.environment]
    newer, older = _avoiding(at, stands, installed, known)
    return Hit(
        case=at.case,
        stands=tuple(stands),
        verdict=judge(expected(at.case, seen.cell, environment), seen),
        differences=differences(at.case, stands[0], installed, known),
        remedies=_remedies(at, stands, known),
        newer=newer,
        older=older,
    )


def differences(
    case: Case, one: Stand, installed: Installed, known: KnownEvidence
) -> tuple[VersionDifference, ...]:
    """Return what a case needs or names, and stands otherwise where it was measured."""
    found = []
    for name in sorted({*case.packages, *deciding(case, known), TORCH}):
        measured = tuple(dict.fromkeys(_measured(name, row, known) for row in one.rests_on))
        if measured != (installed.version(name),):
            found.append(
                VersionDifference(package=name, ours=installed.version(name), measured=measured)
            )
    return tuple(found)


def _measured(name: str, row: Observation, known: KnownEvidence) -> str:
    if name == TORCH:
        return row.provenance.torch_build
    return known.environments[row.cell.environment].version(name)


def _remedies(
    at: BasisPackage, stands: Sequence[Stand], known: KnownEvidence
) -> tuple[Remedy, ...]:
    found = []
    for name, workaround in at.case.block.workarounds.items():
        tried = [stand(at, name, one.precision, one.device, known) for one in stands]
        heals = tuple(one for one in tried if one.says is Says.CLEAR)
        if heals:
            found.append(
                Remedy(name=name, says=workaround.says, skips=workaround.skips, stands=heals)
            )
    return tuple(sorted(found, key=_usefulness))


def _usefulness(remedy: Remedy) -> tuple[bool, int, int]:
    measured = sum(one.level is Level.MEASURED for one in remedy.stands)
    return remedy.skips, -len(remedy.stands), -measured


def _avoiding(
    at: BasisPackage, stands: Sequence[Stand], installed: Installed, known: KnownEvidence
) -> tuple[Avoiding | None, Avoiding | None]:
    """Return the nearest versions on both sides at which the case passes wherever it hits."""
    assert at.place is not None  # noqa: S101 - what hits has a place
    exact = at.place.exact

    def passes(name: str) -> bool:
        cells = [Cell(at.case.name, PLAIN, name, one.precision, one.device) for one in stands]
        return all(known.fails(cell) is False for cell in cells)

    def first(names: Sequence[str]) -> Avoiding | None:
        name = next((name for name in names if name not in exact and passes(name)), None)
        return None if name is None else _changes(at.case, name, installed, known)

    return first(at.place.above), first(at.place.below)


def _changes(case: Case, name: str, installed: Installed, known: KnownEvidence) -> Avoiding:
    environment = known.environments[name]
    changes = {
        package: environment.version(package)
        for package in deciding(case, known)
        if environment.version(package) != installed.version(package)
    }
    return Avoiding(environment=name, changes=changes)
