"""The part of a message that tells a failure from others and does not vary with sizes or places."""

from __future__ import annotations

from runner.model.signature import NOISE

_LONGEST = 120
_JOIN = "\x00"


def fragment(message: str) -> str:
    """Return the longest piece of a line that holds no size, address, path or number.

    It is a plain substring of the message, as `match` wants it. A line that only announces the
    next one (it ends in a colon) is passed over where there is a next one.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines[:-1] if not line.endswith(":")] + lines[-1:]
    return max(map(_longest, telling[:1] or [""]), key=len)[:_LONGEST].rstrip()


def _longest(line: str) -> str:
    text = line
    for pattern, _ in NOISE:
        text = pattern.sub(_JOIN, text)
    return max(text.split(_JOIN), key=len).strip(" :,;([") or line
