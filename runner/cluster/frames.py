"""Events as bytes that tell their own length, and back again."""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.engine.events import Event

_LENGTH = struct.Struct(">I")


def framed(event: Event) -> bytes:
    """Return an event as bytes that tell their own length."""
    content = pickle.dumps(event)
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Bytes put together to events again."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.rest = b""

    def add(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that are whole by now."""
        self.rest += chunk
        while len(self.rest) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self.rest)
            end = _LENGTH.size + length
            if len(self.rest) < end:
                return
            event: Event = pickle.loads(self.rest[_LENGTH.size : end])  # noqa: S301 - our own node
            self.rest = self.rest[end:]
            yield event
