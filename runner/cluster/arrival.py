"""What a worker of the cluster does first: it has nothing of ours but this function.

It is sent as it is, not by its name, so it uses nothing but the standard library.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.cluster.station import Given


def arrive(name: str, archive: bytes, given: Given) -> Iterator[object]:
    """Unpack what was sent, once per node, and go on with it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    cache = Path(base) / "repromatrix"
    root = cache / "sent" / name
    root.parent.mkdir(parents=True, exist_ok=True)
    with (root.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            fresh = root.with_name(f".{name}.{os.getpid()}")
            shutil.rmtree(fresh, ignore_errors=True)
            with zipfile.ZipFile(io.BytesIO(archive)) as content:
                content.extractall(fresh)
            fresh.replace(root)
    sys.path.insert(0, str(root))
    from runner.cluster.station import measure

    yield from measure(root, cache, given)
