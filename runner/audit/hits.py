"""Which known bugs a set of packages has, how sure that is, and what avoids them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.audit.known import NOT_RUN, KnownEvidence
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
from repromatrix.runner.judging.features import needed, unused
from repromatrix.runner.judging.ranges import bug_of
from repromatrix.runner.judging.verdicts import expected, judge
from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import PLAIN, Case, CaseKind, Failure, Symptom
from repromatrix.runner.model.cell import Source, obstacles
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


@dataclass(frozen=True, slots=True)
class Remedy:
    """A workaround that passes at somebody's versions, in some of the failing precisions."""

    name: str
    says: str
    snippet: str
    """The code to paste; empty where there is none."""
    skips: bool
    """Whether it avoids the bug by disabling the feature."""
    stands: tuple[CellAnswer, ...]


class Concern(IntEnum):
    """Whom a hit concerns; who asks is concerned by the first."""

    ASKED = 0
    """Who uses a model, or a feature, that was named."""
    ANYONE = 1
    FAMILIES = 2
    """Who uses certain models, where none was named."""
    FEATURES = 3
    """Who uses certain features that were not named, whatever the model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A bug with which a case fails at somebody's versions."""

    case: Case
    title: str
    """That of the bug, which may be another one than that of the case."""
    at_fault: str
    """The package with the fault."""
    stands: tuple[CellAnswer, ...]
    """One for each precision in which it fails."""
    verdict: Verdict
    """Whether it fails as the case describes."""
    by_shared_code: bool
    """Whether the case ran none of the models that were asked for."""
    of_any_model: bool
    """Whether models were asked for, and the case is about any."""
    symptoms: tuple[Symptom, ...]
    features: frozenset[str]
    """What has to be used to be hit."""
    unused: tuple[str, ...]
    """Those of them that were not named."""
    concern: Concern
    differences: tuple[VersionDifference, ...]
    remedies: tuple[Remedy, ...]
    """Those that disable the feature come last."""
    idle: Sequence[str]
    """The workarounds that fail here as well."""
    newer: Mapping[str, str] | None
    """The nearest versions at which it was measured to pass: those that differ from ours."""
    fails_until: Mapping[str, str] | None
    """The last versions before `newer` at which it was measured to fail, of the same packages."""
    older: Mapping[str, str] | None
    returns: Mapping[str, str] | None
    """The first versions behind `newer` at which it fails again, if it does."""
    lasting: Mapping[str, str] | None
    """Where it returns, the nearest versions behind which it was not measured to fail."""
    broken_by: tuple[PinnedCommit, ...] = ()
    """The commit that broke it before these versions, for each precision in which it is known."""
    fixed_by: tuple[PinnedCommit, ...] = ()
    """The commit that fixed it after them, likewise."""

    @property
    def is_intended(self) -> bool:
        """Whether the case is about what was meant to change, and is no bug."""
        return self.case.block.kind is not CaseKind.BUG

    @property
    def seen(self) -> Observation:
        """The measured failure that it rests on."""
        return self.stands[0].rests_on[0]

    @property
    def is_silent(self) -> bool:
        """Whether whoever is hit sees no error."""
        return all(symptom.is_silent for symptom in self.symptoms)

    @property
    def rank(self) -> tuple[object, ...]:
        """What it is ordered by: whom it concerns, then how bad it is: wrong results first."""
        is_wrong = any(symptom.has_impact for symptom in self.symptoms)
        bad = (self.is_intended, not self.is_silent, not is_wrong)
        about_any = self.case.block.is_about_any_model
        return (self.concern, bool(self.unused), about_any, *bad, self.case.name)


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
        failing = (self.keeps, self.breaks, self.brings, self.doubts)
        return not any((*failing, self.loses, self.unknown))


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """The answer of `audit`."""

    installed: Installed
    question: AuditQuestion
    cases: tuple[Case, ...]
    """The chosen ones."""
    hits: tuple[Hit, ...]
    """Those that concern who asks come first, and of these what is silent and wrong."""
    clear: tuple[CellAnswer, ...]
    not_applicable: tuple[CellAnswer, ...]
    unknown: tuple[CellAnswer, ...]
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

    @property
    def cells(self) -> dict[Spot, CellAnswer]:
        """Every answer, by case and precision."""
        stands = (cell for hit in self.hits for cell in hit.stands)
        cells = (*stands, *self.clear, *self.not_applicable, *self.unknown)
        return {Spot(cell.case, cell.precision): cell for cell in cells}

    @property
    def by_shared_code(self) -> dict[str, tuple[str, ...]]:
        """The cases that ran none of the models asked for, and the families that they ran."""
        models = self.question.models
        cases = [case for case in self.cases if case.block.is_by_shared_code(models)]
        return {case.name: case.block.families for case in cases}

    def after(self, other: Audit, known: KnownEvidence) -> Upgrade:
        """Return what moving here from other packages fixes and breaks."""
        there = {spot: cell.says for spot, cell in self.cells.items()}
        return compared(self.installed.version(TRANSFORMERS), other.cells, there, known)


def audit(
    installed: Installed, known: KnownEvidence, question: AuditQuestion | None = None
) -> Audit:
    """Return which known bugs a set of packages has; unknown is not a pass, and kept apart."""
    question = question or AuditQuestion()
    cases = question.chosen(known.cases)
    by_case = positions(cases, installed, known)
    now = {
        Spot(name, precision): answer(position, PLAIN, precision, question.device, known)
        for name, position in by_case.items()
        for precision in question.precisions
        if Spot(name, precision) not in question.left_out
    }

    def those(says: Says) -> tuple[CellAnswer, ...]:
        return tuple(cell for cell in now.values() if cell.says is says)

    hits = (
        _hit((title, at_fault), by_case[name], cells, installed, known, question)
        for (name, title, at_fault), cells in _by_bug(those(Says.HITS), known).items()
        if not question.packages or at_fault in question.packages
    )
    nearest, fewest, newest = _upgrades(now, installed, known, question.device)
    torch, python = known.ran_on(question.device)
    return Audit(
        installed=installed,
        question=question,
        cases=cases,
        hits=tuple(sorted(hits, key=attrgetter("rank"))),
        clear=those(Says.CLEAR),
        not_applicable=those(Says.NOT_APPLICABLE),
        unknown=those(Says.UNKNOWN),
        nearest=nearest,
        fewest=fewest,
        newest=newest,
        torch=torch,
        python=python,
        snapshot=known.snapshot,
    )


def _by_bug(
    cells: Iterable[CellAnswer], known: KnownEvidence
) -> dict[tuple[str, str, str], list[CellAnswer]]:
    """Group failing cells by the bug of the measured one: its case, title and package at fault."""
    groups: dict[tuple[str, str, str], list[CellAnswer]] = {}
    for cell in cells:
        seen = cell.rests_on[0]
        bug = bug_of(known.cases[cell.case], seen, known.environments[seen.cell.environment])
        groups.setdefault((cell.case, *bug), []).append(cell)
    return groups


def _hit(  # noqa: PLR0913, PLR0917 - a bug, where it is met, and what is known of it
    bug: tuple[str, str],
    position: CasePosition,
    cells: Sequence[CellAnswer],
    installed: Installed,
    known: KnownEvidence,
    question: AuditQuestion,
) -> Hit:
    case = position.case
    last, *avoided = _avoided(position, cells, known)
    newer, older, returns, lasting = (_changes(case, name, installed, known) for name in avoided)

    def tried(name: str, cell: CellAnswer) -> CellAnswer:
        return answer(position, name, cell.precision, cell.device, known)

    verdict, entry = as_described(case, cells[0].rests_on[0], known)
    features = needed(case, entry)
    return Hit(
        case=case,
        title=bug[0],
        at_fault=bug[1],
        stands=tuple(cells),
        verdict=verdict,
        by_shared_code=case.block.is_by_shared_code(question.models),
        of_any_model=bool(question.models) and case.block.is_about_any_model,
        symptoms=(entry.symptom if entry else ()) or case.block.symptom,
        features=features,
        unused=unused(features, question.features),
        concern=_concern(case, features, question),
        differences=tuple(_differences(case, cells[0], installed, known)),
        remedies=tuple(remedies(case, cells, tried)),
        idle=[
            name
            for name in case.block.workarounds
            if all(tried(name, cell).says is Says.HITS for cell in cells)
        ],
        newer=newer,
        fails_until={name: known.environments[last].version(name) for name in newer}
        if last and newer
        else None,
        older=older,
        returns=returns,
        lasting=lasting,
        broken_by=tuple(_commits("break", cells, installed, known)),
        fixed_by=tuple(_commits("fix", cells, installed, known)),
    )


def _concern(case: Case, features: Collection[str], question: AuditQuestion) -> Concern:
    left, about_any = unused(features, question.features), case.block.is_about_any_model
    if (question.models and not about_any) or (features and not left):
        return Concern.ASKED
    if not about_any:
        return Concern.FAMILIES
    return Concern.FEATURES if left else Concern.ANYONE


def _commits(
    change: str, cells: Sequence[CellAnswer], installed: Installed, known: KnownEvidence
) -> Iterator[PinnedCommit]:
    """Yield the commits between which failing cells lie: their breaks, or their fixes.

    A change counts only where nothing passes between it and these versions: else another one,
    which nobody may have searched, lies nearer.
    """
    for cell in cells:
        for row in known.commits_of(cell.case):
            about = (row.workaround, row.precision, row.device, row.change)
            if (
                row.commit
                and about == (PLAIN, cell.precision, cell.device, change)
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
    case = known.cases[row.case]
    return low <= high and not any(
        result.fails is False
        and low <= version(name) <= high
        and known.holds(case, known.environments[name])
        for name, (result, _) in known.line(row.case, PLAIN, cell.precision, cell.device).items()
    )


def as_described(
    case: Case, seen: Observation, known: KnownEvidence
) -> tuple[Verdict, Failure | None]:
    """Return whether a case fails as it describes itself, and the entry that describes it."""
    entry = expected(case, seen.cell, known.environments[seen.cell.environment])
    verdict = judge(entry, seen)
    return verdict, entry if verdict is Verdict.AS_EXPECTED else None


def _differences(
    case: Case, cell: CellAnswer, installed: Installed, known: KnownEvidence
) -> Iterator[VersionDifference]:
    for name in sorted({*case.packages, *deciding(case, known), TORCH}):
        ours = installed.version(name) or installed.ranges.get(name, "")
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
            snippet = case.block.snippets.get(name, "")
            every.append(Remedy(name, workaround.says, snippet, workaround.skips, passing))

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


def _avoided(
    position: CasePosition, cells: Sequence[CellAnswer], known: KnownEvidence
) -> Iterator[str | None]:
    """Yield the last environment that fails before the nearest newer one that avoids a bug.

    Then that one, the nearest older one, where the bug returns behind the newer, and where not.
    """
    near, name = position.neighbours, position.case.name
    assert isinstance(near, VersionNeighbours)  # noqa: S101 - what fails has neighbours
    lines = [known.line(name, PLAIN, cell.precision, cell.device) for cell in cells]

    def passes(name: str) -> bool:
        return all(name in line and line[name].result.fails is False for line in lines)

    def fails(name: str) -> bool:
        return any(name in line and line[name].result.fails is True for line in lines)

    newer, older = avoiding(near, passes)
    before = [*near.exact, *near.above[: near.above.index(newer)]] if newer else []
    yield next(filter(fails, reversed(before)), None)
    yield from (newer, older)
    yield from _returning(near, newer, passes, fails) if newer else (None, None)


def _returning(
    near: VersionNeighbours,
    newer: str,
    passes: Callable[[str], bool],
    fails: Callable[[str], bool],
) -> tuple[str | None, str | None]:
    """Return the environment behind `newer` that fails again, and one behind which none fails."""
    above = near.vectors.above
    behind = [name for name in near.above if name in above(newer)]
    returns = next(filter(fails, behind), None)
    lasting = (name for name in behind if passes(name) and not any(map(fails, above(name))))
    return returns, next(lasting, None) if returns else None


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
    """Return the nearest newer release without hits, the one with the fewest, and the newest.

    Only cases count whose packages are all listed.
    """
    listed = {*installed.pins, *installed.loose, TORCH}
    now = {spot: cell for spot, cell in now.items() if known.cases[spot.case].packages <= listed}
    ours = installed.version(TRANSFORMERS)
    newer = [name for name in known.releases() if ours and Version(name) > Version(ours)]
    there = says_on(newer, now, known, device)
    measured = {Says.HITS, Says.CLEAR}
    names = [name for name in newer if any(says[name] in measured for says in there.values())]
    if not names:
        return None, None, None
    failures = Counter(
        known.environments[name].column
        for spot in now
        for name, cell in known.line(spot.case, PLAIN, spot.precision, device).items()
        if cell.result.fails
    )

    def to(name: str) -> Upgrade:
        return compared(name, now, {spot: says[name] for spot, says in there.items()}, known)

    candidates = (to(name) for name in names if not failures[name])
    nearest = next((upgrade for upgrade in candidates if upgrade.clean), None)
    fewest = to(min(names, key=failures.__getitem__))
    if fewest.unknown:  # few known bugs may mean that little is known
        counts = {Says.HITS, Says.UNKNOWN}
        bad = {name: sum(says[name] in counts for says in there.values()) for name in names}
        fewest = to(min(names, key=bad.__getitem__))
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


def compared(
    release: str,
    now: Mapping[Spot, CellAnswer],
    there: Mapping[Spot, Says],
    known: KnownEvidence,
) -> Upgrade:
    """Return what moving to a release, or to other versions, fixes and breaks."""
    by_move: dict[tuple[Says, Says], list[Spot]] = {}
    for spot, cell in now.items():
        by_move.setdefault((cell.says, there[spot]), []).append(spot)
    groups = {
        name: tuple(spot for move in moves for spot in by_move.get(move, ()))
        for name, moves in MOVES.items()
    }
    held = known.environments.get(release)
    pins = held.pins if held else {}
    packages = {name: pins[name] for name in COMPANIONS if name in pins}
    unknown = tuple(spot for spot in now if there[spot] is Says.UNKNOWN)
    return Upgrade(release=release, packages=packages, unknown=unknown, **groups)


def says_on(
    places: Sequence[str], spots: Iterable[Spot], known: KnownEvidence, device: Device
) -> dict[Spot, dict[str, Says]]:
    """Return what was measured of cases on releases, with the packages of their day.

    Stacks and pairs are places, too.
    """
    names: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    unmeasured: dict[object, dict[str, Says]] = {}
    found: dict[Spot, dict[str, Says]] = {}
    for spot in spots:
        case = known.cases[spot.case]
        if case.extras not in names:
            names[case.extras] = [(place, _held_at(place, case.extras, known)) for place in places]
        # Most cases demand the same.
        otherwise = unmeasured.setdefault((case.demands, case.block.needs, case.extras), {})
        line = known.line(case.name, PLAIN, spot.precision, device)
        says = found[spot] = {}
        for place, name in names[case.extras]:
            result = line[name].result if name in line else NOT_RUN
            if result.fails is not None:
                says[place] = Says.HITS if result.fails else Says.CLEAR
            elif result.declines:
                says[place] = Says.NOT_APPLICABLE
            else:
                if place not in otherwise:
                    otherwise[place] = _unmeasured(place, name, case, known, device)
                says[place] = otherwise[place]
    return found


def _held_at(place: str, extras: tuple[str, ...], known: KnownEvidence) -> str:
    """Return the environment of cases with these extras at a place; empty where there is none."""
    is_release = known.environments[place].source is Source.RELEASE
    name = with_extras(place, extras) if is_release else place
    return name if name in known.environments and not known.unusable(place) else ""


def _unmeasured(place: str, name: str, case: Case, known: KnownEvidence, device: Device) -> Says:
    """Return what is said of a cell without a result: whether its case applies there."""
    if known.unusable(place):
        return Says.NOT_APPLICABLE
    if name:
        is_kept_out = obstacles(case, known.environments[name], device)
    else:  # extras are resolved only for releases that the case may run on
        base = known.environments[place]
        pinned = [
            requirement
            for requirement in case.head.dependencies
            if canonicalize_name(requirement.name) in base.pins
        ]
        is_kept_out = requirements.unsatisfied(pinned, base.pins, base.markers)
    return Says.NOT_APPLICABLE if is_kept_out else Says.UNKNOWN
