"""Text in Markdown that stays text: whatever a message, a subject or a title holds."""

from __future__ import annotations

import re

_SIGNS = re.compile(r"([\\`*_\[\]|~$])")
_BEGINNING = re.compile(r"^(?:(?=[#+=>-])|(\d{1,9})(?=[.)](?: |$)))")
"""What makes a heading, a list, a quotation or a rule of a line that begins with it."""
_COMMAND = re.compile(r"`?(nox -s [^`]*[^`\s])`?")


def plain(text: str) -> str:
    """Return a text as one line that Markdown shows as it is, and that calls nobody by `@`."""
    line = _SIGNS.sub(r"\\\1", " ".join(text.split()))
    line = _BEGINNING.sub(r"\1\\", line)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace("@", "@\u200b")


def sentence(text: str) -> str:
    """Return a sentence as it is, with the commands that it names as code spans."""
    parts = _COMMAND.split(text)
    # Every second part is a command; `plain` takes the room beside it away.
    shown = (span(one) if number % 2 else _kept(one) for number, one in enumerate(parts))
    return "".join(shown)


def _kept(text: str) -> str:
    """Return a part of a sentence with the room at its ends."""
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() and text.strip() else ""
    return f"{before}{plain(text)}{after}"


def span(text: str) -> str:
    """Return a text as a code span of one line."""
    line = " ".join(text.split())
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    room = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{room}{line}{room}{fence}"


def fenced(text: str, language: str = "") -> str:
    """Return lines as a block of code, whatever stands in them."""
    fence = "`" * max(3, max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
