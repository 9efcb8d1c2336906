"""What a node reports about a unit, and events as length-prefixed bytes.

Read by the driver and written by a worker that has none of our dependencies.
"""

from __future__ import annotations

import pickle
import platform
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a worker of the cluster has the standard library alone
    from repromatrix.runner.execution.events import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class Payload:
    """What a node must have in common with the driver: their pins depend on it."""

    system: str
    machine: str
    python: str

    def __str__(self) -> str:
        """Return it as a reader says it: `linux x86_64, Python 3.11`."""
        return f"{self.system} {self.machine}, Python {self.python}"


def kind() -> Payload:
    """Return of what kind this machine is."""
    python = ".".join(map(str, sys.version_info[:2]))
    return Payload(system=sys.platform, machine=platform.machine(), python=python)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrived:
    """A unit has begun on a node."""

    node: str
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """Some bytes of what the node's own process said."""

    chunk: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfit:
    """The node can run nothing of ours, for a reason."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Broke:
    """The node's own process ended before its work did."""

    reason: str


Message = Arrived | Heard | Unfit | Broke


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
