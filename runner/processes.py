"""The one module that starts processes; everything else asks it to."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_ADDRESS = re.compile(r"\b(?:git\+)?[a-z][a-z+]*://[^\s'\"<>)\]]+")
_PATH = re.compile(r"(?<![\w<./])/(?:[\w.+@~ -]+/)+[\w.+@~-]*")


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
) -> Finished:
    """Run a command to its end with captured text; never through a shell, never with our input."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            env=dict(os.environ if environ is None else environ),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=seconds,
            check=False,
            start_new_session=True,  # Ctrl-C reaches us alone; we end what we started
        )
    except subprocess.TimeoutExpired:
        return Finished(code=None, out="", err=f"no answer within {seconds:.0f} s")
    except FileNotFoundError as error:
        return Finished(code=127, out="", err=f"{error.filename}: no such program")
    return Finished(code=done.returncode, out=done.stdout, err=done.stderr)


def anonymous(text: str) -> str:
    """Take addresses, user names, tokens and paths out of a text that is stored or printed."""
    return _PATH.sub("<path>", _ADDRESS.sub("<address>", text))
