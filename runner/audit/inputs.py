"""Read a set of packages from a file, standard input or an interpreter."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any

from packaging.markers import default_environment

from repromatrix.runner.audit.lockfiles import read_poetry, read_pylock, read_uv
from repromatrix.runner.audit.packages import Gathering, Installed, shown
from repromatrix.runner.audit.requirements import read_requirements
from repromatrix.runner.errors import OldFault, RunnerError, refuse
from repromatrix.runner.model.script import decode
from repromatrix.runner.model.toml import NO_TABLE, is_too_deep, read_table


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
    return refuse(OldFault(where=where, found=found, allowed=ALLOWED, fix=remedy))


LIMIT = 16 * 2**20
"""Bytes; the largest locks that are known have a third of that."""
STDIN = "-"
_PYTHON = re.compile(r"(python|pypy)[\d.]*(\.exe)?")
_CLOSURE = {"tokenizers", "huggingface-hub"}
"""What every transformers installs: a list without it was not made by a resolver."""


def read(asked: str) -> Installed:
    """Return what a path holds, or for nothing the active interpreter; raises RunnerError."""
    if asked == STDIN:
        return _from_text(sys.stdin.buffer.read(LIMIT + 1), Path(STDIN), "standard input")
    if not asked:
        return _interpreter(_active())
    path = Path(asked).expanduser()
    if path.is_dir():
        raise _directory(path, asked)
    if _is_interpreter(path):
        return _interpreter(path)
    if not path.is_file():
        found = "no such file" if not path.exists() else "no file"
        raise refuse(OldFault(where=asked, found=found, allowed=ALLOWED))
    return _from_text(_content(path, asked), path, asked)


def _content(path: Path, where: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LIMIT + 1)
    except OSError as error:
        found = f"a file that cannot be read ({error.strerror})"
        raise refuse(OldFault(where=where, found=found, allowed=ALLOWED)) from error


def _from_text(content: bytes, path: Path, where: str) -> Installed:
    if len(content) > LIMIT:
        found, allowed = f"more than {LIMIT >> 20} MB", f"at most {LIMIT >> 20} MB"
        remedy = "Is it a lock at all?"
        raise refuse(OldFault(where=where, found=found, allowed=allowed, fix=remedy))
    text = decode(content, where).removeprefix("\ufeff")
    form, table = form_of(path, text, where)
    here = platform()
    gathered = _gathered(form, (text, table), path, where, here)
    pins = gathered.pins()
    listed = pins.keys() >= _CLOSURE and not gathered.nameless
    installed = Installed(
        what=where,
        form=form,
        pins=pins,
        loose=gathered.left(),
        whole=form is not Form.REQUIREMENTS or listed,
        markers=here,
        conditional=gathered.conditional,
        others=gathered.others(),
        nameless=gathered.nameless,
    )
    return _with_transformers(installed)


def _gathered(
    form: Form,
    content: tuple[str, dict[str, object]],
    path: Path,
    where: str,
    here: Mapping[str, str],
) -> Gathering:
    text, table = content
    match form:
        case Form.REQUIREMENTS:
            return read_requirements(text, where, here, lambda at, to: _nested(path, at, to))
        case Form.UV:
            return read_uv(table, where, here)
        case Form.PYLOCK:
            return read_pylock(table, where, here)
        case Form.POETRY:
            return read_poetry(table, where, here)


def _nested(first: Path, at: str, to: str) -> tuple[str, str]:
    """Read the file that `-r` names, seen from the file that names it."""
    folder = first.parent if at in {str(first), "standard input"} else Path(at).parent
    path = Path(os.path.normpath(folder.expanduser() / to))
    if not os.path.isfile(path):  # noqa: PTH113 - pathlib raises for a name that is too long
        fault = OldFault(where=at, key=f"-r {to}", found="no such file", allowed="a file beside it")
        raise refuse(fault)
    return str(path), decode(_content(path, str(path)), str(path)).removeprefix("\ufeff")


def platform() -> dict[str, str]:
    """Return the marker variables of the platform that we run on."""
    return {**{name: str(value) for name, value in default_environment().items()}, "extra": ""}


def _with_transformers(found: Installed) -> Installed:
    if "transformers" in found.pins or "transformers" in found.loose:
        return found
    count = len(found.pins) + len(found.loose)
    held = f"{count} of other packages, no transformers" if count else "no packages"
    elsewhere = [one for one in found.others if one.package == "transformers"]
    if elsewhere:
        held += f" for this platform, but {elsewhere[0].version} for {shown(elsewhere[0].marker)}"
    if found.nameless:
        noun = "address that names" if found.nameless == 1 else "addresses that name"
        held += f", and {found.nameless} {noun} no package"
    remedy = "Every case is about transformers: name what holds it."
    allowed = "a set of packages with transformers"
    raise refuse(OldFault(where=found.what, found=held, allowed=allowed, fix=remedy))


def _active() -> Path:
    """Return the interpreter that a user means who names none: the activated one, then PATH's."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = Path(os.environ.get(variable, "")) / "bin" / "python"
        if os.environ.get(variable) and python.exists():
            return python
    found = shutil.which("python") or shutil.which("python3")
    if found is None:
        fault = OldFault(where="PATH", found="no python on it", allowed=ALLOWED)
        raise refuse(fault)
    return Path(found)


def _is_interpreter(path: Path) -> bool:
    return path.is_file() and bool(_PYTHON.fullmatch(path.name)) and os.access(path, os.X_OK)


def _interpreter(python: Path) -> Installed:
    from repromatrix.runner.environments import interpreter  # noqa: PLC0415 - files do without

    environment, _ = interpreter.ask(python.absolute())
    found = Gathering()
    for name, version in environment.pins.items():
        found.pin(name, version)
    return _with_transformers(
        Installed(
            what=str(python),
            form="interpreter",
            pins=found.pins(),
            loose=found.left(),
            python=environment.python,
            markers=environment.markers,
        )
    )


def _directory(path: Path, asked: str) -> RunnerError:
    names = ("bin/python", *Form, "requirements.txt", ".venv/bin/python")
    inside = next((name for name in names if (path / name).exists()), "")
    remedy = f"Say `{path / inside}`." if inside else ""
    return refuse(OldFault(where=asked, found="a directory", allowed=ALLOWED, fix=remedy))
