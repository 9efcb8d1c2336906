"""What every node needs of a checkout, as one archive: the same content, the same bytes."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.model.case import Case
    from runner.places import Places
    from runner.project import Project

_DATE = (1980, 1, 1, 0, 0, 0)
_ALLOWED = 0o644 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """An archive and the name under which nodes keep it."""

    name: str
    archive: bytes


def pack(project: Project) -> Bundle:
    """Return the runner, the cases, the locks and the pins; nothing else, and nothing secret."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, path in sorted(_files(project)):
            about = zipfile.ZipInfo(name, _DATE)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = _ALLOWED
            archive.writestr(about, path.read_bytes())
    found = content.getvalue()
    return Bundle(name=hashlib.sha256(found).hexdigest()[:16], archive=found)


def _files(project: Project) -> Iterator[tuple[str, Path]]:
    places = project.places
    yield "pyproject.toml", ROOT / "pyproject.toml"
    yield "environments/matrix.toml", places.matrix
    yield from _below(places.locks.glob("*.txt"), places.locks, "environments/locks")
    yield from _below((ROOT / "runner").rglob("*.py"), ROOT / "runner", "runner")
    for case in project.cases.values():
        yield shipped(case, places), Path(case.path)


def _below(paths: Iterable[Path], folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in paths:
        yield f"{name}/{path.relative_to(folder).as_posix()}", path


def shipped(case: Case, places: Places) -> str:
    """Return where a case's file lies in the archive: a file of somebody's own among the cases."""
    path = Path(case.path)
    if path.is_relative_to(places.cases):
        return f"cases/{path.relative_to(places.cases).as_posix()}"
    return f"cases/{path.name}"
