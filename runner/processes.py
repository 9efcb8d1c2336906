"""The one module that starts processes; everything else asks it to."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_ADDRESS = re.compile(r"\b(?:git\+)?[a-z][a-z+]*://[^\s'\"<>)\]]+")
_HOST = re.compile(r"(\bhost(?:name)?:? ['\"`]?)[\w-]+(?:\.[\w-]+)+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w<./])/(?:[\w.+@~ -]+/)*[\w.+@~-]+/?")

_running: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A process that ended by itself or at its time limit (`code` is then None)."""

    code: int | None
    out: str
    err: str


def finish(
    command: Sequence[str | Path],
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float = 900,
    given: str = "",
) -> Finished:
    """Run a command to its end with captured text; never through a shell, never with our input.

    `given` is what it reads.
    """
    try:
        process = subprocess.Popen(
            [str(part) for part in command],
            env=dict(os.environ if environ is None else environ),
            cwd=folder,
            stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            start_new_session=True,  # Ctrl-C reaches us alone; we end what we started
        )
    except FileNotFoundError as error:
        return Finished(code=127, out="", err=f"{error.filename}: no such program")
    _running.add(process)
    try:
        out, err = process.communicate(given or None, timeout=seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        process.communicate()
        return Finished(code=None, out="", err=f"no answer within {seconds:.0f} s")
    except BaseException:
        _end(process)  # interrupted: it is in a session of its own and heard nothing
        process.communicate()
        raise
    finally:
        _running.discard(process)
    return Finished(code=process.returncode, out=out, err=err)


def end_all() -> None:
    """Kill every command that is running, with its group; those who wait for one get its end."""
    for process in list(_running):
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def anonymous(text: str) -> str:
    """Take addresses, user names, tokens and paths out of a text that is stored or printed."""
    text = _HOST.sub(r"\1<host>", _ADDRESS.sub("<address>", text))
    return _PATH.sub("<path>", text)
