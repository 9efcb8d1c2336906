"""Words for lists, numbers and texts of others: no module says these things in its own way."""

from __future__ import annotations

import re
from collections.abc import Sequence


def plural(number: int, noun: str, several: str = "") -> str:
    """Return a number with its noun: `1 cell`, `1,204 cells`; `several` where no `s` makes it."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


def join(names: Sequence[str], last: str = "and") -> str:
    """Return names as a list in words: `fp32, bf16 and fp16`."""
    *others, name = names or ("",)
    return f"{', '.join(others)} {last} {name}" if others else name


def first_few(names: Sequence[str], most: int, more: str = "more") -> list[str]:
    """Return the first names, and behind them how many are left: `3 more`."""
    left = len(names) - most
    return [*names[:most], *([f"{left} {more}"] if left > 0 else [])]


def first_sentence(text: str) -> tuple[str, str]:
    """Return the first sentence of a text and what follows it."""
    found = re.match(r"(.+?[.!?])(?=\s|$)", text, re.DOTALL)
    end = found.end() if found else len(text)
    return " ".join(text[:end].split()), text[end:].strip()


def shorten(text: str, width: int) -> str:
    """Return a text of others in one line of at most `width` characters, made printable."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= width else f"{line[: width - 1]}…"


def printable_lines(text: str) -> str:
    """Return a text whose lines are kept, and in which nothing else is obeyed by a terminal."""
    return "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Return a text in which nothing ends a line and nothing is obeyed by a terminal."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)
