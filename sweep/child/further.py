"""Another class on the config and the inputs of a recipe."""

from __future__ import annotations

import contextlib
import copy
import json
import time
from functools import partial
from typing import Any

from repromatrix.sweep.child.later import LATER
from repromatrix.sweep.child.recipe import config_of, quiet
from repromatrix.sweep.child.shrink import SECONDS, Attempt, NotBuiltError, merge, varied

Tree = dict[str, Any]


def make(request: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe for a class, or why there is none: `{"recipe": …}` or `{"refused": …}`."""
    until = time.monotonic() + SECONDS
    with quiet():
        try:
            return _made(request["recipe"], request["class"], until)
        except NotBuiltError as error:
            return {"refused": error.reason, "kind": error.kind}


def _made(base: Tree, name: str, until: float) -> dict[str, Any]:
    """Return a recipe with the inputs of its base, or else with inputs of its own."""
    try:
        return FurtherClass(base, name).made(until)
    except NotBuiltError as error:
        if error.kind != "inputs":
            raise
        refused = error
    with contextlib.suppress(NotBuiltError):
        return varied(partial(FurtherClass, base, name, guessed=True), until)
    raise refused


class FurtherClass(Attempt):
    """A class on the config of a recipe: tries, reads the error, and tries again."""

    def __init__(self, base: Tree, name: str, *, guessed: bool = False) -> None:
        """Take the inputs of the base where they fit, or guess all of them."""
        self.base, self.guessed = base, guessed
        super().__init__(base["type"], name, "names", {})

    def _small(self) -> Tree:
        try:
            self.usual = json.loads(json.dumps(config_of(self.base).to_dict(), default=str))
        except Exception as error:
            raise NotBuiltError(self.phase, f"{type(error).__name__}: {error}") from error
        return copy.deepcopy(self.usual)

    def _config(self) -> Tree:
        """Return the config of the base, with what was mended."""
        self.guess.tree = self.tree
        made: Tree = copy.deepcopy(self.base["config"])
        merge(made, _changed(self.usual, self.tree))
        return made

    def _weigh(self, recipe: Tree) -> None:
        """Weigh nothing beforehand: on the config of a recipe it is about as small."""

    def _checkpoint(self, model: Any) -> Tree:  # noqa: ARG002 - no cheap probe loads one
        return {}

    def _later(self, made: Tree) -> Tree:
        """Return those of the base, where the class takes the rest of its inputs."""
        later, had = self.base.get(LATER, ()), self.base["inputs"]
        whole = {*had} - {*later} <= {*made}
        return {name: had[name] for name in later if whole and name not in made}

    def _inputs(self, model: Any) -> Tree:
        made = super()._inputs(model)
        if not self.guessed:
            asked = {*self.guess.required, *self.guess.wanted}
            given = {*self.guess.arguments} - {*self.guess.refused}
            made = {name: spec for name, spec in made.items() if name in asked}
            made |= {name: spec for name, spec in self.base["inputs"].items() if name in given}
        if self.guess.sizes.get("end"):
            made |= {name: self._ended(made[name]) for name in ("input_ids",) if name in made}
        if self.name.endswith("ForMultipleChoice"):
            made = {name: _twice(spec) for name, spec in made.items()}
        self.inputs = made
        return made

    def _ended(self, spec: Any) -> Any:
        """Let each text end with the token for that."""
        end = self.guess.number("eos_token_id", near=("text", "decoder"))
        return {"ids": [[*row[:-1], end] for row in spec["ids"]]}


def _twice(spec: Any) -> Any:
    """Return each text of an input and its reverse, as two choices."""
    rows = spec.get("ids") if isinstance(spec, dict) else None
    if not rows or not isinstance(rows[0], list) or isinstance(rows[0][0], list):
        return spec
    return {"ids": [[row, row[::-1]] for row in rows]}


def _changed(before: Tree, after: Tree) -> Tree:
    """Return the fields that were changed or added, those of nested configs in these."""
    return {
        name: _changed(before[name], value)
        if isinstance(value, dict) and isinstance(before.get(name), dict)
        else value
        for name, value in after.items()
        if name not in before or before[name] != value
    }
