"""What a cell of the sweep is asked, and its answer: one JSON text each way."""

from __future__ import annotations

import json
import os
from typing import Any


def answer() -> str:
    """Do what `REPRO_SWEEP` asks for and return the answer as JSON.

    `{"task": "probes", "recipe": …, "probes": […], "seed": 0}` runs probes on a recipe,
    `{"task": "recipe", "type": …, "hints": …}` makes one, `{"task": "types"}` lists the types.
    """
    request: dict[str, Any] = json.loads(os.environ["REPRO_SWEEP"])
    return json.dumps(_TASKS[request["task"]](request))


def _probes(request: dict[str, Any]) -> object:
    from repromatrix.sweep.child.probes.run import run

    return run(request)


def _recipe(request: dict[str, Any]) -> object:
    from repromatrix.sweep.child.shrink import make

    return make(request)


def _types(_request: dict[str, Any]) -> object:
    from repromatrix.sweep.child.universe import types

    return types()


_TASKS = {"probes": _probes, "recipe": _recipe, "types": _types}
