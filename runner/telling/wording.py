"""Words that answers about versions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.answering.upgrading import Spot
    from runner.model.observation import Observation
    from runner.model.outcomes import Device


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


def by_case(spots: Iterable[Spot]) -> dict[str, str]:
    """Return the precisions of each case, in words."""
    found: dict[str, list[str]] = {}
    for spot in spots:
        found.setdefault(spot.case, []).append(spot.precision)
    return {name: " ".join(precisions) for name, precisions in found.items()}


def listed(spots: Sequence[Spot], few: int = 3) -> str:
    """Return cases with their precisions, the first few of them."""
    cases = [f"{name} ({precisions})" for name, precisions in by_case(spots).items()]
    more = len(cases) - few
    return ", ".join([*cases[:few], *([f"{more} more"] if more > 0 else [])])


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
