"""The context of the page that says which known bugs somebody's versions have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from repromatrix.reports.text import visible
from repromatrix.reports.view import Survey
from repromatrix.runner.audit.swept import plain
from repromatrix.runner.model.case import Trigger
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.model.packages import MOVED, TORCH

CHECK_SCRIPTS = (
    *("data/decisions.js", "data/swept.js", "pep440.js", "pins.js"),
    *("decide.js", "swept.js", "verdict.js", "check.js"),
)
"""What the page runs, in this order: data, then what others are made of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionField:
    """A package whose version can be typed, with the versions that were measured, newest first."""

    package: str
    versions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckPage:
    """The page."""

    scripts: tuple[str, ...]
    fields: tuple[VersionField, ...]
    precisions: tuple[str, ...]
    models: tuple[str, ...]
    swept: tuple[str, ...]
    """Architectures that no case is about, and the sweep knows."""
    triggers: tuple[str, ...]


def check_page(survey: Survey, architectures: Iterable[str] = ()) -> CheckPage:
    """Return the context of the page; `architectures` are those that were swept."""
    models = {model for case in survey.cases.values() for model in case.block.answers_for}
    return CheckPage(
        scripts=CHECK_SCRIPTS,
        fields=tuple(_field(survey, name) for name in (*MOVED, TORCH)),
        precisions=tuple(map(str, Precision)),
        models=tuple(sorted(map(visible, models))),
        swept=tuple(
            name
            for name in sorted(map(visible, architectures))
            if plain(name) not in {*map(plain, models)}
        ),
        triggers=tuple(map(str, Trigger)),
    )


def _field(survey: Survey, package: str) -> VersionField:
    versions = {item.version(package): None for item in reversed(survey.environments)}
    return VersionField(package=package, versions=tuple(visible(name) for name in versions if name))
