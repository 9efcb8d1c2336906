"""Read a set of packages from a file, standard input or an interpreter."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.version import Version

from repromatrix.runner.audit import listings, packages, pasted
from repromatrix.runner.audit.packages import (
    LIMIT,
    MAKE_AGAIN,
    SHORT,
    Gathering,
    Installed,
    Table,
    as_table,
    content_of,
)
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
    PASTED = "pasted text"


_READERS: Mapping[Form, Callable[[Any, Gathering], None]] = {
    Form.REQUIREMENTS: packages.read_requirements,
    Form.UV: packages.read_uv,
    Form.PYLOCK: packages.read_pylock,
    Form.POETRY: packages.read_poetry,
    Form.PDM: packages.read_pdm,
    Form.PIPFILE: packages.read_pipfile,
    Form.PIXI: listings.read_pixi,
    Form.CONDA_LOCK: listings.read_conda_lock,
    Form.ENVIRONMENT: listings.read_environment,
    Form.LIST: listings.read_list,
    Form.CYCLONEDX: listings.read_cyclonedx,
    Form.SPDX: listings.read_spdx,
    Form.INSPECTED: listings.read_inspected,
    Form.PASTED: pasted.read_pasted,
}
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
_PIN_NOTHING = {"Pipfile", "pyproject.toml", "setup.py", "setup.cfg"}
_UNSUPPORTED_ENDINGS = {".cfg", ".py", ".ipynb", ".xml", ".html", ".md"}
_TOML = {".toml", ".lock"}
_YAML = {".yml", ".yaml"}
_BEGINS_JSON = re.compile(r"\s*(?:\{|\[(?!\w+\]))")
"""Not the `[rank0]:` or `[pip3]` of a pasted line."""
_KEYS = {
    "TOML": (
        (Form.POETRY, {"metadata.lock-version"}),
        (Form.PDM, {"metadata.lock_version"}),
        (Form.PYLOCK, {"lock-version"}),
        (Form.UV, {"package", "version"}),
    ),
    "JSON": (
        (Form.PIPFILE, {"_meta"}),
        (Form.CYCLONEDX, {"bomFormat"}),
        *((Form.SPDX, {key}) for key in ("spdxVersion", "sbom", "@graph")),
        (Form.INSPECTED, {"pip_version"}),
    ),
    "YAML": (
        (Form.PIXI, {"environments", "packages"}),
        (Form.CONDA_LOCK, {"version", "package"}),
        (Form.ENVIRONMENT, {"dependencies"}),
    ),
}
"""Keys that only one format has."""
_PARTLY = {Form.REQUIREMENTS, Form.ENVIRONMENT, Form.CYCLONEDX, Form.SPDX, Form.PASTED}
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
    return _from_text(content_of(path, path_text), path, path_text, environment)


def _from_text(content: bytes, path: Path, where: str, environment: str = "") -> Installed:
    if len(content) > LIMIT:
        what = f"the file is larger than {LIMIT >> 20} MB"
        raise refuse(Problem(where, what, "Check that it is a lock."))
    text = decode(content, where).removeprefix("\ufeff")
    form, document = _form(path, text, where)
    gathered = Gathering(where, platform())
    reader = partial(listings.read_pixi, environment=environment)
    try:
        (reader if form is Form.PIXI else _READERS[form])(document, gathered)
    except RecursionError as error:
        raise refuse(Problem(where, "it is nested too deeply", MAKE_AGAIN)) from error
    several = sorted(gathered.versions.get(TRANSFORMERS, ()), key=Version)
    if len(several) > 1 and form in _OF_ONE:
        what = f"it holds transformers {join(several)}: several environments in one"
        raise refuse(Problem(where, what, "Make a file for each environment."))
    installed = gathered.installed(form)
    is_resolved = installed.pins.keys() >= _CLOSURE and not installed.nameless
    return dataclasses.replace(installed, whole=form not in _PARTLY or is_resolved)


def _form(path: Path, text: str, where: str) -> tuple[Form, Any]:
    """Return the format of a file, with what it holds: a text, a table or a list."""
    name, suffix = path.name, path.suffix
    if name in _PIN_NOTHING or suffix in _UNSUPPORTED_ENDINGS:
        fix = _PINS_NOTHING if name in _PIN_NOTHING else _NAME_ANOTHER
        raise refuse(Problem(where, f"the format of {name!r} is not supported", fix))
    if suffix in _YAML or name == Form.PIXI:
        document = as_table(read_yaml(text, where))
        return _by_keys("YAML", name, document, where), document
    if name == Form.PIPFILE or (suffix not in _TOML and _BEGINS_JSON.match(text)):
        content = read_json(text, where)
        if isinstance(content, list):
            return Form.LIST, content
        document = as_table(content)
        return _by_keys("JSON", "", document, where), document
    if suffix == ".json":
        raise refuse(Problem(where, "it is not JSON", MAKE_AGAIN))
    if suffix not in _TOML:
        is_pasted = pasted.is_pasted(text, typed=name == STDIN)
        if not is_pasted:
            pasted.refuse_traceback(text, where)
        return (Form.PASTED if is_pasted else Form.REQUIREMENTS), text
    if is_too_deep(text):
        raise refuse(Problem(where, "a key has more than 200 parts", _NAME_ANOTHER))
    document = _without_files(text) or read_table(text, where, MAKE_AGAIN)
    form = _by_keys("TOML", Form.PYLOCK if _PYLOCK.fullmatch(name) else name, document, where)
    # `packaging` validates a lock of PEP 751 as a whole, files included.
    return form, read_table(text, where, MAKE_AGAIN) if form is Form.PYLOCK else document


def _by_keys(language: str, name: str, document: Table, where: str) -> Form:
    """Return the format that a file has by its name, or by keys that only one format has."""
    inner = as_table(document.get("metadata"))
    keys = {*document, *(f"metadata.{key}" for key in inner)}
    for form, own in _KEYS[language]:
        if name == form or own <= keys:
            return form
    first = ", ".join([shorten(key, SHORT) for key in list(document)[:5]]) or "nothing"
    what = f"it is {language}, and not of a tool that is known (it starts with {first})"
    raise refuse(Problem(where, what, _NAME_ANOTHER))


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
    gathered = Gathering(str(python), environment.markers, python=environment.python)
    for name, version in environment.pins.items():
        gathered.pin(name, version)
    return gathered.installed("interpreter")


# YAML and JSON that others wrote, as plain values: bounded in time, memory and depth

_MOST = 1_500_000
"""Values of a YAML file, for two seconds of reading; a lock of 10 MB has half a million."""
_DEEPEST = 100
_SURROGATE = re.compile(r"\\u[dD][89abAB]")


def read_yaml(text: str, where: str) -> object:
    """Return the lists, mappings and texts of a YAML document; every scalar is a text.

    So the version 1.10 stays what it is. Raises RunnerError with the line.
    """
    import yaml  # noqa: PLC0415 - most files do without

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return _built(yaml.parse(text, Loader=loader), where)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "context", None)
        at = f"{where}: line {mark.line + 1}" if mark else where
        reason = reason or getattr(error, "reason", "unknown")
        raise refuse(Problem(at, f"invalid YAML: {reason}", MAKE_AGAIN)) from error


def _built(events: Iterable[Any], where: str) -> object:
    """Put the events of a parser together, without a call per depth."""
    stack = list[list[Any]]([[]])
    for count, event in enumerate(events):
        kind = type(event).__name__
        if kind == "ScalarEvent":
            stack[-1].append(event.value)
        elif kind in {"SequenceStartEvent", "MappingStartEvent"}:
            stack.append([])
        elif kind == "SequenceEndEvent":
            stack[-2].append(stack.pop())
        elif kind == "MappingEndEvent":
            items = stack.pop()
            pairs = zip(items[::2], items[1::2], strict=True)
            stack[-1].append({key: value for key, value in pairs if isinstance(key, str)})
        elif kind == "AliasEvent" or (kind == "DocumentStartEvent" and stack[0]):
            raise _refused(event, where, *_ALIAS if kind == "AliasEvent" else _SECOND)
        if count >= _MOST or len(stack) > _DEEPEST:
            raise _refused(event, where, *_TOO_DEEP if count < _MOST else _TOO_MANY)
    return stack[0][0] if stack[0] else None


_ALIAS = "the alias `*{}` cannot be read", "Write out what it stands for."
"""No tool writes one into a lock, and a file of a few lines can stand for billions with them."""
_SECOND = "a second document begins here", "Make a file for each environment."
_TOO_DEEP = "it is nested too deeply", "Check that it is a lock."
_TOO_MANY = f"the file has more than {_MOST:,} values", "Check that it is a lock."


def _refused(event: Any, where: str, what: str, fix: str) -> RunnerError:  # noqa: ANN401 - of either parser
    what = what.format(shorten(str(getattr(event, "anchor", "")), SHORT))
    return refuse(Problem(f"{where}: line {event.start_mark.line + 1}", what, fix))


def read_json(text: str, where: str) -> object:
    """Return what a JSON document holds; raises RunnerError with the line."""
    try:
        value = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        at = f"{where}: line {error.lineno}"
        raise refuse(Problem(at, f"invalid JSON: {error.msg}", MAKE_AGAIN)) from error
    except UnicodeEncodeError as error:
        what = "invalid JSON: half of a character (an unpaired surrogate)"
        raise refuse(Problem(where, what, MAKE_AGAIN)) from error
    except ValueError as error:  # a number of 5,000 digits
        raise refuse(Problem(where, f"invalid JSON: {error}", MAKE_AGAIN)) from error
    except RecursionError as error:
        raise refuse(Problem(where, "it is nested too deeply", MAKE_AGAIN)) from error
    return value
