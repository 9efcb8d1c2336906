"""uv, called: the installer and resolver (chosen for hard links and `--exclude-newer`)."""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING

from runner import processes
from runner.environments.pip_settings import configured, for_uv, options_for_uv
from runner.errors import Fault, refuse
from runner.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.processes import Finished

PATIENCE = "REPROMATRIX_INSTALL_SECONDS"
_PATIENCE = 900.0
_ANSWERS = {0: True, 1: False}
"""uv ends with 1 where there is no solution, and with 2 where it could not look for one."""


class SilentError(Exception):
    """An index did not answer; the text is uv's reason, with addresses in it."""


@functools.cache
def _program() -> str:
    from uv import find_uv_bin  # noqa: PLC0415 - only those who build need it

    return str(find_uv_bin())


@functools.cache
def _told() -> tuple[dict[str, str], tuple[str, ...]]:
    settings = configured()
    return for_uv(settings, os.environ), options_for_uv(settings)


def call(
    *arguments: str | Path,
    without: frozenset[str] = frozenset(),
    told: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Finished:
    """Run uv to its end; `without` names variables of its environment to leave out.

    `told` are variables that it has on top.

    Without `seconds` it has as long as an installation may take (`patience`).
    """
    ours, options = _told()
    environ = {name: value for name, value in ours.items() if name not in without}
    environ |= told or {}
    options = options if arguments[0] == "pip" else ()
    command = [_program(), *arguments, *options]
    return processes.finish(command, environ=environ, seconds=seconds or patience())


def patience() -> float:
    """Return after how many seconds an installation is given up; raises RunnerError.

    uv's own timeouts end silence: an index that sends a byte now and then is never silent.
    """
    told = os.environ.get(PATIENCE, "")
    if not told:
        return _PATIENCE
    if not re.fullmatch(r"[0-9]{1,6}", told) or not int(told):
        raise refuse(Fault(where=PATIENCE, found=repr(told), allowed="seconds, 1 to 999999"))
    return float(told)


def resolves(requirement: str, *options: str, python: str, seconds: float | None = None) -> bool:
    """Say whether a requirement can be had here; downloads nothing but metadata.

    Raises SilentError where an index did not answer, so that nobody knows.
    """
    with scratch() as folder:
        done = call(
            *("pip", "install", "--dry-run", "--no-deps", "--quiet"),
            *("--target", str(folder), "--python-version", python, *options, requirement),
            seconds=seconds,
        )
    if done.code not in _ANSWERS:
        raise SilentError(done.err)
    return _ANSWERS[done.code]
