"""The part of a message that tells a failure from others and does not vary with sizes or places."""

from __future__ import annotations

from runner.model.signature import NOISE

_LONGEST = 120
_JOIN = "\x00"


def fragment(message: str) -> str:
    """Return the longest piece of the first line that holds no size, address, path or number.

    It is a plain substring of the message, as `match` wants it; a message that is nothing but
    numbers is returned as it stands.
    """
    first = message.strip().splitlines()[0] if message.strip() else ""
    text = first
    for pattern, _ in NOISE:
        text = pattern.sub(_JOIN, text)
    longest = max(text.split(_JOIN), key=len).strip(" :,;([")
    return (longest or first)[:_LONGEST].rstrip()
