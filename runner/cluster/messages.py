"""What a node says of a unit; read by a driver and made by a worker, so nothing else is needed."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What a node must have in common with the driver: their pins depend on it."""

    system: str
    machine: str
    python: str

    def __str__(self) -> str:
        """Return it as a reader says it: `linux x86_64, Python 3.11`."""
        return f"{self.system} {self.machine}, Python {self.python}"


def kind() -> Kind:
    """Return of what kind this machine is."""
    python = ".".join(map(str, sys.version_info[:2]))
    return Kind(system=sys.platform, machine=platform.machine(), python=python)


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
