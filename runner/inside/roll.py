"""Who is there: every process below a zygote, in one look where the system can be asked so."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, TypedDict

from runner.inside import cage

if TYPE_CHECKING:
    from collections.abc import Iterator


class Group(TypedDict):
    """The group of the system that counts us and all below us; its descriptors are -1 for none."""

    entrance: int
    bound: int
    listing: str
    tasks: int
    """How many it may have."""


class Roll:
    """Lists all processes below this one, and holds them still."""

    def __init__(self, group: Group, *, walled: bool) -> None:
        """Enter the group; within walls /proc is ours alone, and the group is not seen."""
        self.listing = "" if walled else group["listing"]
        self.bound = group["bound"]
        self.tasks = group["tasks"]
        self.walled = walled
        if self.bound >= 0:
            os.set_inheritable(self.bound, False)  # noqa: FBT003
            with contextlib.suppress(OSError):
                os.write(group["entrance"], b"0")
            os.close(group["entrance"])

    def call(self) -> set[int]:
        """Return their numbers."""
        own = os.getpid()
        if self.walled:
            return {int(name) for name in os.listdir("/proc") if name.isdigit()} - {own}  # noqa: PTH208
        if self.listing:
            with contextlib.suppress(OSError), open(self.listing) as file:  # noqa: PTH123
                return {int(line) for line in file.read().split()} - {own, 0}
        return set(cage.descendants(own))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let nobody fork for a while: what is killed then is not replaced."""
        self._allow(0)
        try:
            yield
        finally:
            self._allow(self.tasks)

    def _allow(self, tasks: int) -> None:
        if self.bound >= 0:
            with contextlib.suppress(OSError):
                os.write(self.bound, str(tasks).encode())
