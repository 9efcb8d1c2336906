"""A file of evidence in which something else stands than we write, told with its address."""

from __future__ import annotations

import contextlib
import csv
import sqlite3
from typing import TYPE_CHECKING

from runner.errors import Fault, RunnerError, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    csv.Error,
    sqlite3.Error,
)
"""What comes of reading such a file."""


@contextlib.contextmanager
def addressed(where: str, allowed: str) -> Iterator[None]:
    """Make of whatever a block meets in a file an error that names it; raises RunnerError."""
    try:
        yield
    except UNREADABLE as error:
        raise damaged(where, error, allowed) from error


def damaged(where: str, error: Exception, allowed: str) -> RunnerError:
    """Return the error for a file that could not be read to its end."""
    return refuse(Fault(where=where, found=f"damaged: {said(error)}", allowed=allowed))


def said(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
