"""What a release has that could be swept, and new recipes for it."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from repromatrix.runner.errors import Fault, Problem, refuse
from repromatrix.runner.evidence.swept.probes import ProbeName
from repromatrix.runner.evidence.swept.published import CLASSES, FOLDER, RefusedType
from repromatrix.runner.model.case import Case
from repromatrix.sweep import classes as class_file
from repromatrix.sweep import recipe_files
from repromatrix.sweep.cells import (
    cheap_probes,
    chosen_probes,
    class_case,
    recipe_case,
    types_case,
)
from repromatrix.sweep.measure import SweepRunner, payload, recipes_there
from repromatrix.sweep.recipe_files import ModelRecipe

HINTS = "hints.toml"
_KEYS = {"class", "config", "inputs", "reason", "tokens"}
Makings = Mapping[str, Case | RefusedType]
"""What a release has, by name: the script that makes a recipe, or why none can be made."""


@dataclass(frozen=True, kw_only=True)
class SweepScope:
    """What a sweep is about: the architectures, or their further classes."""

    recipes: Mapping[str, ModelRecipe]
    """By name."""
    probes: tuple[ProbeName, ...]
    """Those that are published."""
    folder: str
    """Where it lies in the published set."""
    makings: Callable[[SweepRunner, str], Makings]
    """What a release has; raises RunnerError."""
    write: Callable[[str, Mapping[str, Mapping[str, Any]]], None]
    """Keeps what a release made."""


def architectures(folder: Path, recipes: Mapping[str, ModelRecipe]) -> SweepScope:
    """Return the sweep of all architectures, each with its recipe."""

    def write(home: str, made: Mapping[str, Mapping[str, Any]]) -> None:
        for content in made.values():
            recipe_files.write(folder, {**content, "home": home})

    return SweepScope(
        recipes=recipes,
        probes=chosen_probes(fp16=True),
        folder=FOLDER,
        makings=partial(_architectures, read_hints(folder)),
        write=write,
    )


def further_classes(folder: Path, recipes: Mapping[str, ModelRecipe]) -> SweepScope:
    """Return the sweep of the further classes of architectures; raises RunnerError."""
    known = class_file.load_classes(folder, recipes)

    def write(home: str, made: Mapping[str, Mapping[str, Any]]) -> None:
        added = (
            class_file.made_class(recipes[content["type"]], home, content)
            for content in made.values()
        )
        class_file.write(folder, [*known.values(), *added], recipes)

    return SweepScope(
        recipes=known,
        probes=cheap_probes(),
        folder=CLASSES,
        makings=partial(_classes, recipes),
        write=write,
    )


@dataclass(frozen=True, kw_only=True)
class MadeRecipes:
    """What became of the architectures of a release, or of their further classes."""

    known: tuple[str, ...]
    """Those that had a recipe."""
    made: tuple[str, ...]
    refused: Mapping[str, RefusedType]
    interrupted: bool


def make_recipes(
    runner: SweepRunner, release: str, scope: SweepScope, patterns: Sequence[str] = ()
) -> MadeRecipes:
    """Make the recipes that are missing on a release, each in a process of its own.

    A recipe that is there stays as it is: it is frozen on its home. Raises RunnerError where the
    release cannot say which architectures it has.
    """
    every = scope.makings(runner, release)
    missing = {
        name: one
        for name, one in every.items()
        if name not in scope.recipes and (not patterns or is_named(name, patterns))
    }
    cases = {one.name: one for one in missing.values() if isinstance(one, Case)}
    tally = runner.measure({release: cases}) if cases else None
    refused = {name: one for name, one in missing.items() if isinstance(one, RefusedType)}
    made: dict[str, Mapping[str, Any]] = {}
    for name, said in payload(runner.rows(release, cases)):
        if "recipe" in said:
            made[name] = said["recipe"]
        else:
            refused[name] = _refused(name, release, said)
    if made:
        scope.write(release, made)
    return MadeRecipes(
        known=tuple(name for name in every if name in scope.recipes),
        made=tuple(sorted(made)),
        refused=refused,
        interrupted=tally is not None and tally.interrupted,
    )


def is_named(name: str, patterns: Sequence[str]) -> bool:
    """Say whether a pattern matches a name; that of an architecture matches all its classes."""
    parts = (name, *name.split(":"))
    return any(fnmatch.fnmatch(part, pattern) for pattern in patterns for part in parts)


def refused_types(runner: SweepRunner, release: str, scope: SweepScope) -> tuple[RefusedType, ...]:
    """Return why architectures had no recipe in earlier runs on a release."""
    lacking = [
        one for name, one in scope.makings(runner, release).items() if name not in scope.recipes
    ]
    rows = runner.rows(release, {one.name: one for one in lacking if isinstance(one, Case)})
    told = (_refused(name, release, said) for name, said in payload(rows))
    return (*told, *(one for one in lacking if isinstance(one, RefusedType)))


def _refused(name: str, release: str, said: Mapping[str, Any]) -> RefusedType:
    reason = " ".join(str(said.get("refused", "")).split())
    return RefusedType(name, release, str(said.get("kind", "other")), reason)


def _architectures(
    hints: Mapping[str, Mapping[str, Any]], runner: SweepRunner, release: str
) -> Makings:
    return {kind: recipe_case(kind, hints.get(kind, {})) for kind in classes_of(runner, release)}


def _classes(recipes: Mapping[str, ModelRecipe], runner: SweepRunner, release: str) -> Makings:
    """Return the classes of each architecture beside the one of its recipe."""
    there = {one.type: one for one in recipes_there(recipes, release, runner.project)}
    lacking = "no recipe"
    found: dict[str, Case | RefusedType] = {}
    for kind, names in classes_of(runner, release).items():
        base = there.get(kind)
        for each in names:
            name = f"{kind}:{each}"
            if base is None:
                reason = "its architecture has no recipe on this release"
                found[name] = RefusedType(name, release, lacking, reason)
            elif each != base.class_name:
                found[name] = class_case(base, each)
    return found


def classes_of(runner: SweepRunner, release: str) -> dict[str, list[str]]:
    """Return the architectures of a release with their classes, measured once.

    Raises RunnerError.
    """
    case = types_case()
    runner.measure({release: {case.name: case}})
    for _, said in payload(runner.rows(release, {case.name: case})):
        if "types" in said:
            return {kind: said["types"][kind]["every"] for kind in sorted(said["types"])}
    what = "its architectures cannot be listed"
    raise refuse(Problem(release, what, "Run the command again to see why."))


def needless_hints(
    hints: Mapping[str, Mapping[str, Any]], recipes: Collection[str]
) -> Iterator[Fault]:
    """Yield a fault for each hint with which no recipe was made, or that gives no reason."""
    for kind, hint in hints.items():
        where = f"sweep/recipes/{HINTS}: {kind}"
        if kind not in recipes:
            yield Problem(where, "there is no recipe of this name", "Take the hint out.")
        if not hint.get("reason"):
            yield Problem(where, "it gives no reason", "Say what the name of a field hides.")
        for key in sorted(hint.keys() - _KEYS):
            fix = f"Keys: {', '.join(sorted(_KEYS))}."
            yield Problem(where, f"{key!r} is no key of a hint", fix)


def read_hints(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what the shrinker cannot know, by architecture; raises RunnerError."""
    path = folder / HINTS
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise refuse(Problem(f"sweep/recipes/{HINTS}", f"invalid TOML: {error}")) from error
