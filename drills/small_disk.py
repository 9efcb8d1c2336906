"""A disk of a few MiB, mounted where nobody else sees it; run as a program in a mount namespace."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KIB = 1 << 10
_MOUNT, _UNMOUNT = "/bin/mount", "/bin/umount"
_SIZE = 4096
"""KiB of a small disk."""


def namespace() -> list[str]:
    """Return the command before a command that may mount without anybody seeing it."""
    mine = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *mine, "--mount", "--propagation", "private"]


def missing() -> str:
    """Say why no small disk can be had here; nothing where one can."""
    command = [*namespace(), "mount", "-t", "tmpfs", "-o", "size=64k", "small", "/tmp"]  # noqa: S108
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"unshare cannot be started: {error.strerror}"
    said = " ".join(done.stderr.split())
    return f"a file system cannot be mounted here: {said}" if done.returncode else ""


class SmallDisk:
    """A mounted disk; what it holds beside its filler belongs to a trial."""

    def __init__(self, folder: Path, options: str = "") -> None:
        """Mount it over a folder, which has to be in a namespace of our own."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.filler = folder / ".filler"
        given = f"size={_SIZE}k{options}"
        subprocess.run([_MOUNT, "-t", "tmpfs", "-o", given, "small", folder], check=True)

    def fill(self, room: int) -> None:
        """Leave that many KiB free."""
        self.filler.unlink(missing_ok=True)
        found = os.statvfs(self.folder)
        size = found.f_bavail * found.f_frsize - room * KIB
        with self.filler.open("wb") as file:
            if size > 0:
                os.posix_fallocate(file.fileno(), 0, size)

    def clear(self) -> None:
        """Make room."""
        self.filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it, with all that it holds."""
        subprocess.run([_UNMOUNT, self.folder], check=True)
