"""What a worker of the cluster does first: it has nothing of ours but this function.

It is sent as it is, not by its name, so it uses nothing but the standard library.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import signal
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

_KEPT = 7 * 24 * 3600
"""Seconds after which what nobody used is removed."""
_UNPACKING, _LOOK = 120.0, 0.1
"""Seconds for which another may unpack, and between two looks whether it has."""


def arrive(
    name: str, archive: bytes, parcel: bytes, kind: str, environ: dict[str, str]
) -> Iterator[object]:
    """Unpack what was sent, once per node, and go on with it."""
    # Ray cancels a task as Ctrl-C does, and that is lost where whoever started the cluster had
    # SIGINT ignored: a script's background job, some CI. Every worker inherits it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    cache = Path(base) / "repromatrix"
    root = unpack(name, archive, cache / "sent")
    sys.path.insert(0, str(root))
    from repromatrix.runner.execution.ray.task import measure

    yield from measure(root, cache, parcel, kind, environ)


def unpack(name: str, archive: bytes, folder: Path) -> Path:
    """Return the folder with what was sent; others that nobody has used for long are removed."""
    root = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w", encoding="utf-8") as lock:
        until = time.monotonic() + _UNPACKING
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
            time.sleep(_LOOK)
        if not root.exists():
            fresh = folder / f".{name}.new"
            shutil.rmtree(fresh, ignore_errors=True)
            with zipfile.ZipFile(io.BytesIO(archive)) as content:
                content.extractall(fresh)
            fresh.replace(root)
        os.utime(root)
        for other in folder.iterdir():
            if other.is_dir() and other.stat().st_mtime < time.time() - _KEPT:
                shutil.rmtree(other, ignore_errors=True)
    return root
