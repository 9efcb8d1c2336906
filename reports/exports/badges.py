"""Badges of cases and releases: as shields.io reads them, and as a picture of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from repromatrix.reports.drawing import drawn_xml
from repromatrix.reports.sections.provenance import MeasuredOn, Settings
from repromatrix.reports.sections.status import NEWEST, Standing, standings, statuses
from repromatrix.reports.text import shortened, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.counts import BugCount, BugState
from repromatrix.runner.model.cell import Source
from repromatrix.runner.text import plural

_LABEL, _PICTURE = 60, 17
"""The longest label, and the longest text of the picture, which is 200 pixels wide."""
_KEPT = 6 * 60 * 60
"""Seconds that others may keep a badge for: a publication is an event of days."""


class Colour(StrEnum):
    """The colour of the message; dark enough for white letters."""

    BAD = "#b3372c"
    GOOD = "#1b6233"
    UNKNOWN = "#5a6069"


@dataclass(frozen=True, kw_only=True, slots=True)
class Badge:
    """The texts of a badge; `path` is its file below the site, without the ending."""

    path: str
    label: str
    message: str
    left: str
    right: str
    """What the picture has room for."""
    colour: Colour
    measured: str
    """What it was measured on, in whole sentences."""

    @property
    def says(self) -> str:
        """The whole text, for the title of the picture and for screen readers."""
        return f"{self.label}: {self.message}. {self.measured}"


def badges(survey: Survey, settings: Settings) -> Iterator[Badge]:
    """Yield a badge for every case and every release, and for `main` where it was measured."""
    for name, standing in standings(survey).items():
        yield _of_case(standing, name, settings.of_cases((name,), "this case"))
    known = statuses(survey)
    for environment in survey.columns:
        name, status = environment.name, known.get(environment.name)
        is_measured = environment.source is Source.MAIN and status is not None and status.judged
        if environment.source is Source.RELEASE or is_measured:
            yield _of_release(name, status, settings.of_release(name))


_SHORT = {
    BugState.OPEN: ("fails on", Colour.BAD),
    BugState.FIXED: ("passes on", Colour.GOOD),
    BugState.PASSING: ("passes on", Colour.GOOD),
}


def _of_case(standing: Standing, name: str, setting: MeasuredOn) -> Badge:
    """Return the badge of the plain case on the newest release or its newest stack."""
    verb, colour = _SHORT.get(standing.state, ("", Colour.UNKNOWN))
    short = f"{verb} {standing.column}" if verb else standing.state.value
    earlier = ", failed earlier" if standing.state is BugState.FIXED else ""
    says = short if standing.state is BugState.PASSING else standing.says.removesuffix(NEWEST)
    return Badge(
        path=f"badge/case/{name}",
        label=shortened(name, _LABEL),
        message=f"{says}{earlier} ({setting.brief})",
        left="repromatrix",
        right=shortened(short, _PICTURE),
        colour=colour,
        measured=" ".join(setting.sentences),
    )


def _of_release(name: str, status: BugCount | None, setting: MeasuredOn) -> Badge:
    message, short, colour = "unknown", "unknown", Colour.UNKNOWN
    gap = meant = ""
    if status is not None:
        bugs, judged = len(status.open), status.judged
        unknown = len(status.of[BugState.UNKNOWN])
        if judged:
            message, short = f"{bugs} of {plural(judged, 'bug')} fail", f"{bugs} of {judged} fail"
            gap = f", {unknown} unknown" if unknown else ""
            safe = Colour.UNKNOWN if unknown else Colour.GOOD
            colour = Colour.BAD if bugs else safe
        meant = f", {len(status.intended)} more as intended" if status.intended else ""
    return Badge(
        path=f"badge/release/{name}",
        label=visible(f"transformers {name}"),
        message=f"{message}{gap}{meant} ({setting.brief})",
        left=shortened(name, _PICTURE),
        right=shortened(short, _PICTURE),
        colour=colour,
        measured=" ".join(setting.sentences),
    )


def files(badge: Badge) -> Iterator[tuple[str, bytes]]:
    """Yield both files of a badge."""
    told = {
        "schemaVersion": 1,
        "label": badge.label,
        "message": badge.message,
        "color": badge.colour.value,
        "cacheSeconds": _KEPT,
    }
    yield f"{badge.path}.json", json.dumps(told).encode()
    yield f"{badge.path}.svg", drawn_xml("badge.svg.jinja", badge=badge)
