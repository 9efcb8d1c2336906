"""A side that is evidence: a store of another machine, a published set, or one publication."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import Fault, RunnerError, refuse
from runner.evidence import foreign
from runner.evidence.publications import read_publications

if TYPE_CHECKING:
    from runner.model.observation import Observation
    from runner.places import Places
    from runner.project import Project

ALLOWED = f"evidence on both sides: {foreign.STORE}, {foreign.SET}, or a publication by its name"
_DATED = re.compile(r"\d{4}-\d\d-\d\d(-[a-z])?")
_STORES = frozenset({".sqlite", ".sqlite3", ".db"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What one side holds, and what it is in words without a path of this machine."""

    title: str
    rows: tuple[Observation, ...]


def is_evidence(text: str, loaded: Project) -> bool:
    """Say whether a side is meant to be evidence, be it there or not."""
    if text in loaded.names:
        return False
    path = Path(text).expanduser()
    if path.is_dir():
        return (path / "publications.toml").is_file()
    looks = path.suffix in _STORES or _DATED.fullmatch(text) is not None
    return looks or path.exists() or text in read_publications(loaded.places.published)


def is_publication(text: str, loaded: Project) -> bool:
    """Say whether a side that is evidence is a publication of this checkout."""
    return text not in loaded.names and not Path(text).expanduser().exists()


def read_side(text: str, loaded: Project) -> Held:
    """Return what a side holds; raises RunnerError where it is none, or not to be read."""
    path = Path(text).expanduser()
    if text in loaded.names:
        raise _mixed(text, "an environment beside evidence")
    if path.is_dir():
        return _of_folder(text, path)
    if path.is_file():
        rows = tuple(foreign.read_store(path))
        return Held(title=f"the store {path.name}", rows=rows)
    if path.exists():
        raise _mixed(text, "neither a file nor a folder")
    return _of_publication(text, loaded.places)


def _of_folder(text: str, path: Path) -> Held:
    try:
        rows = tuple(foreign.read_set(path))
    except RunnerError as error:
        if (path / "publications.toml").is_file():
            raise
        remedy = error.faults[0].remedy
        raise _mixed(text, "a folder without publications.toml", remedy) from error
    named = ", ".join(sorted({row.source for row in rows})) or "nothing"
    return Held(title=f"the published set of {named}", rows=rows)


def _of_publication(text: str, places: Places) -> Held:
    known = read_publications(places.published)
    if text not in known:
        if _is_path(text):
            raise _mixed(text, "no such file")
        named = ", ".join(known) or "none yet"
        raise _mixed(
            text,
            "no such file, and no such publication",
            f"Publications of this checkout: {named}.",
        )
    rows = tuple(row for row in foreign.read_set(places.published) if row.source == text)
    return Held(title=f"the publication {text}", rows=rows)


def _is_path(text: str) -> bool:
    return "/" in text or Path(text).suffix in _STORES


def _mixed(text: str, found: str, remedy: str = "") -> RunnerError:
    return refuse(Fault(where=text, found=found, allowed=ALLOWED, remedy=remedy))
