"""What moving to another release heals, and what it breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.audit.levels import Says, Stand
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import KnownEvidence
from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import PLAIN
from repromatrix.runner.model.cell import Cell, Source, obstacles
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import COMPANIONS, TRANSFORMERS

_SAID = frozenset({Says.HITS, Says.CLEAR})


class Spot(NamedTuple):
    """A case in a precision, whatever it stands on."""

    case: str
    precision: Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class Upgrade:
    """A release with the packages of its day, held against what somebody has."""

    release: str
    packages: Mapping[str, str]
    """What else it was measured with."""
    heals: tuple[Spot, ...]
    """Fails now, passes there."""
    keeps: tuple[Spot, ...]
    """Fails now and there."""
    loses: tuple[Spot, ...]
    """Fails now; there it is unknown, or does not apply."""
    breaks: tuple[Spot, ...]
    """Passes now, fails there."""
    brings: tuple[Spot, ...]
    """Does not apply now, fails there: what only the newer release has."""
    doubts: tuple[Spot, ...]
    """Unknown now, fails there."""
    unknown: tuple[Spot, ...]
    """Unknown there."""

    @property
    def clean(self) -> bool:
        """Whether everything that applies there was measured to pass."""
        bad = self.keeps or self.loses or self.breaks or self.brings or self.doubts
        return not (bad or self.unknown)

    @property
    def bad(self) -> int:
        """How many cells fail or are unknown there."""
        fails = (self.keeps, self.breaks, self.brings, self.doubts)
        return sum(map(len, (*fails, self.unknown)))


def upgrade(
    release: str, now: Mapping[Spot, Stand], known: KnownEvidence, device: Device
) -> Upgrade:
    """Hold a release against what is known of somebody's versions, cell by cell."""
    there = {spot: says_at(release, spot, known, device) for spot in now}

    def those(before: Says, behind: Says) -> tuple[Spot, ...]:
        return tuple(spot for spot in now if now[spot].says is before and there[spot] is behind)

    held = known.environments[release].pins
    return Upgrade(
        release=release,
        packages={name: held[name] for name in COMPANIONS if name in held},
        heals=those(Says.HITS, Says.CLEAR),
        keeps=those(Says.HITS, Says.HITS),
        loses=(*those(Says.HITS, Says.UNKNOWN), *those(Says.HITS, Says.NOT_APPLICABLE)),
        breaks=those(Says.CLEAR, Says.HITS),
        brings=those(Says.NOT_APPLICABLE, Says.HITS),
        doubts=those(Says.UNKNOWN, Says.HITS),
        unknown=tuple(spot for spot in now if there[spot] is Says.UNKNOWN),
    )


def says_at(release: str, spot: Spot, known: KnownEvidence, device: Device) -> Says:
    """Return what was measured of a case on a release, with the packages of its day."""
    case = known.cases[spot.case]
    held = known.environments[release]
    dated = held.source is Source.RELEASE
    name = with_extras(release, case.extras) if dated else release
    environment = known.environments.get(name)
    if environment is None:  # extras are resolved only for releases that the case may run on
        asked = [one for one in case.head.dependencies if canonicalize_name(one.name) in held.pins]
        wrong = requirements.unsatisfied(asked, held.pins, held.markers)
        return Says.NOT_APPLICABLE if wrong else Says.UNKNOWN
    cell = Cell(case.name, PLAIN, environment.name, spot.precision, device)
    match known.fails(cell):
        case True:
            return Says.HITS
        case False:
            return Says.CLEAR
        case None:
            applies = not (known.declines(cell) or obstacles(case, environment, device))
            return Says.UNKNOWN if applies else Says.NOT_APPLICABLE


def newer(
    installed: Installed, known: KnownEvidence, spots: Collection[Spot], device: Device
) -> tuple[str, ...]:
    """Return the releases, oldest first, that are newer and on which anything is known."""
    if not installed.version(TRANSFORMERS):
        return ()
    ours = Version(installed.version(TRANSFORMERS))
    return tuple(
        name
        for name in known.releases()
        if Version(name) > ours
        and any(says_at(name, spot, known, device) in _SAID for spot in spots)
    )


def failing(spots: Collection[Spot], known: KnownEvidence, device: Device) -> Counter[str]:
    """Return how many of some cells are known to fail, by environment without its extras."""
    return Counter(
        known.environments[cell.environment].column
        for cell in known.seen.failing()
        if cell.workaround == PLAIN
        and cell.device is device
        and (cell.case, cell.precision) in spots
    )
