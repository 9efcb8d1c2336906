"""Further classes of architectures: a file with a line each of what differs from the recipe.

A class uses the config and the inputs of the recipe of its architecture, as far as it takes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from repromatrix.runner import files
from repromatrix.runner.errors import Fault, Problem, RunnerError, refuse
from repromatrix.sweep.recipe_files import ModelRecipe, digest_of

NAME = "classes.jsonl"
_FIX = "`nox -s sweep -- --classes --make` makes it anew once the line is gone."
_PARTS = ("type", "class", "home", "base", "digest")


def load_classes(folder: Path, recipes: Mapping[str, ModelRecipe]) -> dict[str, ModelRecipe]:
    """Return the recipes of further classes by name; raises RunnerError with every fault."""
    read, faults = read_classes(folder, recipes)
    if faults:
        raise RunnerError(faults)
    return read


def read_classes(
    folder: Path, recipes: Mapping[str, ModelRecipe]
) -> tuple[dict[str, ModelRecipe], list[Fault]]:
    """Return the recipes of further classes that are sound, and every fault of the others."""
    read: dict[str, ModelRecipe] = {}
    faults: list[Fault] = []
    path = folder / NAME
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            recipe = _read(f"sweep/recipes/{NAME}, line {number}", line, recipes)
            read[recipe.name] = recipe
        except RunnerError as error:
            faults += error.faults
    return read, faults


def _read(where: str, line: str, recipes: Mapping[str, ModelRecipe]) -> ModelRecipe:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise refuse(Problem(where, f"the line is damaged ({error})", _FIX)) from error
    if not isinstance(entry, dict):
        raise refuse(Problem(where, "the line holds no object", _FIX))
    for key in _PARTS:
        if not isinstance(entry.get(key), str):
            raise refuse(Problem(where, f"{key!r} is missing or no text", _FIX))
    if entry["digest"] != digest_of(entry):
        what = "its digest does not fit: the line was edited"
        raise refuse(Problem(where, what, "Restore it with git; recipes are frozen."))
    base = recipes.get(entry["type"])
    if base is None or base.digest != entry["base"]:
        raise refuse(Problem(where, f"it was made with another recipe of {entry['type']!r}", _FIX))
    return further(base, entry)


def further(base: ModelRecipe, entry: Mapping[str, Any]) -> ModelRecipe:
    """Return the recipe of a class: its base with what a line says."""
    without = {*entry.get("without", ())}
    kept = {name: spec for name, spec in base.content["inputs"].items() if name not in without}
    later = [name for name in base.later if name in kept]
    return ModelRecipe(
        content={
            **{key: entry[key] for key in _PARTS[:-1]},
            "config": _laid_over(base.content["config"], entry.get("config", {})),
            "inputs": {**kept, **entry.get("inputs", {})},
            "targets": entry.get("targets", {}),
            **({"later": later} if later else {}),
        }
    )


def made_class(base: ModelRecipe, home: str, content: Mapping[str, Any]) -> ModelRecipe:
    """Return the recipe of a class as a release made it from its base."""
    made = {key: content[key] for key in ("type", "class", "config", "inputs", "targets")}
    return further(base, entry_of(base, {**made, "home": home, "base": base.digest}))


def entry_of(base: ModelRecipe, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the recipe of a class says beside its base, with its digest."""
    had, has = base.content["inputs"], content["inputs"]
    differs = {
        "config": _differences(base.content["config"], content["config"]),
        "without": [name for name in had if name not in has],
        "inputs": {name: spec for name, spec in has.items() if had.get(name, had) != spec},
        "targets": content["targets"],
    }
    entry = {key: content[key] for key in _PARTS[:-1]}
    entry |= {key: value for key, value in differs.items() if value}
    return {**entry, "digest": digest_of(entry)}


def write(folder: Path, classes: Iterable[ModelRecipe], recipes: Mapping[str, ModelRecipe]) -> None:
    """Write the file anew, in alphabetical order."""
    lines = (
        json.dumps(entry_of(recipes[one.type], one.content)) + "\n"
        for one in sorted(classes, key=lambda one: (one.type, one.class_name))
    )
    files.write(folder / NAME, "".join(lines))


def _laid_over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for name, value in more.items():
        before = base.get(name)
        nested = isinstance(before, dict) and isinstance(value, dict)
        found[name] = _laid_over(dict(before or {}), value) if nested else value
    return found


def _differences(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the other has that the base has not, or has otherwise."""
    found = {}
    for name, value in other.items():
        before = base.get(name)
        if name in base and before == value:
            continue
        nested = isinstance(before, dict) and isinstance(value, dict)
        found[name] = _differences(dict(before or {}), value) if nested else value
    return found
