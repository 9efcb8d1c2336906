"""The forms in which an answer is printed."""

from __future__ import annotations

from runner.errors import Fault, refuse

FORMATS = ("text", "markdown", "json")


def check_format(form: str) -> None:
    """Raise RunnerError for a format that there is not."""
    if form not in FORMATS:
        raise refuse(Fault(where="--format", found=repr(form), allowed=", ".join(FORMATS)))
