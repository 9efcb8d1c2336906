"""The context of the page that says which known bugs somebody's versions have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repromatrix.reports.text import visible
from repromatrix.reports.view import Survey
from repromatrix.runner.model.case import Trigger
from repromatrix.runner.model.families import squashed
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.model.packages import MOVED, TORCH

CHECK_SCRIPTS = (
    *("data/decisions.js", "data/pasted.js", "pep440.js", "pins.js"),
    *("decide.js", "verdict.js", "check.js"),
)
"""What the page runs, in this order: data, then what others are made of."""


def check_page(survey: Survey, pages: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of the page; `pages` are addresses of the architectures that were swept.

    Of each package whose version can be typed it has the measured versions, newest first. `swept`
    are architectures that no case is about.
    """
    names = sorted({model for case in survey.cases.values() for model in case.block.answers_for})
    models = {squashed(name): name for name in reversed(names)}  # of two spellings the first
    swept = {squashed(name): (visible(name), page) for name, page in pages.items()}
    fields = {
        name: dict.fromkeys(item.version(name) for item in reversed(survey.environments))
        for name in (*MOVED, TORCH)
    }
    return {
        "scripts": CHECK_SCRIPTS,
        "fields": [
            {"package": name, "versions": [visible(version) for version in versions if version]}
            for name, versions in fields.items()
        ],
        "precisions": [*Precision],
        "models": sorted(
            (visible(model), swept.get(name, ("", ""))[1]) for name, model in models.items()
        ),
        "swept": sorted(swept[name] for name in swept.keys() - models.keys()),
        "triggers": [*Trigger],
    }
