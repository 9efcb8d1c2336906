"""The parts of a site: which of them must be drawn again, and two at a time where that is safe."""

from __future__ import annotations

import hashlib
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Files = Iterator[tuple[str, bytes]]
"""The path of each file below the site, and its content."""

IDENTITY = ".identity"
"""The file of a site that says what it shows: empty until all of it is drawn."""

FileState = tuple[int, int, int]
"""Size, time and number of a file: they differ once somebody has written it."""


class SitePart(NamedTuple):
    """Some files of the site; `key` covers all that they show, and is empty where nobody knows."""

    name: str
    key: str
    files: Callable[[], Files]
    noted: Callable[[], Noted] = dict
    """What is kept of it for the next drawing."""


class Drawn(NamedTuple):
    """A part as it lies on the disk."""

    key: str
    files: dict[str, FileState]
    noted: Noted = {}  # noqa: RUF012 - never changed


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """Digests of all that a site is drawn from: of what each page may show, and of each case."""

    common: str
    cases: Mapping[str, str]
    """All that is known of a case; its page shows it."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """The same without what this machine measured as it is published; empty: there is no such."""

    @property
    def identity(self) -> str:
        """The digest of all of it."""
        return digest_of(self.common, *sorted(self.cases.items()))

    @property
    def of_shared(self) -> str:
        """The digest of all that pages show which are about several cases."""
        return digest_of(self.common, *sorted((self.shared or self.cases).items()))


Noted = dict[str, tuple[str, Any]]
"""By case what shared pages need of it, under the key of its page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What an earlier drawing left."""

    parts: Mapping[str, Drawn] = field(default_factory=dict)
    briefs: Noted = field(default_factory=dict)
    cells: Noted = field(default_factory=dict)


def digest_of(*facts: object) -> str:
    """Return a digest of facts that are written in full by their `repr`."""
    return hashlib.sha256(repr(facts).encode(errors="backslashreplace")).hexdigest()


def state_of(path: Path) -> FileState | None:
    """Return the state of a file; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def draw_parts(parts: Iterable[SitePart], folder: Path, known: Memory) -> dict[str, Drawn]:
    """Write the parts that changed, and return all of them as they lie on the disk."""
    return {
        part.name: kept if (kept := _kept(part, folder, known)) else _drawn(part, folder)
        for part in parts
    }


def draw_both(
    one: Iterable[SitePart], other: Iterable[SitePart], folder: Path, known: Memory
) -> dict[str, Drawn]:
    """Write two lists of parts at the same time, by a fork for the second one."""
    if threading.active_count() > 1:  # a fork takes along the locks that others hold
        return {**draw_parts(one, folder, known), **draw_parts(other, folder, known)}
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(
        target=lambda: there.send(draw_parts(other, folder, known)), daemon=True
    )
    child.start()
    there.close()
    try:
        drawn = draw_parts(one, folder, known)
        drawn |= _received(here) or draw_parts(other, folder, known)
    finally:
        child.kill()
        child.join()
    return drawn


def _received(here: multiprocessing.connection.Connection) -> dict[str, Drawn]:
    """Return what a child drew; nothing where it failed: then the error is met again, and told."""
    try:
        found: dict[str, Drawn] = here.recv()
    except EOFError:
        return {}
    return found


def _kept(part: SitePart, folder: Path, known: Memory) -> Drawn | None:
    """Return a part that is on the disk as it would be drawn."""
    before = known.parts.get(part.name)
    if not part.key or before is None or before.key != part.key:
        return None
    same = all(state_of(folder / name) == state for name, state in before.files.items())
    return before if same else None


def _drawn(part: SitePart, folder: Path) -> Drawn:
    states: dict[str, FileState] = {}
    for name, content in part.files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, content)
        states[name] = state_of(path) or (0, 0, 0)
    return Drawn(part.key, states, part.noted())


def write(path: Path, content: bytes) -> None:
    """Put a file in its place at once, unless it is there: two runs may render at the same time."""
    if path.exists() and path.read_bytes() == content:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
