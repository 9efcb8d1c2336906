"""What was made from files, kept on this machine for as long as the files stay as they are.

It is a pickle, and whoever can write it can make it say anything: it is read only where this user
alone could write it, as the code is. Whatever is wrong with it, the files say the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from repromatrix.runner import files
from repromatrix.runner.files import UnwritableError


def digest_of(names: Iterable[str], *facts: object) -> bytes:
    """Return a digest of some files and facts; a file may be absent."""
    found = hashlib.sha256(repr(facts).encode())
    for name in names:
        try:
            with open(name, "rb", buffering=0) as file:  # noqa: PTH123 - a Path of each takes time
                content = file.read()
        except FileNotFoundError:
            content = b""
        found.update(b"\0%b\0%d\0%b" % (os.fsencode(name), len(content), content))
    return found.digest()


def in_folder(folder: Path, *endings: str) -> list[str]:
    """Return the names of the files of a folder, in order."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(os.listdir(folder))  # noqa: PTH208 - a Path of each takes time
        return [f"{folder}{os.sep}{name}" for name in names if name.endswith(endings)]
    return []


def read(place: Path, state: bytes) -> Any:  # noqa: ANN401 - what was kept
    """Return what was kept of a state; None where it is of another, not whole, or not ours."""
    try:
        with place.open("rb", buffering=0) as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            head, content = file.read(2 * len(state)), file.read()
        is_whole = head == state + hashlib.sha256(content).digest()
        return pickle.loads(content) if is_whole else None  # noqa: S301 - see above
    except Exception:  # noqa: BLE001 - of a damaged file pickle raises anything
        return None


def keep(place: Path, state: bytes, made: object) -> None:
    """Keep what was made of a state in place of the last one.

    A disk that does not take it costs nothing but time, and so does a home that is not there.
    """
    if place.parents[2].is_dir():
        content = pickle.dumps(made, protocol=5)
        with contextlib.suppress(OSError, UnwritableError):
            digest = hashlib.sha256(content).digest()
            files.write_bytes(place, b"".join([state, digest, content]))
