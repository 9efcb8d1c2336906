"""The forms in which an answer is printed."""

from __future__ import annotations

from collections.abc import Sequence

from repromatrix.runner.errors import OldFault, refuse

FORMATS = ("text", "markdown", "json")


def check_format(form: str, formats: Sequence[str] = FORMATS) -> None:
    """Raise RunnerError for a format that there is not."""
    if form not in formats:
        raise refuse(OldFault(where="--format", found=repr(form), allowed=", ".join(formats)))
