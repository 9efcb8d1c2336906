"""Findings are measured again in one run, and an interrupted one confirms and denies nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from swept import record
from tiny_recipes import CONTENT

from repromatrix.runner.errors import Interrupted
from repromatrix.runner.evidence.swept.records import ProbeStatus
from repromatrix.sweep.confirm import confirmed, measure_again
from repromatrix.sweep.findings import changes, findings
from repromatrix.sweep.recipe_files import ModelRecipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.sweep.measure import SweepRunner

RECIPES = {"llama": ModelRecipe(content=CONTENT)}
FOUND = findings(
    changes(
        *(
            {one.key: one for one in [record("llama", "static", status)]}
            for status in (ProbeStatus.HOLDS, ProbeStatus.FAILS)
        )
    )
)


class Fake:
    """Keeps what it is asked to measure, and answers nothing."""

    def __init__(self, *, interrupted: bool = False) -> None:
        self.interrupted = interrupted
        self.asked: list[dict[str, list[str]]] = []

    def measure(self, by_release: Mapping[str, Mapping[str, object]]) -> SimpleNamespace:
        self.asked.append({name: [*cases] for name, cases in by_release.items()})
        return SimpleNamespace(interrupted=self.interrupted)


def fake(*, interrupted: bool = False) -> tuple[Fake, SweepRunner]:
    one = Fake(interrupted=interrupted)
    return one, one  # type: ignore[return-value]


def test_what_confirms_several_pairs_of_releases_is_measured_in_one_run() -> None:
    seen, runner = fake()
    asked = [(FOUND, ("5.0.0", "5.1.0")), ((), ("5.1.0", "5.2.0")), (FOUND, ("5.2.0", "5.3.0"))]
    measure_again(asked, runner, RECIPES)
    scripts = ["llama/generate#static@0", "llama/generate#static@1"]

    assert seen.asked == [dict.fromkeys(("5.0.0", "5.1.0", "5.2.0", "5.3.0"), scripts)]


def test_an_interrupted_run_confirms_and_denies_nothing() -> None:
    _, runner = fake(interrupted=True)

    with pytest.raises(Interrupted):
        measure_again([(FOUND, ("5.0.0", "5.1.0"))], runner, RECIPES)
    with pytest.raises(Interrupted):
        confirmed(FOUND, runner, RECIPES, ("5.0.0", "5.1.0"))
