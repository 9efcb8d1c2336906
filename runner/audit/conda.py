"""Sets of packages as the tools of conda write them: its names, versions and platforms."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from packaging.utils import canonicalize_name

from repromatrix.runner.audit.packages import (
    MAKE_AGAIN,
    SHORT,
    Gathering,
    Open,
    Table,
    as_list,
    other_version,
    read_requirements,
    tables,
)
from repromatrix.runner.errors import InvalidValue, Problem, refuse
from repromatrix.runner.text import join, shorten

_ON_PYPI = {
    "pytorch": "torch",
    "pytorch-cpu": "torch",
    "pytorch-gpu": "torch",
    "torchtriton": "triton",
}
"""Packages with another name on PyPI; those that decide a case have no other differences."""
_PLATFORMS = {
    "linux-64": ("linux", "x86_64"),
    "linux-aarch64": ("linux", "aarch64"),
    "linux-ppc64le": ("linux", "ppc64le"),
    "osx-64": ("darwin", "x86_64"),
    "osx-arm64": ("darwin", "arm64"),
    "win-64": ("win32", "AMD64"),
    "win-arm64": ("win32", "ARM64"),
}
"""By the name that conda has for a platform, `sys_platform` and `platform_machine`."""
_SYSTEMS = {"linux": ("posix", "Linux"), "darwin": ("posix", "Darwin"), "win32": ("nt", "Windows")}
_PIXI = {"4", "5", "6", "7"}
_DEFAULT = "default"
_MANY = 10


# The locks of conda-lock and pixi


def read_conda_lock(document: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return the packages of a `conda-lock.yml`; raises RunnerError where it is none.

    They are those of this machine's platform, or of the only one that it holds.
    """
    if document.get("version") != "1":
        version, fix = document.get("version"), "Lock it with conda-lock 1 or newer."
        raise other_version(where, "version", version, "1", fix)
    rows = [row for row in tables(document.get("package")) if isinstance(row.get("name"), str)]
    names = {name: name for name in dict.fromkeys(str(row.get("platform")) for row in rows)}
    if not rows:
        raise refuse(Problem(where, "it has no packages", MAKE_AGAIN))
    here = _platform(names, where, markers)
    gathered = Gathering(conditional=len(names) > 1)
    for row in rows:
        package = _of_row(row)
        if row.get("platform") == here:
            _take(gathered, package)
        else:
            gathered.pass_over(package.on_pypi, package.version, str(row.get("platform")))
    return _for(gathered, here)


class _Package(NamedTuple):
    name: str
    version: str
    is_conda: bool = True
    address: str = ""
    """What kind of address it comes from, if from no index."""

    @property
    def on_pypi(self) -> str:
        return on_pypi(self.name) if self.is_conda else self.name


def on_pypi(name: str) -> str:
    """Return the name that a package of conda has on PyPI."""
    canonical = canonicalize_name(name)
    return _ON_PYPI.get(canonical, canonical)


def _of_row(row: Table) -> _Package:
    name, version, url = (str(row.get(key, "")) for key in ("name", "version", "url"))
    if row.get("manager") == "pip":
        return _Package(name, version, is_conda=False, address=_address(url))
    return _Package(name, version)


def _address(url: str) -> str:
    """Return the kind of an address that is no file of an index."""
    scheme, _, rest = url.partition("://")
    if not rest:
        return "path" if url else ""
    return "" if scheme in {"https", "http"} else shorten(scheme, SHORT)


def _take(gathered: Gathering, package: _Package) -> None:
    if package.is_conda and canonicalize_name(package.name) == "python":
        found = re.match(r"\d{1,3}\.\d{1,3}", package.version)
        gathered.python = found[0] if found else ""
    else:
        gathered.take(package.on_pypi, package.version, package.address)


def read_pixi(
    document: Table, where: str, markers: Mapping[str, str], environment: str = ""
) -> Gathering:
    """Return the packages of one environment of a `pixi.lock`; raises RunnerError.

    Without a name that is `default`, or the only environment that it holds.
    """
    if document.get("version") not in _PIXI:
        version, fix = document.get("version"), "Lock it with another pixi."
        raise other_version(where, "version", version, "4 to 7", fix)
    environments = _tables_of(document.get("environments"))
    name = _environment(environments, where, environment)
    by_platform = _packages_of(environments[name])
    subdirs = _subdirs(document, by_platform)
    here = _platform(subdirs, where, markers)
    lock = _PixiLock(document, where)
    gathered = Gathering(conditional=len(by_platform) > 1 or len(environments) > 1)
    for package in lock.packages(by_platform[here]):
        _take(gathered, package)
    for marker, references in _others(environments, name, here):
        for package in lock.packages(references):
            gathered.pass_over(package.on_pypi, package.version, marker)
    return _for(gathered, subdirs[here])


def _others(environments: Table, name: str, here: str) -> Iterator[tuple[str, object]]:
    """Yield what is for other platforms, and what other environments have for this one."""
    for platform, references in _packages_of(environments[name]).items():
        if platform != here:
            yield platform, references
    for other, environment in environments.items():
        if other != name:
            yield f"environment {other}", _packages_of(environment).get(here)


class _PixiLock:
    """The packages of a lock by what environments call them."""

    def __init__(self, document: Table, where: str) -> None:
        self.where = where
        self.known: dict[str, Table] = {}
        for row in tables(document.get("packages")):
            kind = row.get("kind")  # of versions 4 and 5
            place = row.get("url", row.get("path")) if kind else next(iter(row.values()), "")
            self.known[str(place)] = row

    def packages(self, references: object) -> Iterator[_Package]:
        for reference in tables(references):
            kind, place = next(((str(k), str(v)) for k, v in reference.items()), ("", ""))
            row = self.known.get(place)
            if row is None:
                what = f"it has no package for {shorten(place, 2 * SHORT)!r} of an environment"
                raise refuse(Problem(self.where, what, MAKE_AGAIN))
            yield _of_reference(kind, place, row)


def _of_reference(kind: str, place: str, row: Table) -> _Package:
    if kind == "pypi":
        name, version = str(row.get("name", "")), str(row.get("version", ""))
        address = "path" if row.get("editable") == "true" else _address(place)
        return _Package(name, version, is_conda=False, address=address)
    if kind == "conda_source":  # `name[hash] @ place`
        return _Package(place.partition("[")[0], "", address="source")
    file = unquote(place.partition("#")[0].rpartition("/")[2])
    stem = file.removesuffix(".conda").removesuffix(".tar.bz2")
    if stem != file and stem.count("-") > 1:
        name, version, _ = stem.rsplit("-", 2)
        return _Package(str(row.get("name", name)), str(row.get("version", version)))
    return _Package(str(row.get("name", "")), str(row.get("version", "")), address="source")


def _environment(environments: Table, where: str, asked: str) -> str:
    names = list(environments)
    if not names:
        raise refuse(Problem(where, "it has no environments", MAKE_AGAIN))
    more = [f"{len(names) - _MANY} more"] if len(names) > _MANY else []
    shown = [*(shorten(name, SHORT) for name in names[:_MANY]), *more]
    if asked and asked not in names:
        raise refuse(InvalidValue("--environment", asked, f"{join(shown, 'or')}, in {where}"))
    if not asked and _DEFAULT not in names and len(names) > 1:
        what = f"it holds several environments: {join(shown)}"
        raise refuse(Problem(where, what, "Name one with --environment."))
    return asked or (_DEFAULT if _DEFAULT in names else names[0])


def _packages_of(environment: object) -> Table:
    packages = environment.get("packages") if isinstance(environment, dict) else None
    return packages if isinstance(packages, dict) else {}


def _tables_of(value: object) -> Table:
    named = value.items() if isinstance(value, dict) else ()
    return {key: table for key, table in named if isinstance(table, dict)}


def _subdirs(document: Table, names: Collection[str]) -> dict[str, str]:
    """Return conda's name of a platform by what a lock calls it: version 7 allows own names."""
    own = {
        str(row.get("name")): str(row.get("subdir", row.get("name")))
        for row in tables(document.get("platforms"))
    }
    return {name: own.get(name, name) for name in names}


def _platform(subdirs: Mapping[str, str], where: str, markers: Mapping[str, str]) -> str:
    """Return which of the platforms of a lock is read: this machine's, or the only one."""
    here = _here(markers)
    for name, subdir in subdirs.items():
        if subdir == here or len(subdirs) == 1:
            return name
    held = join([shorten(name, SHORT) for name in list(subdirs)[:_MANY]] or ["no platform"])
    fix = "Run audit on one of these platforms, or lock it for this one, too."
    raise refuse(Problem(where, f"it holds packages for {held}, but not for {here}", fix))


def _here(markers: Mapping[str, str]) -> str:
    mine = markers.get("sys_platform", ""), markers.get("platform_machine", "")
    return next((name for name, other in _PLATFORMS.items() if other == mine), "-".join(mine))


def _for(gathered: Gathering, subdir: str) -> Gathering:
    """Note the platform and the Python that a set of packages is for."""
    python = gathered.python
    found = {"python_version": python, "python_full_version": f"{python}.0"} if python else {}
    if subdir in _PLATFORMS:
        system, machine = _PLATFORMS[subdir]
        os_name, platform_system = _SYSTEMS[system]
        found |= {"sys_platform": system, "platform_machine": machine}
        found |= {"os_name": os_name, "platform_system": platform_system}
    gathered.markers = found
    return gathered


# What conda is asked for

_NAME = re.compile(r"[\w.-]+")
_RANGE = frozenset("<>!~*,|[]")
_PARTS = 3


def read_environment(
    document: Table, where: str, markers: Mapping[str, str], opened: Open
) -> Gathering:
    """Return the packages of an `environment.yml`; raises RunnerError where it is none.

    conda reads `=2.6` as any 2.6: only a version of three parts, one with a build, or one behind
    `==` is a pin.
    """
    specs, lines = list[str](), list[str]()
    for item in as_list(document.get("dependencies")):
        if isinstance(item, str):
            specs.append(item)
        elif isinstance(item, dict):
            lines += [line for line in as_list(item.get("pip")) if isinstance(line, str)]
    if not specs and not lines:
        raise refuse(Problem(where, "it has no dependencies", MAKE_AGAIN))
    asked = Gathering()
    for number, spec in enumerate(specs, 1):
        _asked(asked, spec, f"{where}: dependency {number}")
    _for(asked, "")
    at = f"{where}: pip"
    gathered = read_requirements("\n".join(lines), at, {**markers, **asked.markers}, opened)
    gathered.python, gathered.markers = asked.python, asked.markers
    for name, versions in asked.versions.items():
        gathered.versions.setdefault(name, set()).update(versions)
    gathered.loose = asked.loose | gathered.loose
    return gathered


def _asked(gathered: Gathering, spec: str, where: str) -> None:
    """Read one dependency: a name, and behind `=` or a blank a version and a build."""
    text = spec.rpartition("::")[2].strip()
    found = _NAME.match(text)
    if found is None:
        what = f"cannot read {shorten(spec, 60)!r}"
        raise refuse(Problem(where, what, "A dependency is a package, such as `name=1.2.3`."))
    name, wanted = found[0], text[found.end() :].strip()
    version, *build = re.split(r"[=\s]+", wanted.lstrip("= "))
    is_pin = bool(version) and not _RANGE & set(version)
    is_prefix = wanted[:1] == "=" != wanted[1:2] and version.count(".") < _PARTS - 1 and not build
    if is_pin and (not is_prefix or canonicalize_name(name) == "python"):
        _take(gathered, _Package(name, version))
    else:
        what = shorten(wanted, SHORT) or "any version"
        gathered.leave(on_pypi(name), f"{what}, not a pin")


# What `conda list --json` prints


def read_conda_list(rows: list[object], where: str) -> Gathering:
    """Return the packages that `conda list --json` prints, or `pip list --format json`."""
    gathered = Gathering()
    if not rows:
        raise refuse(Problem(where, "it has no packages", MAKE_AGAIN))
    for number, row in enumerate(rows, 1):
        name, version = (row.get("name"), row.get("version")) if isinstance(row, dict) else (0, 0)
        if not isinstance(row, dict) or not isinstance(name, str) or not isinstance(version, str):
            at = f"{where}: package {number}"
            raise refuse(Problem(at, "it has no name or no version", MAKE_AGAIN))
        origin = row.get("channel", row.get("kind"))
        is_local = origin == "<develop>" or "editable_project_location" in row
        address = "editable" if is_local else ""
        is_conda = isinstance(origin, str) and origin not in {"pypi", "<develop>"}
        _take(gathered, _Package(name, version, is_conda=is_conda, address=address))
    return _for(gathered, "")
