"""A unit made ready to be sent: the part of a campaign that its node needs."""

from __future__ import annotations

import dataclasses
import pickle
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.cluster.bundle import shipped
from runner.places import ROOT, Places

if TYPE_CHECKING:
    from runner.campaign import Campaign
    from runner.engine.events import Ready
    from runner.model.observation import Observation
    from runner.planning.plan import Unit


@dataclass(frozen=True, kw_only=True, slots=True)
class Parcel:
    """A unit, what was measured of it elsewhere and not yet doubted, and its campaign."""

    campaign: Campaign
    unit: Unit
    before: tuple[Observation, ...] = ()

    def packed(self) -> bytes:
        """Return it as bytes."""
        cut = dataclasses.replace(self, campaign=_cut(self.campaign, self.unit, self.before))
        return zlib.compress(pickle.dumps(cut), level=1)

    def prepare(self, unit: Unit) -> Ready:
        """Build the environment of the unit on this machine; raises UnbuildableError."""
        ready = self.campaign.prepare(unit)
        asked = frozenset(unit.cells)
        cells = tuple(cell for cell in ready.cells if cell in asked)
        return dataclasses.replace(ready, cells=cells, before=self.before)


def unpacked(content: bytes) -> Parcel:
    """Return what was packed, with the cases and places of the checkout that this code is in."""
    parcel: Parcel = pickle.loads(zlib.decompress(content))  # noqa: S301 - our own driver sent it
    project = parcel.campaign.project
    cases = {
        name: dataclasses.replace(case, path=str(ROOT / case.path))
        for name, case in project.cases.items()
    }
    # Ray counts what it gives out by the core.
    terms = dataclasses.replace(parcel.campaign.terms, jobs=1)
    project = dataclasses.replace(project, cases=cases, places=Places())
    campaign = dataclasses.replace(parcel.campaign, project=project, terms=terms)
    return dataclasses.replace(parcel, campaign=campaign)


def _cut(campaign: Campaign, unit: Unit, before: tuple[Observation, ...]) -> Campaign:
    project, name = campaign.project, unit.environment
    cells = frozenset([*unit.cells, *(row.cell for row in before)])
    wanted = {cell.case for cell in cells}
    cases = {
        name: dataclasses.replace(case, path=shipped(case, project.places))
        for name, case in project.cases.items()
        if name in wanted
    }
    cut = dataclasses.replace(
        project,
        cases=cases,
        environments={name: project.environments[name]},
        locks={name: project.locks[name]} if name in project.locks else {},
    )
    selection = dataclasses.replace(campaign.selection, only=cells)
    known = {cell: campaign.known[cell] for cell in cells if cell in campaign.known}
    return dataclasses.replace(campaign, project=cut, selection=selection, known=known)
