# ruff: noqa: INP001 - loaded by hatchling, by its path
"""What the build of the wheel does: the locks go into one archive, which is a sixth of their size.

Locks of neighbouring releases pin nearly the same files, so that they pack well together only.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackedLocks(BuildHookInterface[Any]):
    """Puts `environments/locks.tar.xz` in place of the folder."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface
        """Write the archive, the same for the same locks, and name it to the build."""
        packed = Path(self.directory) / "locks.tar.xz"
        packed.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(packed, mode="w:xz", preset=9) as archive:
            for path in sorted((Path(self.root) / "environments" / "locks").glob("*.txt")):
                entry = tarfile.TarInfo(path.name)
                entry.size = path.stat().st_size
                archive.addfile(entry, io.BytesIO(path.read_bytes()))
        build_data["force_include"][str(packed)] = "repromatrix/environments/locks.tar.xz"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - the interface
        """Take the archive away; the wheel holds it."""
        (Path(self.directory) / "locks.tar.xz").unlink()
