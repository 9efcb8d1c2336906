"""What a child said of itself, read by its zygote: a case may have written anything there."""

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
        found = json.loads(content)
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    sound = isinstance(found, dict) and all(
        _KINDS.get(name, _is_anything)(value) for name, value in found.items()
    )
    return found if sound else None


def _is_anything(_: object) -> bool:
    return True


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_exercised(value: object) -> bool:
    return isinstance(value, str) and value in _EXERCISED


def _is_code(value: object) -> bool:
    return value is None or isinstance(value, int)


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < _LARGEST


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _are_counts(value: object) -> bool:
    found = value.values() if isinstance(value, dict) else [None]
    return all(isinstance(one, int) and 0 <= one < _LARGEST for one in found)


def _are_numbers(value: object) -> bool:
    found = value.values() if isinstance(value, dict) else [None]
    return all(isinstance(one, float) for one in found)


def _are_texts(value: object) -> bool:
    found = value.values() if isinstance(value, dict) else [None]
    return all(isinstance(one, str) for one in found)


_KINDS: dict[str, Callable[[object], bool]] = {
    "exit": _is_code,
    "error_class": _is_text,
    "message": _is_text,
    "traceback": _is_text,
    "seconds": _is_seconds,
    "cpu": _is_seconds,
    "exercised": _is_exercised,
    "computed": _are_counts,
    "measured": _are_numbers,
    "compiles": _is_flag,
    "imported": _are_texts,
    "claimed": _are_texts,
    "walls": _is_text,
}
