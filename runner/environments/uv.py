"""uv, called: the installer and resolver (chosen for hard links and `--exclude-newer`)."""

from __future__ import annotations

import functools
import os
import tempfile
from typing import TYPE_CHECKING

from runner import processes
from runner.environments.pip_settings import configured, for_uv, options_for_uv

if TYPE_CHECKING:
    from pathlib import Path

    from runner.processes import Finished


@functools.cache
def _program() -> str:
    from uv import find_uv_bin  # noqa: PLC0415 - only those who build need it

    return str(find_uv_bin())


@functools.cache
def _told() -> tuple[dict[str, str], tuple[str, ...]]:
    settings = configured()
    return for_uv(settings, os.environ), options_for_uv(settings)


def call(
    *arguments: str | Path, without: frozenset[str] = frozenset(), seconds: float = 900
) -> Finished:
    """Run uv to its end; `without` names variables of its environment to leave out."""
    told, options = _told()
    environ = {name: value for name, value in told.items() if name not in without}
    options = options if arguments[0] == "pip" else ()
    return processes.finish([_program(), *arguments, *options], environ=environ, seconds=seconds)


def resolves(requirement: str, *options: str, python: str, seconds: float = 60) -> bool:
    """Say whether a requirement can be had here; downloads nothing but metadata."""
    with tempfile.TemporaryDirectory() as folder:
        done = call(
            *("pip", "install", "--dry-run", "--no-deps", "--quiet"),
            *("--target", folder, "--python-version", python, *options, requirement),
            seconds=seconds,
        )
    return done.code == 0
