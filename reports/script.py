"""Values as classic scripts: what a page that opens from disk can read without a server."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass


def assignment(name: str, value: object) -> bytes:
    """Return a script that makes a value known by a name; its text can end no element.

    Raises TypeError for what is neither a dataclass nor known to JSON.
    """
    written = json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)
    # ASCII alone: neither half a character nor a separator of lines is left to disagree about.
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return f"var {name} = {written};\n".encode()


def _plain(value: object) -> dict[str, object]:
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    message = f"a {type(value).__name__} is no value of a script"
    raise TypeError(message)
