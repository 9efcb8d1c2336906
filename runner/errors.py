"""What can be wrong with an input, said with its address, and the exit code that it earns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that is wrong: where it stands, what was found, what is allowed, what to do."""

    where: str
    found: str
    allowed: str
    key: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        """One line in the order in which a reader looks: file, key, found, allowed, remedy."""
        address = f"{self.where}: {self.key}" if self.key else self.where
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{address}: found {self.found}; allowed: {self.allowed}.{remedy}"


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
