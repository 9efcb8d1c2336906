"""Newer evidence of an installation: kept in the user's cache, and read in place of the older.

Each archive is unpacked into a folder of its own; a file names the one that counts. So it takes the
place of the last one at once, and whoever is reading that one can go on: it stays until the next.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from repromatrix.runner import files
from repromatrix.runner.errors import Problem, RunnerError, refuse
from repromatrix.runner.evidence.snapshot import Snapshot, newest
from repromatrix.runner.paths import Paths

_CURRENT = "current"
_FOLDER = re.compile(r"[0-9a-f]{16}")
_DRAFT = "draft-"
_OLD = 3600.0
"""Seconds after which a draft belongs to nobody: to take an archive needs some of them."""


def current(paths: Paths | None = None) -> Paths:
    """Return where answers come from: the newer of what was installed and what was taken.

    Raises RunnerError where what was taken cannot be read.
    """
    paths = paths or Paths()
    folder = _taken(paths) if paths.is_installed else None
    if folder is None:
        return paths
    updated = dataclasses.replace(paths, updated=folder)
    try:
        snapshot = newest(updated.published)
        is_newer = snapshot is not None and snapshot.is_newer(newest(paths.published))
    except RunnerError as error:
        fix = "Remove that folder, or run `repromatrix update` again."
        what = f"its evidence is damaged ({error.faults[0].what})"
        raise refuse(Problem(str(folder), what, fix)) from error
    return updated if is_newer else paths


def _taken(paths: Paths) -> Path | None:
    """Return the folder of the evidence that was taken; None where there is none."""
    with contextlib.suppress(OSError):
        name = (paths.updates / _CURRENT).read_text(encoding="ascii", errors="replace").strip()
        if _FOLDER.fullmatch(name):
            return paths.updates / name
    return None


def take(
    paths: Paths, content: bytes, where: str, check: Callable[[Paths], None]
) -> tuple[Snapshot, bool]:
    """Let an archive take the place of the evidence at `paths`; return its snapshot, and whether.

    It does not where the snapshot is the same. `check` reads the new evidence and raises
    RunnerError where it cannot. Raises RunnerError for an archive that is refused or older, and
    where the disk does not take it; what was there before stays.
    """
    from repromatrix.runner.evidence import archive  # noqa: PLC0415 - every command imports this module

    before = newest(paths.published)
    with files.told(str(paths.updates)):
        paths.updates.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=paths.updates))
    try:
        snapshot = archive.unpack(content, where, draft)
        if not snapshot.is_newer(before):
            if before and before.is_newer(snapshot):
                what = f"its snapshot {snapshot.name} is older than yours of {before.name}"
                raise refuse(Problem(where, what, "Nothing was changed."))
            return snapshot, False
        try:
            check(dataclasses.replace(paths, updated=draft))
        except RunnerError as error:
            what = f"this version of repromatrix cannot read it ({error.faults[0].what})"
            raise refuse(Problem(where, what, "Update repromatrix.")) from error
        with files.told(str(paths.updates)):
            _put(paths, draft, hashlib.sha256(content).hexdigest()[:16])
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return snapshot, True


def _put(paths: Paths, draft: Path, name: str) -> None:
    """Put a folder in its place and name it, and remove all but the one that was named before."""
    last, place = _taken(paths), paths.updates / name
    if place.exists():  # taken before, and perhaps damaged since
        place.replace(paths.updates / f"{draft.name}-old")
    draft.replace(place)
    files.write(paths.updates / _CURRENT, f"{name}\n")
    for path in paths.updates.iterdir():
        is_draft = path.name.startswith(_DRAFT) and path.stat().st_mtime > time.time() - _OLD
        if path.is_dir() and path not in {place, last} and not is_draft:
            shutil.rmtree(path, ignore_errors=True)
