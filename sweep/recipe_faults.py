"""Faults of the recipes, the further classes and the hints of the sweep."""

from __future__ import annotations

from repromatrix.runner.errors import Fault
from repromatrix.runner.paths import Paths
from repromatrix.sweep.classes import read_classes
from repromatrix.sweep.making import needless_hints, read_hints
from repromatrix.sweep.recipe_files import read_recipes


def faults(paths: Paths) -> list[Fault]:
    """Return every fault; raises RunnerError where hints are no TOML."""
    recipes, damaged = read_recipes(paths.recipes)
    return [
        *damaged,
        *read_classes(paths.recipes, recipes)[1],
        *needless_hints(read_hints(paths.recipes), recipes),
    ]
