"""Case files and requests, as a worker is given them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cells


def case(folder: Path, *lines: str, name: str = "case") -> Path:
    path = folder / f"{name}.py"
    path.write_text("\n".join([*lines, ""]))
    return path


def request(path: Path, number: int = 0, **changed: object) -> dict[str, Any]:
    return cells.request(path, number, **{"seconds": 20, "memory": 512, "processes": 128} | changed)
