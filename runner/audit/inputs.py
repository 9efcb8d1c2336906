"""Read a set of packages from a file, standard input or an interpreter."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
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
from packaging.version import Version

from repromatrix.runner.audit import conda, listings, packages
from repromatrix.runner.audit.packages import MAKE_AGAIN, SHORT, Gathering, Installed
from repromatrix.runner.audit.structured import read_json, read_yaml
from repromatrix.runner.errors import Problem, RunnerError, refuse
from repromatrix.runner.model.case import decode
from repromatrix.runner.model.packages import DECIDING, TRANSFORMERS
from repromatrix.runner.model.toml import NO_TABLE, is_too_deep, read_table
from repromatrix.runner.text import join, plural, shorten


class Form(StrEnum):
    """The formats that are read."""

    REQUIREMENTS = "requirements file"
    UV = "uv.lock"
    PYLOCK = "pylock.toml"
    POETRY = "poetry.lock"
    PDM = "pdm.lock"
    PIPFILE = "Pipfile.lock"
    PIXI = "pixi.lock"
    CONDA_LOCK = "conda-lock.yml"
    ENVIRONMENT = "environment.yml"
    LIST = "list of packages in JSON"
    CYCLONEDX = "SBOM of CycloneDX"
    SPDX = "SBOM of SPDX"
    INSPECTED = "output of pip inspect"


_READERS = {
    Form.UV: packages.read_uv,
    Form.PYLOCK: packages.read_pylock,
    Form.POETRY: packages.read_poetry,
    Form.PDM: packages.read_pdm,
    Form.PIPFILE: packages.read_pipfile,
    Form.CONDA_LOCK: conda.read_conda_lock,
    Form.CYCLONEDX: listings.read_cyclonedx,
    Form.SPDX: listings.read_spdx,
}
LIMIT = 16 * 2**20
"""Bytes; the largest locks that are known have a third of that."""
STDIN = "-"
_STDIN_NAME = "standard input"
_NAME_ANOTHER = (
    "Name a lock, a list of packages or an interpreter; docs/audit.md lists the formats."
)
_EVERY_CASE = "Every case is about transformers: name the set of packages that has it."
_RUN_THERE = "Install repromatrix where transformers is, or activate that environment."
_MANY = 10
_LOOKED_FOR = (
    "bin/python",
    *("uv.lock", "pylock.toml", "pylock.*.toml", "poetry.lock", "pdm.lock", "Pipfile.lock"),
    *("pixi.lock", "conda-lock.yml", "*.conda-lock.yml"),
    *("bom.json", "sbom.json", "*.cdx.json", "*.spdx.json"),
    *("requirements.txt", "requirements*.txt", "requirements/*.txt"),
    *("environment.yml", "environment.yaml", ".venv/bin/python"),
)
"""What is looked for in a folder: what pins most comes first."""
_PINS_NOTHING = "It pins nothing: name its lock, or the interpreter of its environment."
_UNSUPPORTED = {
    "Pipfile": _PINS_NOTHING,
    "pyproject.toml": _PINS_NOTHING,
    "setup.py": _PINS_NOTHING,
    "setup.cfg": _PINS_NOTHING,
}
_UNSUPPORTED_ENDINGS = {".cfg", ".py", ".ipynb", ".xml", ".html", ".md"}
_TOML = {".toml", ".lock"}
_YAML = {".yml", ".yaml"}
_BEGINS_JSON = re.compile(r"\s*[{\[]")
_KEYS_OF_JSON = {
    "_meta": Form.PIPFILE,
    "bomFormat": Form.CYCLONEDX,
    "spdxVersion": Form.SPDX,
    "sbom": Form.SPDX,
    "@graph": Form.SPDX,
    "pip_version": Form.INSPECTED,
}
"""By a key that only one format has."""
_PARTLY = {Form.REQUIREMENTS, Form.ENVIRONMENT, Form.CYCLONEDX, Form.SPDX}
"""What may list only what somebody chose, without what came with it."""
_OF_ONE = {*Form} - {Form.REQUIREMENTS, Form.UV, Form.PYLOCK, Form.POETRY}
"""What holds one environment for one platform, each package in one version."""
_PYLOCK = re.compile(r"pylock\.([^.]+\.)?toml")
_FILE = re.compile(r'(?m)^ ++\{ ?(?:url|path|file) = "[^\n]*+\n')
"""A line that may describe a file. Possessive, so that no line is read twice."""
_PYTHON = re.compile(r"(python|pypy)[\d.]*(\.exe)?")
_CLOSURE = {"tokenizers", "huggingface-hub"}
"""What every transformers installs: a list without it was not made by a resolver."""


def read(path_text: str, environment: str = "") -> Installed:
    """Return the packages of a file, of `-` (standard input), of an interpreter or of a folder.

    In a folder the first file that lists transformers is read; an empty text is this folder, and
    the active interpreter where no file does. `environment` names one of a `pixi.lock`.
    Raises RunnerError.
    """
    if path_text == STDIN:
        content = sys.stdin.buffer.read(LIMIT + 1)
        installed = _from_text(content, Path(STDIN), _STDIN_NAME, environment)
    elif not path_text or Path(path_text).expanduser().is_dir():
        installed = _discovered(path_text, environment)
    else:
        installed = _named(path_text, environment)
    if environment and installed.form != Form.PIXI:
        what = f"{installed.what} has no environments with names"
        raise refuse(Problem(f"--environment {environment}", what, "Leave it out."))
    return _with_transformers(installed)


def running(*, or_active: bool = False) -> Installed:
    """Return the packages of the interpreter that runs this; raises RunnerError.

    With `or_active` those of the active interpreter where this one has no transformers. What is
    loaded counts, not what was installed over it since.
    """
    ours = _interpreter(Path(sys.executable))
    installed = dataclasses.replace(ours, pins={**ours.pins, **_loaded(ours.pins)})
    if or_active and not _has_transformers(installed):
        installed = _interpreter(_active())
    return _with_transformers(installed, _RUN_THERE)


def _loaded(pins: Mapping[str, str]) -> dict[str, str]:
    """Return the packages that this process has loaded in another version than is installed."""
    found = {}
    for name in DECIDING:
        module = sys.modules.get(name.replace("-", "_"))
        with contextlib.suppress(ValueError):  # it has no version, or one of its own kind
            version = Version(str(getattr(module, "__version__", "")))
            # An edited checkout is installed with a local part that its module does not have.
            if name not in pins or version.public != Version(pins[name]).public:
                found[name] = str(version)
    return found


def _discovered(path_text: str, environment: str) -> Installed:
    """Return the first set of packages in a folder that has transformers, and name the others."""
    folder = Path(path_text).expanduser()
    patterns = (str(Form.PIXI),) if environment else _LOOKED_FOR
    matches = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    candidates = [str(path) for path in dict.fromkeys(matches) if path.is_file()]
    for name in candidates:
        installed = _named(name, environment)
        if _has_transformers(installed) or (path_text and len(candidates) == 1):
            others = tuple(other for other in candidates if other != name)
            return dataclasses.replace(installed, passed_over=others)
    if not path_text and not environment:
        return dataclasses.replace(_interpreter(_active()), passed_over=tuple(candidates))
    where = path_text or str(folder.absolute())
    if not candidates:
        raise refuse(Problem(where, "nothing in this folder can be read", _NAME_ANOTHER))
    what = f"transformers is in none of {join(candidates[:_MANY])}"
    raise refuse(Problem(where, what, _EVERY_CASE))


def _named(path_text: str, environment: str) -> Installed:
    path = Path(path_text).expanduser()
    if path.is_file() and _PYTHON.fullmatch(path.name) and os.access(path, os.X_OK):
        return _interpreter(path)
    if not path.is_file():
        what = "it is not a file" if path.exists() else "the file does not exist"
        raise refuse(Problem(path_text, what, _NAME_ANOTHER))
    return _from_text(_content(path, path_text), path, path_text, environment)


def _content(path: Path, where: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LIMIT + 1)
    except OSError as error:
        raise refuse(Problem(where, f"the file cannot be read ({error.strerror})")) from error


def _from_text(content: bytes, path: Path, where: str, environment: str = "") -> Installed:
    if len(content) > LIMIT:
        what = f"the file is larger than {LIMIT >> 20} MB"
        raise refuse(Problem(where, what, "Check that it is a lock."))
    text = decode(content, where).removeprefix("\ufeff")
    form, document = _form(path, text, where)
    try:
        gathered = _gathered(form, document, path, where, environment)
    except RecursionError as error:
        raise refuse(Problem(where, "it is nested too deeply", MAKE_AGAIN)) from error
    several = sorted(gathered.versions.get(TRANSFORMERS, ()), key=Version)
    if len(several) > 1 and form in _OF_ONE:
        what = f"it holds transformers {join(several)}: several environments in one"
        raise refuse(Problem(where, what, "Make a file for each environment."))
    pins = gathered.pins()
    resolved = pins.keys() >= _CLOSURE and not gathered.nameless
    return Installed(
        what=where,
        form=form,
        pins=pins,
        loose=gathered.left(),
        whole=form not in _PARTLY or resolved,
        python=gathered.python,
        markers={**platform(), **gathered.markers},
        conditional=gathered.conditional,
        others=gathered.others(),
        nameless=gathered.nameless,
    )


def _gathered(form: Form, document: Any, path: Path, where: str, environment: str) -> Gathering:  # noqa: ANN401 - as its format has it
    markers, opened = platform(), functools.partial(_nested, path)
    match form:
        case Form.REQUIREMENTS:
            return packages.read_requirements(document, where, markers, opened)
        case Form.ENVIRONMENT:
            return conda.read_environment(document, where, markers, opened)
        case Form.PIXI:
            return conda.read_pixi(document, where, markers, environment)
        case Form.LIST:
            return conda.read_conda_list(document, where)
        case Form.INSPECTED:
            return listings.read_inspected(document, where)
        case _:
            return _READERS[form](document, where, markers)


def _form(path: PurePath, text: str, where: str) -> tuple[Form, Any]:
    """Return the format of a file, with what it holds: a text, a table or a list."""
    if path.name in _UNSUPPORTED or path.suffix in _UNSUPPORTED_ENDINGS:
        what = f"the format of {path.name!r} is not supported"
        raise refuse(Problem(where, what, _UNSUPPORTED.get(path.name, _NAME_ANOTHER)))
    if path.suffix in _YAML or path.name == Form.PIXI:
        return _of_yaml(read_yaml(text, where, MAKE_AGAIN), path.name, where)
    if path.name == Form.PIPFILE or (path.suffix not in _TOML and _BEGINS_JSON.match(text)):
        return _of_json(read_json(text, where, MAKE_AGAIN), where)
    if path.suffix == ".json":
        raise refuse(Problem(where, "it is not JSON", MAKE_AGAIN))
    if path.suffix not in _TOML:
        return Form.REQUIREMENTS, text
    if is_too_deep(text):
        raise refuse(Problem(where, "a key has more than 200 parts", _NAME_ANOTHER))
    table = _without_files(text) or read_table(text, where, MAKE_AGAIN)
    form = _locked(path.name, table, where)
    # `packaging` validates a lock of PEP 751 as a whole, files included.
    return form, read_table(text, where, MAKE_AGAIN) if form is Form.PYLOCK else table


def _without_files(text: str) -> dict[str, Any]:
    """Read a lock without the lines of its files: most of its lines, which matter to nobody here.

    Return nothing where the rest is not TOML: reading the whole file then gives the right line.
    """
    try:
        return tomllib.loads(_FILE.sub(_unless_file, text))
    except NO_TABLE:
        return {}


def _unless_file(match: re.Match[str]) -> str:
    line = match[0]
    return "" if line.endswith("},\n") and '", hash = "' in line else line


def _locked(name: str, table: dict[str, Any], where: str) -> Form:
    metadata = table.get("metadata")
    keys = metadata.keys() if isinstance(metadata, dict) else {}
    if name == "poetry.lock" or "lock-version" in keys:
        return Form.POETRY
    if name == "pdm.lock" or "lock_version" in keys:
        return Form.PDM
    if _PYLOCK.fullmatch(name) or "lock-version" in table:
        return Form.PYLOCK
    if name == "uv.lock" or ("package" in table and "version" in table):
        return Form.UV
    raise _unknown(table, "TOML", where)


def _of_json(document: object, where: str) -> tuple[Form, Any]:
    table = document if isinstance(document, dict) else {}
    if isinstance(document, list):
        return Form.LIST, document
    for key, form in _KEYS_OF_JSON.items():
        if key in table:
            return form, table
    raise _unknown(table, "JSON", where)


def _of_yaml(document: object, name: str, where: str) -> tuple[Form, dict[str, Any]]:
    table = document if isinstance(document, dict) else {}
    if name == Form.PIXI or {"environments", "packages"} <= table.keys():
        return Form.PIXI, table
    if name == Form.CONDA_LOCK or {"version", "package"} <= table.keys():
        return Form.CONDA_LOCK, table
    if name == Form.ENVIRONMENT or "dependencies" in table:
        return Form.ENVIRONMENT, table
    raise _unknown(table, "YAML", where)


def _unknown(table: dict[str, Any], language: str, where: str) -> RunnerError:
    keys = ", ".join([shorten(key, SHORT) for key in list(table)[:5]]) or "nothing"
    what = f"it is {language}, and not of a tool that is known (it starts with {keys})"
    return refuse(Problem(where, what, _NAME_ANOTHER))


def _nested(first: Path, at: str, to: str) -> tuple[str, str]:
    """Read the file that `-r` names, relative to the file that names it."""
    folder = first.parent if at in {str(first), _STDIN_NAME} else Path(at).parent
    path = Path(os.path.normpath(folder.expanduser() / to))
    if not os.path.isfile(path):  # noqa: PTH113 - pathlib raises for a name that is too long
        raise refuse(Problem(f"{at}: -r {to}", "the file does not exist"))
    return str(path), decode(_content(path, str(path)), str(path)).removeprefix("\ufeff")


def platform() -> dict[str, str]:
    """Return the marker variables of the platform that we run on."""
    return {**{name: str(value) for name, value in default_environment().items()}, "extra": ""}


def _with_transformers(installed: Installed, fix: str = _EVERY_CASE) -> Installed:
    if _has_transformers(installed):
        return installed
    count = len(installed.pins) + len(installed.loose)
    what = f"it lists {plural(count, 'package')}, but not transformers"
    for other in [other for other in installed.others if other.package == "transformers"][:1]:
        what += f" for this platform ({other.version} for {shorten(other.marker, SHORT)})"
    if installed.nameless:
        addresses = plural(installed.nameless, "address", "addresses")
        what += f"; {addresses} without a package name may be it"
    raise refuse(Problem(installed.what, what, fix))


def _has_transformers(installed: Installed) -> bool:
    return TRANSFORMERS in installed.pins or TRANSFORMERS in installed.loose


def _active() -> Path:
    """Return the interpreter of the activated environment, or the first one on the PATH."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = Path(os.environ.get(variable, "")) / "bin" / "python"
        if os.environ.get(variable) and python.exists():
            return python
    first = shutil.which("python") or shutil.which("python3")
    if first is None:
        raise refuse(Problem("PATH", "there is no python on it", _NAME_ANOTHER))
    return Path(first)


def _interpreter(python: Path) -> Installed:
    from repromatrix.runner.environments import development  # noqa: PLC0415 - files do without

    environment, _ = development.ask_interpreter(python.absolute())
    gathered = Gathering()
    for name, version in environment.pins.items():
        gathered.pin(name, version)
    return Installed(
        what=str(python),
        form="interpreter",
        pins=gathered.pins(),
        loose=gathered.left(),
        python=environment.python,
        markers=environment.markers,
    )
