"""Which build of torch is installed: as uv is told to, else a CPU build, else the index's."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

from runner.environments import uv

_SECONDS = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchBuild:
    """A requirement, and the options with which uv finds it."""

    requirement: str
    options: tuple[str, ...] = ()


@functools.cache
def choose(version: str, python: str) -> TorchBuild:
    """Choose once per process; a CPU build is told by its local version `+cpu`.

    UV_TORCH_BACKEND, where it is set, is handed through and decides alone.
    """
    plain = TorchBuild(requirement=f"torch=={version}")
    if chosen():
        return plain
    preferred = (
        TorchBuild(requirement=f"torch=={version}+cpu"),
        TorchBuild(requirement=f"torch=={version}", options=("--torch-backend", "cpu")),
    )
    for build in preferred:
        if uv.resolves(build.requirement, *build.options, python=python, seconds=_SECONDS):
            return build
    return plain


def chosen() -> str:
    """Return the backend that the user chose, part of what identifies an environment's folder."""
    return os.environ.get("UV_TORCH_BACKEND", "")
