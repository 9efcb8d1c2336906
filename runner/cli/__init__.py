"""The command line: arguments to calls, errors to exit codes."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from typing import NoReturn

from runner import scratch
from runner.cli.options import app
from runner.errors import ExitCode, Interrupted, RunnerError
from runner.inside import cage
from runner.interruption import Interruption
from runner.writing import unwritable

_TWICE = 3.0
"""Seconds: Ctrl-C through a door arrives twice."""
COMMANDS = {
    "measuring": ("matrix", "shards", "environment", "bundle", "report", "results"),
    "searching": ("bisect", "blame", "trial"),
    "answering": ("diff", "audit", "advise"),
    "upkeep": ("check", "lock", "accept", "new-case", "publish", "merge"),
}
"""The modules in the order of the help; each registers its commands as it is imported."""


def register(asked: str) -> None:
    """Register a command with its neighbours, or all where there is none of that name."""
    found = [module for module, names in COMMANDS.items() if asked in names]
    for module in found or COMMANDS:
        importlib.import_module(f"runner.cli.{module}")


def main() -> None:
    """Run the program and end the process with its exit code."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, Interruption(_TWICE))
    try:
        scratch.settle()
        _end_with_door()
        register(sys.argv[1] if len(sys.argv) > 1 else "")
        app()
    except RunnerError as error:
        _end(error.code, *map(str, error.faults))
    except Interrupted:
        _end(ExitCode.INTERRUPTED, "Interrupted.")
    except Exception as error:  # noqa: BLE001 - whatever is left is our own fault, and says so
        disk = unwritable(getattr(error, "filename", None) or "the disk", error)
        if disk is None:
            _end(ExitCode.OUR_FAULT, traceback.format_exc())
        _end(disk.code, *map(str, disk.faults))


def _end(code: ExitCode, *lines: str) -> NoReturn:
    for line in map(_shown, lines):
        print(line, file=sys.stderr)  # noqa: T201 - whole lines, whatever the terminal's width
    sys.exit(int(code))


def _shown(line: str) -> str:
    """Return a line that no terminal obeys: what was found may hold anything."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "�" for sign in line)


def _end_with_door() -> None:
    """Be interrupted when the nox that started us is killed."""
    door = os.environ.pop("REPROMATRIX_DOOR", "")
    if door.isdigit():
        cage.interrupt_with_parent(int(door))
        if cage.has_ended(int(door)):  # before we could ask
            raise Interrupted
