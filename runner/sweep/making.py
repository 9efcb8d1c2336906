"""Recipes for the architectures of a release that have none yet."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repromatrix.runner.errors import Fault, Problem, refuse
from repromatrix.runner.sweep import recipes as recipe_files
from repromatrix.runner.sweep.cells import recipe_case, types_case
from repromatrix.runner.sweep.measure import SweepRunner, payload
from repromatrix.runner.sweep.published import RefusedType
from repromatrix.runner.sweep.recipes import ModelRecipe

HINTS = "hints.toml"
_KEYS = {"class", "config", "inputs", "reason", "tokens"}


@dataclass(frozen=True, kw_only=True)
class MadeRecipes:
    """What became of the architectures of a release."""

    known: tuple[str, ...]
    """Those that had a recipe."""
    made: tuple[str, ...]
    refused: Mapping[str, RefusedType]
    interrupted: bool


def make_recipes(
    runner: SweepRunner,
    release: str,
    known: Mapping[str, ModelRecipe],
    patterns: Sequence[str] = (),
) -> MadeRecipes:
    """Make the recipes that are missing on a release, each in a process of its own.

    A recipe that is there stays as it is: it is frozen on its home. Raises RunnerError where the
    release cannot say which architectures it has.
    """
    folder = runner.project.paths.recipes
    every = types_of(runner, release)
    had = tuple(kind for kind in every if kind in known)
    missing = [
        kind
        for kind in every
        if kind not in known
        and (not patterns or any(fnmatch.fnmatch(kind, pattern) for pattern in patterns))
    ]
    hints = read_hints(folder)
    cases = {
        case.name: case for case in (recipe_case(kind, hints.get(kind, {})) for kind in missing)
    }
    tally = runner.measure({release: cases}) if cases else None
    made: list[str] = []
    refused: dict[str, RefusedType] = {}
    for kind, said in payload(runner.rows(release, cases)):
        if "recipe" in said:
            recipe_files.write(folder, {**said["recipe"], "home": release})
            made.append(kind)
        else:
            refused[kind] = _refused(kind, release, said)
    return MadeRecipes(
        known=had,
        made=tuple(sorted(made)),
        refused=refused,
        interrupted=tally is not None and tally.interrupted,
    )


def refused_types(
    runner: SweepRunner, release: str, known: Mapping[str, ModelRecipe]
) -> tuple[RefusedType, ...]:
    """Return what earlier runs on a release were told about architectures without a recipe."""
    hints = read_hints(runner.project.paths.recipes)
    lacking = [kind for kind in types_of(runner, release) if kind not in known]
    cases = [recipe_case(kind, hints.get(kind, {})) for kind in lacking]
    rows = runner.rows(release, {case.name: case for case in cases})
    return tuple(_refused(kind, release, said) for kind, said in payload(rows))


def _refused(kind: str, release: str, said: Mapping[str, Any]) -> RefusedType:
    reason = " ".join(str(said.get("refused", "")).split())
    return RefusedType(kind, release, str(said.get("kind", "other")), reason)


def types_of(runner: SweepRunner, release: str) -> list[str]:
    """Return the architectures of a release, measured once; raises RunnerError."""
    case = types_case()
    runner.measure({release: {case.name: case}})
    for _, said in payload(runner.rows(release, {case.name: case})):
        if "types" in said:
            return sorted(said["types"])
    what = "its architectures cannot be listed"
    raise refuse(Problem(release, what, "Run the command again to see why."))


def needless_hints(
    hints: Mapping[str, Mapping[str, Any]], recipes: Collection[str]
) -> Iterator[Fault]:
    """Yield a fault for each hint with which no recipe was made, or that gives no reason."""
    for kind, hint in hints.items():
        where = f"recipes/{HINTS}: {kind}"
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
        raise refuse(Problem(f"recipes/{HINTS}", f"invalid TOML: {error}")) from error
