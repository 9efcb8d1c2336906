"""What was measured stays measured, wherever the code of the probes lies and however it is written.

The digests were taken before the sweep was moved out of `runner/`. One that differs here makes
every machine measure again what it has, or every release that is published.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner import project
from repromatrix.runner.evidence.swept.probes import PROBES
from repromatrix.runner.evidence.swept.published import CLASSES, FOLDER, read_history
from repromatrix.runner.paths import Paths
from repromatrix.sweep.baseline import published_baseline, to_measure
from repromatrix.sweep.cells import (
    cheap_probes,
    class_case,
    probe_case,
    probe_cases,
    recipe_case,
    types_case,
)
from repromatrix.sweep.classes import load_classes
from repromatrix.sweep.measure import recipes_there
from repromatrix.sweep.recipe_files import load_recipes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from repromatrix.runner.model.case import Case
    from repromatrix.runner.project import Project
    from repromatrix.sweep.recipe_files import ModelRecipe

RELEASES = [(name, folder) for folder in (FOLDER, CLASSES) for name in ("5.22.2", "5.23.0")]
SWEPT, ALONE, MAKING = "e465b8b2f8fe8601", "1b0bfd4d3504c4ad", "f4cc136025cca1de"
"""Of the cells of three architectures and a class, of those that confirm a finding, and of those
that make recipes."""


@cache
def _project() -> Project:
    return project.load(Paths(), [])


@cache
def _recipes(folder: str) -> dict[str, ModelRecipe]:
    recipes = load_recipes(Paths().recipes)
    return recipes if folder == FOLDER else load_classes(Paths().recipes, recipes)


def _digest(cases: Iterable[Case]) -> str:
    lines = sorted(f"{case.name} {case.digest}" for case in cases)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def test_the_cells_of_a_sweep_are_those_that_were_measured() -> None:
    some = [_recipes(FOLDER)[name] for name in ("bert", "llama", "qwen2_vl")]
    further = [_recipes(CLASSES)[name] for name in ("bert:BertModel", "qwen2_vl:Qwen2VLModel")]

    assert _digest(probe_cases([*some, *further], PROBES).values()) == SWEPT


def test_what_confirms_a_finding_and_what_makes_a_recipe_is_what_was_measured() -> None:
    some = [_recipes(FOLDER)[name] for name in ("llama", "qwen2_vl")]
    alone = (probe_case(one, each.family, [each], 1, alone=True) for one in some for each in PROBES)
    making = [types_case(), recipe_case("llama", {}), class_case(some[0], "LlamaModel")]

    assert _digest(alone) == ALONE
    assert _digest(making) == MAKING


@pytest.mark.parametrize(("release", "folder"), RELEASES)
def test_what_is_published_of_a_release_stands(release: str, folder: str) -> None:
    line = read_history(Paths().published, folder)
    there = recipes_there(_recipes(folder), release, _project())
    found = published_baseline(line, _project().environments[release], there)
    probes = PROBES if folder == FOLDER else cheap_probes()
    cells = probe_cases([one for one in there if line.releases[release].ran(one.name)], probes)

    assert found
    assert to_measure(cells, found, found) == {}
