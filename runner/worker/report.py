"""Read what a child reports of itself: a case may have written anything there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST = 2.0**62
"""What a database takes as a number."""
_EXERCISED = frozenset({"", "yes", "no"})


def read_report(content: bytes) -> dict[str, Any] | None:
    """Return a report as a child of ours writes it; nothing else is one."""
    try:
        report = json.loads(content)
        json.dumps(report, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    is_sound = isinstance(report, dict) and all(
        _KINDS[name](value) for name, value in report.items() if name in _KINDS
    )
    return report if is_sound else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < _LARGEST


def _each(is_sound: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(map(is_sound, value.values()))


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


_KINDS: dict[str, Callable[[object], bool]] = {
    "exit": _is(int, type(None)),
    "error_class": _is(str),
    "message": _is(str),
    "traceback": _is(str),
    "seconds": _is_number,
    "exercised": lambda value: isinstance(value, str) and value in _EXERCISED,
    "computed": _each(lambda value: isinstance(value, int) and _is_number(value)),
    "measured": _each(_is(float)),
    "compiles": _is(bool),
    "imported": _each(_is(str)),
    "claimed": _each(_is(str)),
    "sandbox": _is(str),
}
