"""Which build of torch is installed: as uv is told to, else a CPU build, else the index's."""

from __future__ import annotations

import contextlib
import functools
import os
from dataclasses import dataclass

from repromatrix.runner.environments import uv
from repromatrix.runner.environments.uv import SilentError

_SECONDS = 30
_CHOSEN = "UV_TORCH_BACKEND"


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchBuild:
    """A requirement, and the options with which uv finds it."""

    requirement: str
    options: tuple[str, ...] = ()


@functools.cache
def choose(version: str, python: str) -> TorchBuild:
    """Choose once per process; a CPU build is told by its local version `+cpu`.

    UV_TORCH_BACKEND, where it is set, is handed through and decides alone. Raises SilentError
    where the user's own index fails: what it has then is not known, and not chosen either.
    """
    plain = TorchBuild(requirement=f"torch=={version}")
    if chosen():
        return plain
    local = TorchBuild(requirement=f"torch=={version}+cpu")
    if uv.resolves(local.requirement, python=python):
        return local
    # This asks PyTorch's own index, which many a network does not let through.
    theirs = TorchBuild(requirement=f"torch=={version}", options=("--torch-backend", "cpu"))
    with contextlib.suppress(SilentError):
        if uv.resolves(theirs.requirement, *theirs.options, python=python, seconds=_SECONDS):
            return theirs
    return plain


def serve_gpu() -> None:
    """Let torch be installed for this machine's GPU driver, unless the user chose a build."""
    os.environ.setdefault(_CHOSEN, "auto")


def chosen() -> str:
    """Return the backend that the user chose, part of what identifies an environment's folder."""
    return os.environ.get(_CHOSEN, "")
