"""Recipes: the frozen tiny model of each architecture, one JSON file each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from repromatrix.runner import files
from repromatrix.runner.errors import Fault, Problem, RunnerError, refuse

_PARTS = {"type": str, "class": str, "home": str, "strategy": str, "config": dict, "inputs": dict}
_FIX = "`nox -s sweep -- --make` makes it anew once the file is gone."


@dataclass(frozen=True, kw_only=True)
class ModelRecipe:
    """A tiny model and its inputs as data; `content` is what an environment is sent."""

    content: Mapping[str, Any]

    @property
    def type(self) -> str:
        """The architecture, as configs name it: `llama`."""
        return str(self.content["type"])

    @property
    def name(self) -> str:
        """What it is called: the architecture, of a further class `bert:BertForMaskedLM`."""
        return f"{self.type}:{self.class_name}" if self.is_further else self.type

    @property
    def is_further(self) -> bool:
        """Whether it is another class of an architecture that has a recipe, its base."""
        return "base" in self.content

    @property
    def class_name(self) -> str:
        """The class that is built: `LlamaForCausalLM`."""
        return str(self.content["class"])

    @property
    def home(self) -> str:
        """The release on which it was made; the oldest on which it is built."""
        return str(self.content["home"])

    @property
    def later(self) -> tuple[str, ...]:
        """Inputs that releases after its home take; left out where forward does not name them."""
        return tuple(self.content.get("later", ()))

    @cached_property
    def digest(self) -> str:
        """Identity of the content, 16 hexadecimal digits; the file states it, too."""
        return digest_of(self.content)


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the identity of a recipe without the digest that it states."""
    plain = {key: value for key, value in content.items() if key != "digest"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def as_text(content: Mapping[str, Any]) -> str:
    """Return the text of a recipe's file, with its digest: a line per part."""
    whole = {**content, "digest": digest_of(content)}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in whole.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the recipe of an architecture."""
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder / f"{content['type']}.json", as_text(content))


def load_recipes(folder: Path) -> dict[str, ModelRecipe]:
    """Return the recipes by type, in alphabetical order; raises RunnerError with every fault."""
    read, faults = read_recipes(folder)
    if faults:
        raise RunnerError(faults)
    return read


def read_recipes(folder: Path) -> tuple[dict[str, ModelRecipe], list[Fault]]:
    """Return the recipes that are sound, and every fault of the others."""
    read: dict[str, ModelRecipe] = {}
    faults: list[Fault] = []
    for path in sorted(folder.glob("*.json")):
        try:
            read[path.stem] = _read(path)
        except RunnerError as error:
            faults += error.faults
    return read, faults


def _read(path: Path) -> ModelRecipe:
    where = f"sweep/recipes/{path.name}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise refuse(Problem(where, f"the file is damaged ({error})", _FIX)) from error
    if not isinstance(content, dict):
        raise refuse(Problem(where, "the file holds no object", _FIX))
    for key, kind in _PARTS.items():
        if not isinstance(content.get(key), kind):
            raise refuse(Problem(where, f"{key!r} is missing or of another kind", _FIX))
    if content["type"] != path.stem:
        what, fix = f"it is of {content['type']!r}", f"Call the file {content['type']}.json."
        raise refuse(Problem(where, what, fix))
    if content.get("digest") != digest_of(content):
        what = "its digest does not fit: the file was edited"
        raise refuse(Problem(where, what, "Restore it with git; recipes are frozen."))
    return ModelRecipe(content=content)
