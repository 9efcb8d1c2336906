"""Inputs that a model takes on later releases only: left out where its forward pass has no such."""

from __future__ import annotations

import inspect
import json
import os
from typing import Any

import transformers

from repromatrix.sweep.child import main

LATER = "later"
"""The part of a recipe that names them."""


def answer() -> str:
    """Do what `REPRO_SWEEP` asks for, with the inputs of its recipe that this release takes."""
    request: dict[str, Any] = json.loads(os.environ["REPRO_SWEEP"])
    os.environ["REPRO_SWEEP"] = json.dumps({**request, "recipe": as_taken(request["recipe"])})
    return main.answer()


def as_taken(recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe without the later inputs that the class of this release does not name."""
    takes = inspect.signature(getattr(transformers, recipe["class"]).forward).parameters
    refused = {*recipe.get(LATER, ())} - {*takes}
    inputs = {name: spec for name, spec in recipe["inputs"].items() if name not in refused}
    return {**recipe, "inputs": inputs}
