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
    facts = (lock.digest, matrix.python, matrix.torch.version, torch_build.chosen())
    return Recipe(
        name=lock.name,
        digest=hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16],
        python=matrix.python,
        lock=lock.text,
        torch=matrix.torch.version,
        versions=environment.pins,
    )
