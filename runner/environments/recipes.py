"""The recipe of an environment that has a lock: it, the matrix's torch and Python."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from runner.environments import torch_build
from runner.environments.building import Recipe

if TYPE_CHECKING:
    from runner.model.cell import Environment
    from runner.model.lock import Lock
    from runner.model.matrix import Matrix


def recipe(matrix: Matrix, lock: Lock, environment: Environment) -> Recipe:
    """Return what to install for an environment."""
    stack = matrix.stack(lock.name)
    overrides = tuple(map(str, stack.overrides)) if stack else ()
    chosen = torch_build.chosen()
    sdists = matrix.sdists_among(environment.pins)
    facts = (lock.digest, matrix.python, matrix.torch.version, chosen, *overrides)
    return Recipe(
        name=lock.name,
        digest=hashlib.sha256("\n".join((*facts, *environment.built)).encode()).hexdigest()[:16],
        python=matrix.python,
        lock=lock.text,
        torch=matrix.torch.version,
        overrides=overrides,
        sdists=sdists,
        versions=environment.pins,
    )
