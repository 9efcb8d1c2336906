"""Which known bugs a set of packages has, how sure that is, and what avoids them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.audit.known import KnownEvidence
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import (
    AuditQuestion,
    CasePosition,
    CellAnswer,
    Level,
    Says,
    Spot,
    VersionNeighbours,
    answer,
    deciding,
    positions,
)
from repromatrix.runner.audit.torches import release_of
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.snapshot import Snapshot
from repromatrix.runner.judging.verdicts import expected, judge
from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell, Source, obstacles
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Verdict
from repromatrix.runner.model.packages import COMPANIONS, TORCH, TRANSFORMERS


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionDifference:
    """A package in another version than where the cell was measured; empty if it is not listed."""

    package: str
    ours: str
    measured: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """A workaround that passes at somebody's versions, in some of the failing precisions."""

    name: str
    says: str
    skips: bool
    """Whether it avoids the bug by disabling the feature."""
    stands: tuple[CellAnswer, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A case that fails at somebody's versions."""

    case: Case
    stands: tuple[CellAnswer, ...]
    """One for each precision in which it fails."""
    verdict: Verdict
    """Whether it fails as the case describes."""
    by_shared_code: bool
    """Whether the case ran none of the models that were asked for."""
    differences: tuple[VersionDifference, ...]
    remedies: tuple[Remedy, ...]
    """Those that disable the feature come last."""
    newer: Mapping[str, str] | None
    """The nearest versions at which it was measured to pass: those that differ from ours."""
    older: Mapping[str, str] | None
    broken_by: tuple[PinnedCommit, ...] = ()
    """The commit that broke it before these versions, for each precision in which it is known."""
    fixed_by: tuple[PinnedCommit, ...] = ()
    """The commit that fixed it after them, likewise."""

    @property
    def seen(self) -> Observation:
        """The measured failure that it rests on."""
        return self.stands[0].rests_on[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Upgrade:
    """A release with the packages of its day, compared with somebody's versions."""

    release: str
    packages: Mapping[str, str]
    """The companions that it was measured with."""
    heals: tuple[Spot, ...]
    """Fails now, passes there."""
    keeps: tuple[Spot, ...]
    """Fails now and there."""
    loses: tuple[Spot, ...]
    """Fails now; unknown or not applicable there."""
    breaks: tuple[Spot, ...]
    """Passes now, fails there."""
    brings: tuple[Spot, ...]
    """Not applicable now, fails there: only the newer release has the feature."""
    doubts: tuple[Spot, ...]
    """Unknown now, fails there."""
    unknown: tuple[Spot, ...]
    """Unknown there."""

    @property
    def clean(self) -> bool:
        """Whether everything that applies there was measured to pass."""
        return not (self.bad or self.loses)

    @property
    def bad(self) -> int:
        """How many cells fail or are unknown there."""
        groups = (self.keeps, self.breaks, self.brings, self.doubts, self.unknown)
        return sum(map(len, groups))


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """The answer of `audit`."""

    installed: Installed
    question: AuditQuestion
    hits: tuple[Hit, ...]
    clear: tuple[CellAnswer, ...]
    not_applicable: tuple[CellAnswer, ...]
    unknown: tuple[CellAnswer, ...]
    by_shared_code: Mapping[str, tuple[str, ...]]
    """The cases that ran none of the models that were asked for, and the families that they ran."""
    nearest: Upgrade | None
    """The nearest newer release on which all chosen cells pass."""
    fewest: Upgrade | None
    """The newer release with the fewest known bugs."""
    newest: Upgrade | None
    torch: tuple[str, ...]
    """The builds of torch that the evidence was measured with."""
    python: tuple[str, ...]
    snapshot: Snapshot | None
    """What it rests on; None where nothing was published."""


def audit(
    installed: Installed, known: KnownEvidence, question: AuditQuestion | None = None
) -> Audit:
    """Return which known bugs a set of packages has; unknown is not a pass, and kept apart."""
    question = question or AuditQuestion()
    by_case = positions(question.chosen(known.cases), installed, known)
    now = {
        Spot(name, precision): answer(position, PLAIN, precision, question.device, known)
        for name, position in by_case.items()
        for precision in question.precisions
        if Spot(name, precision) not in question.left_out
    }

    def those(says: Says) -> tuple[CellAnswer, ...]:
        return tuple(cell for cell in now.values() if cell.says is says)

    nearest, fewest, newest = _upgrades(now, installed, known, question.device)
    torch, python = known.ran_on(question.device)
    return Audit(
        installed=installed,
        question=question,
        hits=tuple(
            _hit(by_case[name], list(cells), installed, known, question.models)
            for name, cells in groupby(those(Says.HITS), key=attrgetter("case"))
        ),
        clear=those(Says.CLEAR),
        not_applicable=those(Says.NOT_APPLICABLE),
        unknown=those(Says.UNKNOWN),
        by_shared_code=question.by_shared_code(known.cases),
        nearest=nearest,
        fewest=fewest,
        newest=newest,
        torch=torch,
        python=python,
        snapshot=known.snapshot,
    )


def _hit(
    position: CasePosition,
    cells: Sequence[CellAnswer],
    installed: Installed,
    known: KnownEvidence,
    models: Collection[str],
) -> Hit:
    case, near = position.case, position.neighbours
    assert isinstance(near, VersionNeighbours)  # noqa: S101 - what fails has neighbours

    def passes(name: str) -> bool:
        there = [Cell(case.name, PLAIN, name, cell.precision, cell.device) for cell in cells]
        return all(known.fails(cell) is False for cell in there)

    newer, older = (_changes(case, name, installed, known) for name in avoiding(near, passes))

    def tried(name: str, cell: CellAnswer) -> CellAnswer:
        return answer(position, name, cell.precision, cell.device, known)

    return Hit(
        case=case,
        stands=tuple(cells),
        verdict=as_described(case, cells[0].rests_on[0], known),
        by_shared_code=case.block.is_by_shared_code(models),
        differences=tuple(_differences(case, cells[0], installed, known)),
        remedies=tuple(remedies(case, cells, tried)),
        newer=newer,
        older=older,
        broken_by=tuple(_commits("break", cells, installed, known)),
        fixed_by=tuple(_commits("fix", cells, installed, known)),
    )


def _commits(
    change: str, cells: Sequence[CellAnswer], installed: Installed, known: KnownEvidence
) -> Iterator[PinnedCommit]:
    """Yield the commits between which failing cells lie: their breaks, or their fixes.

    A change counts only where nothing passes between it and these versions: else another one,
    which nobody may have searched, lies nearer.
    """
    for cell in cells:
        for row in known.commits:
            about = (row.case, row.workaround, row.precision, row.device, row.change)
            if (
                row.commit
                and about == (cell.case, PLAIN, cell.precision, cell.device, change)
                and _leads_to(row, cell, installed, known)
            ):
                yield row


def _leads_to(
    row: PinnedCommit, cell: CellAnswer, installed: Installed, known: KnownEvidence
) -> bool:
    """Return whether a cell fails from a break on, or until a fix, without a pass between."""

    def version(environment: str) -> Version:
        text = known.environments[environment].version(row.package)
        return release_of(row.package, text or "0")

    if not installed.version(row.package):
        return False
    ours = release_of(row.package, installed.version(row.package))
    is_break = row.change == "break"
    low, high = (version(row.at), ours) if is_break else (ours, version(row.before))
    if low > high:
        return False
    measured = (
        Cell(row.case, PLAIN, environment.name, cell.precision, cell.device)
        for environment in known.of(known.cases[row.case])
        if low <= version(environment.name) <= high
    )
    return not any(known.fails(each) is False for each in measured)


def as_described(case: Case, seen: Observation, known: KnownEvidence) -> Verdict:
    """Return whether a case fails as it describes itself."""
    environment = known.environments[seen.cell.environment]
    return judge(expected(case, seen.cell, environment), seen)


def _differences(
    case: Case, cell: CellAnswer, installed: Installed, known: KnownEvidence
) -> Iterator[VersionDifference]:
    for name in sorted({*case.packages, *deciding(case, known), TORCH}):
        ours = installed.version(name)
        measured = tuple(
            dict.fromkeys(
                row.provenance.torch_build
                if name == TORCH
                else known.environments[row.cell.environment].version(name)
                for row in cell.rests_on
            )
        )
        if measured != (ours,):
            yield VersionDifference(package=name, ours=ours, measured=measured)


def remedies(
    case: Case, cells: Sequence[CellAnswer], tried: Callable[[str, CellAnswer], CellAnswer]
) -> list[Remedy]:
    """Return the workarounds that pass in failing cells, the most useful first.

    `tried` gives the answer about a workaround, by its name, where the plain case fails.
    """
    every = []
    for name, workaround in case.block.workarounds.items():
        answers = [tried(name, cell) for cell in cells]
        passing = tuple(cell for cell in answers if cell.says is Says.CLEAR)
        if passing:
            every.append(
                Remedy(name=name, says=workaround.says, skips=workaround.skips, stands=passing)
            )

    def usefulness(remedy: Remedy) -> tuple[bool, int, int]:
        measured = sum(cell.level is Level.MEASURED for cell in remedy.stands)
        return remedy.skips, -len(remedy.stands), -measured

    return sorted(every, key=usefulness)


def avoiding(
    near: VersionNeighbours, passes: Callable[[str], bool]
) -> tuple[str | None, str | None]:
    """Return the nearest environments, newer and older, that pass."""

    def first(names: Sequence[str]) -> str | None:
        return next((name for name in names if name not in near.exact and passes(name)), None)

    return first(near.above), first(near.below)


def _changes(
    case: Case, environment: str | None, installed: Installed, known: KnownEvidence
) -> dict[str, str] | None:
    """Return the versions of the deciding packages that differ from ours."""
    if environment is None:
        return None
    version = known.environments[environment].version
    changes = {package: version(package) for package in deciding(case, known)}
    return {name: new for name, new in changes.items() if new != installed.version(name)}


# Upgrades: what moving to another release fixes, and what it breaks


def _upgrades(
    now: Mapping[Spot, CellAnswer], installed: Installed, known: KnownEvidence, device: Device
) -> tuple[Upgrade | None, Upgrade | None, Upgrade | None]:
    """Return the nearest newer release without hits, the one with the fewest, and the newest."""
    ours = installed.version(TRANSFORMERS)
    names = [
        name
        for name in known.releases()
        if ours
        and Version(name) > Version(ours)
        and any(says_at(name, spot, known, device) in {Says.HITS, Says.CLEAR} for spot in now)
    ]
    if not names:
        return None, None, None
    # Counting the known failures first spares most releases a comparison cell by cell.
    counts = Counter(
        known.environments[cell.environment].column
        for cell, row in known.seen.items()
        if row.reading.fails
        and cell.workaround == PLAIN
        and cell.device is device
        and (cell.case, cell.precision) in now
    )

    def to(name: str) -> Upgrade:
        return _upgrade(name, now, known, device)

    candidates = (to(name) for name in names if not counts[name])
    nearest = next((upgrade for upgrade in candidates if upgrade.clean), None)
    fewest = to(min(names, key=counts.__getitem__))
    if fewest.unknown:  # few known bugs may mean that little is known
        fewest = min(map(to, names), key=lambda upgrade: upgrade.bad)
    return nearest, fewest, to(names[-1])


MOVES: Mapping[str, tuple[tuple[Says, Says], ...]] = {
    "heals": ((Says.HITS, Says.CLEAR),),
    "keeps": ((Says.HITS, Says.HITS),),
    "loses": ((Says.HITS, Says.UNKNOWN), (Says.HITS, Says.NOT_APPLICABLE)),
    "breaks": ((Says.CLEAR, Says.HITS),),
    "brings": ((Says.NOT_APPLICABLE, Says.HITS),),
    "doubts": ((Says.UNKNOWN, Says.HITS),),
}
"""The groups of an upgrade: what is said of a cell now, and there."""


def _upgrade(
    release: str, now: Mapping[Spot, CellAnswer], known: KnownEvidence, device: Device
) -> Upgrade:
    there = {spot: says_at(release, spot, known, device) for spot in now}

    def those(before: Says, after: Says) -> tuple[Spot, ...]:
        return tuple(spot for spot in now if now[spot].says is before and there[spot] is after)

    groups = {
        name: tuple(spot for move in moves for spot in those(*move))
        for name, moves in MOVES.items()
    }
    pins = known.environments[release].pins
    packages = {name: pins[name] for name in COMPANIONS if name in pins}
    unknown = tuple(spot for spot in now if there[spot] is Says.UNKNOWN)
    return Upgrade(release=release, packages=packages, unknown=unknown, **groups)


def says_at(release: str, spot: Spot, known: KnownEvidence, device: Device) -> Says:
    """Return what was measured of a case on a release, with the packages of its day."""
    case = known.cases[spot.case]
    base = known.environments[release]
    if known.unusable(release):
        return Says.NOT_APPLICABLE
    is_release = base.source is Source.RELEASE
    name = with_extras(release, case.extras) if is_release else release
    environment = known.environments.get(name)
    if environment is None:  # extras are resolved only for releases that the case may run on
        pinned = [
            requirement
            for requirement in case.head.dependencies
            if canonicalize_name(requirement.name) in base.pins
        ]
        unmet = requirements.unsatisfied(pinned, base.pins, base.markers)
        return Says.NOT_APPLICABLE if unmet else Says.UNKNOWN
    cell = Cell(case.name, PLAIN, environment.name, spot.precision, device)
    match known.fails(cell):
        case True:
            return Says.HITS
        case False:
            return Says.CLEAR
        case None:
            applies = not (known.declines(cell) or obstacles(case, environment, device))
            return Says.UNKNOWN if applies else Says.NOT_APPLICABLE
