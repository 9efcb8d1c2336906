"""What identifies a folder of sources: its commit, and its content where it is edited.

Every question is read-only: git is told to refresh nothing and to take no lock.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = 60
_COMPILED = ("__pycache__/", ".pyc")


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How a folder of sources stands; `content` is empty where it is as it was committed."""

    commit: str
    """Empty where it is in no repository."""
    branch: str
    """Empty where none is checked out."""
    content: str

    @property
    def identity(self) -> str:
        """The commit, and the content where that is another."""
        return f"{self.commit[:12]}dirty{self.content}" if self.content else self.commit[:12]


def standing(folder: Path, sources: Path, *, ignored: bool) -> Standing:
    """Say how a folder stands; where it is edited, the files of `sources` tell it apart.

    `ignored` lets also what git ignores be an edit, as where all that lies there is imported.
    Compiled files never are.
    """
    commit = _ask(folder, "rev-parse", "HEAD")
    also = ("--ignored",) if ignored else ()
    asked = ("status", "--porcelain", "--untracked-files=all", *also, "--", ".")
    status = _ask(folder, *asked) if commit else None
    clean = status is not None and not list(_edits(status)) and not _has_hidden(folder, sources)
    return Standing(
        commit=(commit or "").strip(),
        branch=(_ask(folder, "symbolic-ref", "--short", "--quiet", "HEAD") or "").strip(),
        content="" if clean else content(sources),
    )


def content(folder: Path) -> str:
    """Return a digest of the files below a folder, but compiled ones, and of where they lie."""
    told = hashlib.sha256()
    for path in sorted(_files(folder)):
        source = Path(path).read_bytes()
        told.update(f"{os.path.relpath(path, folder)} {len(source)}\n".encode())
        told.update(source)
    return told.hexdigest()[:12]


def marks(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Return place, size and time of the same files: a quick look whether one was edited."""
    found = ((path, os.stat(path)) for path in _files(folder))  # noqa: PTH116 - once per cell
    return frozenset((path, stat.st_size, stat.st_mtime_ns) for path, stat in found)


def _files(folder: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        # What an installation leaves behind is no source either.
        folders[:] = [one for one in folders if one != "__pycache__" and not _is_about(one)]
        yield from (os.path.join(parent, one) for one in names if not one.endswith(".pyc"))  # noqa: PTH118


def _has_hidden(folder: Path, sources: Path) -> bool:
    """Say whether git was told not to look at a file: an edit of it shows in no status."""
    listed = _ask(folder, "ls-files", "-v", "--", os.path.relpath(sources, folder))
    return listed is None or any(
        line[0].islower() or line[0] == "S" for line in listed.split("\n") if line
    )


def _is_about(name: str) -> bool:
    return name.endswith((".egg-info", ".dist-info"))


def _edits(status: str) -> Iterator[str]:
    for line in status.splitlines():
        if not line.rstrip('"').endswith(_COMPILED):
            yield line


def _ask(folder: Path, *question: str) -> str | None:
    """Return what git answers about a folder, or None where it refuses."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ = {**ours, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command: list[str | Path] = ["git", "-C", folder, "-c", "core.fsmonitor=false", *question]
    done = processes.finish(command, environ=environ, seconds=_SECONDS)
    return done.out if done.code == 0 else None
