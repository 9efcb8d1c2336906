"""What can be wrong with an input, said with its address, and the exit code that it earns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from repromatrix.runner.text import shorten

_WIDE = 80


class ExitCode(IntEnum):
    """What the program's exit status tells a script that calls it."""

    AS_EXPECTED = 0
    UNEXPECTED = 1
    BAD_INPUT = 2
    NOTHING_SELECTED = 3
    UNBUILDABLE = 4
    NOT_REPRODUCED = 5
    FAILS_ON_BOTH_SIDES = 6
    UNDECIDED = 7
    OUR_FAULT = 70
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class InvalidValue:
    """A value that is not allowed where it stands."""

    where: str
    """An option, an argument, a file, or a file and a key: `cases/x.py: fails[0].when`."""
    value: object
    expected: str
    """The choices, or what a value looks like: `a time such as 90s, 10m or 2h`."""
    fix: str = ""

    @property
    def what(self) -> str:
        """What is wrong, as a clause."""
        return f"invalid value {shorten(repr(self.value), _WIDE)}; expected {self.expected}"

    def __str__(self) -> str:
        """Return `--budget: invalid value '10'; expected a time such as 90s, 10m or 2h.`."""
        return _sentences(f"{self.where}: {self.what}", self.fix)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two options that exclude each other."""

    where: str
    other: str
    why: str
    fix: str = ""

    @property
    def what(self) -> str:
        """What is wrong, as a clause."""
        return f"cannot be combined with {self.other}: {self.why}"

    def __str__(self) -> str:
        """Return `--shard cannot be combined with --only: shards are ….`."""
        return _sentences(f"{self.where} {self.what}", self.fix)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is missing, damaged or in the way."""

    where: str
    what: str
    """A clause without its full stop: `the file is damaged (line 2 is cut off)`."""
    fix: str = ""
    """What to do, as whole sentences."""

    def __str__(self) -> str:
        """Return `uv.lock: the file is cut off. Make it again.`."""
        return _sentences(f"{self.where}: {self.what}", self.fix)


def _sentences(clause: str, fix: str) -> str:
    return f"{clause}. {fix}" if fix else f"{clause}."


Fault = InvalidValue | Conflict | Problem
"""One thing that is wrong; each has `where`, `what` and `fix`."""


def more_to_do(fault: Fault, sentence: str) -> Fault:
    """Return a fault whose fix ends with another sentence."""
    return dataclasses.replace(fault, fix=f"{fault.fix} {sentence}".strip())


class RunnerError(Exception):
    """Something that the reader can mend; `faults` lists all of it."""

    def __init__(self, faults: Iterable[Fault], code: ExitCode = ExitCode.BAD_INPUT) -> None:
        """Keep the faults and the exit code; the text is one line per fault."""
        self.faults = tuple(faults)
        self.code = code
        super().__init__("\n".join(str(fault) for fault in self.faults))


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM; not KeyboardInterrupt, which libraries turn into codes of their own."""


def refuse(fault: Fault, code: ExitCode = ExitCode.BAD_INPUT) -> RunnerError:
    """Return the error for a single fault, ready to be raised."""
    return RunnerError([fault], code)
