"""uv, called: the installer and resolver (chosen for hard links and `--exclude-newer`)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from runner import processes
from runner.environments.pip_settings import uv_environment

if TYPE_CHECKING:
    from pathlib import Path

    from runner.processes import Finished


@functools.cache
def _program() -> str:
    from uv import find_uv_bin  # noqa: PLC0415 - only those who build need it

    return str(find_uv_bin())


@functools.cache
def _environ() -> tuple[tuple[str, str], ...]:
    return tuple(uv_environment().items())


def call(
    *arguments: str | Path, without: frozenset[str] = frozenset(), seconds: float = 900
) -> Finished:
    """Run uv to its end; `without` names variables of its environment to leave out."""
    environ = {name: value for name, value in _environ() if name not in without}
    return processes.finish([_program(), *arguments], environ=environ, seconds=seconds)
