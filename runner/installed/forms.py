"""What a file is, by its name and by what stands in it."""

from __future__ import annotations

import re
import tomllib
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from runner.errors import Fault, RunnerError, refuse
from runner.model.tables import NO_TABLE, is_too_deep, read_table

if TYPE_CHECKING:
    from pathlib import PurePath


class Form(StrEnum):
    """The formats that are read."""

    REQUIREMENTS = "requirements file"
    UV = "uv.lock"
    PYLOCK = "pylock.toml"
    POETRY = "poetry.lock"


ALLOWED = f"a {', '.join(Form)}, what `pip freeze` prints, or an interpreter"
_PYLOCK = re.compile(r"pylock\.([^.]+\.)?toml")
_FILE = re.compile(r'(?m)^ ++\{ ?(?:url|path|file) = "[^\n]*+\n')
"""A line that may be about a file; what it says is looked at apart: no line is read twice."""
_STRANGE = {
    "Pipfile": "Lock it, then `pipenv requirements > requirements.txt`.",
    "Pipfile.lock": "Say `pipenv requirements > requirements.txt`.",
    "pdm.lock": "Say `pdm export -o requirements.txt`.",
    "pixi.lock": "Name the interpreter of its environment.",
    "conda-lock.yml": "Name the interpreter of its environment.",
    "environment.yml": "Name the interpreter of its environment.",
    "pyproject.toml": "It pins nothing: name its lock, or the interpreter of its environment.",
    "setup.py": "It pins nothing: name the interpreter of its environment.",
    "setup.cfg": "It pins nothing: name the interpreter of its environment.",
}
_STRANGE_ENDINGS = {".json", ".yml", ".yaml", ".cfg", ".py", ".ipynb", ".xml", ".html", ".md"}
_ANY = "Name the interpreter of its environment, or what its `pip freeze` prints."


def form_of(path: PurePath, text: str, where: str) -> tuple[Form, dict[str, Any]]:
    """Return what a file is, with its table where it is TOML; raises RunnerError."""
    if path.name in _STRANGE or path.suffix in _STRANGE_ENDINGS:
        raise _unknown(where, f"{path.name!r}", _STRANGE.get(path.name, _ANY))
    if path.suffix not in {".toml", ".lock"} and not _PYLOCK.fullmatch(path.name):
        return Form.REQUIREMENTS, {}
    if is_too_deep(text):
        raise _unknown(where, "a line with a key of more than 200 parts", _ANY)
    table = _slim(text) or _table(text, where)
    form = _locked(path.name, table, where)
    # A lock of PEP 751 is held against its standard, files and all.
    return form, _table(text, where) if form is Form.PYLOCK else table


def _slim(text: str) -> dict[str, Any]:
    """Read a lock without the lines of its files: they are most of it and say nothing here.

    Return nothing where what is left is no TOML: the whole of it tells where that is.
    """
    try:
        return tomllib.loads(_FILE.sub(_unless_file, text))
    except NO_TABLE:
        return {}


def _unless_file(match: re.Match[str]) -> str:
    """Return a line that is not about one file with its hash and nothing else."""
    line = match[0]
    return "" if line.endswith("},\n") and '", hash = "' in line else line


def _locked(name: str, table: dict[str, Any], where: str) -> Form:
    metadata = table.get("metadata")
    if name == "poetry.lock" or (isinstance(metadata, dict) and "lock-version" in metadata):
        return Form.POETRY
    if _PYLOCK.fullmatch(name) or "lock-version" in table:
        return Form.PYLOCK
    if name == "uv.lock" or ("package" in table and "version" in table):
        return Form.UV
    keys = ", ".join(list(table)[:5]) or "nothing"
    raise _unknown(where, f"TOML with {keys} at its top", _ANY)


def _table(text: str, where: str) -> dict[str, Any]:
    return read_table(text, where, remedy="It may be cut off: make it again.")


def _unknown(where: str, found: str, remedy: str) -> RunnerError:
    return refuse(Fault(where=where, found=found, allowed=ALLOWED, remedy=remedy))
