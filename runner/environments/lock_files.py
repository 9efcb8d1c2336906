"""The texts of the locks: a folder of files in a checkout, one archive in an installation."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

_SUFFIX = ".txt"


def lock_bytes(folder: Path, name: str) -> bytes | None:
    """Return what the lock of an environment holds, None where there is no such lock."""
    if folder.is_dir():
        path = folder / f"{name}{_SUFFIX}"
        return path.read_bytes() if path.exists() else None
    return _packed(folder.with_suffix(".tar.xz")).get(name)


def lock_names(folder: Path) -> list[str]:
    """Return the names of all locks, sorted."""
    if folder.is_dir():
        return sorted(path.stem for path in folder.glob(f"*{_SUFFIX}"))
    return sorted(_packed(folder.with_suffix(".tar.xz")))


@functools.cache
def _packed(archive: Path) -> Mapping[str, bytes]:
    """Return what the build of the wheel packed; whole, as its parts cannot be read alone."""
    if not archive.exists():
        return {}
    import tarfile  # noqa: PLC0415 - a checkout does without

    with tarfile.open(archive) as locks:
        members = [(member.name, locks.extractfile(member)) for member in locks]
        return {name.removesuffix(_SUFFIX): file.read() for name, file in members if file}
