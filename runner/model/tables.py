"""TOML to a table; whatever is wrong with the text is told with its address."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from runner.errors import Fault, refuse

if TYPE_CHECKING:
    from runner.errors import RunnerError

_LONG = 10_000
_DEEP = re.compile(r"(?<![\w-])(?:[\w-]++\.){200}")
"""A key of so many parts, for which `tomllib` takes time by the square of their number."""

NO_TABLE = (ValueError, RecursionError)
"""What `tomllib` raises: also for a number of 5,000 digits, and for too deep a nesting."""


def read_table(text: str, where: str, key: str = "", remedy: str = "") -> dict[str, Any]:
    """Return the table that a text says; raises RunnerError."""
    if is_too_deep(text):
        found = "a line with a key of more than 200 parts"
        raise _refused(where, key, found, remedy)
    try:
        return tomllib.loads(text)
    except NO_TABLE as error:
        raise _refused(where, key, str(error), remedy) from error


def is_too_deep(text: str) -> bool:
    """Say whether to read a text would take too long."""
    return any(len(line) > _LONG and _DEEP.search(line) for line in text.split("\n"))


def _refused(where: str, key: str, found: str, remedy: str) -> RunnerError:
    return refuse(Fault(where=where, key=key, found=found, allowed="TOML 1.0", remedy=remedy))
