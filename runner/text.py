"""Words that answers about versions share."""

from __future__ import annotations

from collections.abc import Sequence

from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device

_LONG = 200


def headline(seen: Observation) -> str:
    """Return the error of an observation, cut where it is long."""
    if seen.failed is None:
        return str(seen.outcome)
    text = seen.failed.headline.rstrip(".")
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def measured_on(device: Device, torch: Sequence[str], python: Sequence[str]) -> str:
    """Say on what evidence was measured, or that there is none."""
    if not (torch or python):
        return f"nothing is measured on {device.upper()}"
    facts = [device.upper(), *(f"torch {one}" for one in torch)]
    return f"measured on {', '.join([*facts, *(f'Python {one}' for one in python)])}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 cell`, `3 cells`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def cut(text: str, width: int) -> str:
    """Return a text in one line, cut where it is long, with nothing that a terminal obeys."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= width else f"{line[: width - 1]}…"


def printable_lines(text: str) -> str:
    """Return a text whose lines are kept, and in which nothing else is obeyed by a terminal."""
    return "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Return a text in which nothing ends a line and nothing is obeyed by a terminal."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)
