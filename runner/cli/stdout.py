"""What programs read: text on standard output."""

from __future__ import annotations

import os
import sys


def say(text: str) -> None:
    """Print, until the reader has seen enough: typer would make a fault of that."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
