"""What is given to people who have no checkout: a wheel, or a source distribution."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build a wheel or a source distribution of a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=600)
    return next(folder.iterdir())
