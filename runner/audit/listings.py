"""Sets of packages as the tools of conda, SBOMs and pip list them, in YAML and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from packaging.utils import canonicalize_name

from repromatrix.runner.audit.packages import (
    MAKE_AGAIN,
    SHORT,
    Gathering,
    Table,
    as_list,
    as_table,
    other_version,
    read_requirements,
    tables,
)
from repromatrix.runner.errors import InvalidValue, Problem, refuse
from repromatrix.runner.text import first_few, join, shorten

# What conda has: its names and platforms

ON_PYPI = {
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


class _Package(NamedTuple):
    name: str
    version: str
    is_conda: bool = True
    address: str = ""
    """What kind of address it comes from, if from no index."""

    @property
    def on_pypi(self) -> str:
        return on_pypi(self.name) if self.is_conda else self.name

    def take(self, gathered: Gathering) -> None:
        """Note it; conda installs Python as a package."""
        if self.is_conda and canonicalize_name(self.name) == "python":
            found = re.match(r"\d{1,3}\.\d{1,3}", self.version)
            gathered.python = found[0] if found else ""
        else:
            gathered.take(self.on_pypi, self.version, address=self.address)


def on_pypi(name: str) -> str:
    """Return the name that a package of conda has on PyPI."""
    canonical = canonicalize_name(name)
    return ON_PYPI.get(canonical, canonical)


def _address(url: str) -> str:
    """Return the kind of an address that is no file of an index."""
    scheme, _, rest = url.partition("://")
    if not rest:
        return "path" if url else ""
    return "" if scheme in {"https", "http"} else shorten(scheme, SHORT)


def _platform(subdirs: Mapping[str, str], gathered: Gathering) -> str:
    """Return which of the platforms of a lock is read: this machine's, or the only one."""
    mine = tuple(gathered.markers.get(key, "") for key in ("sys_platform", "platform_machine"))
    here = next((name for name, other in _PLATFORMS.items() if other == mine), "-".join(mine))
    for name, subdir in subdirs.items():
        if subdir == here or len(subdirs) == 1:
            return name
    held = join([shorten(name, SHORT) for name in list(subdirs)[:_MANY]] or ["no platform"])
    fix = "Run audit on one of these platforms, or lock it for this one, too."
    what = f"it holds packages for {held}, but not for {here}"
    raise refuse(Problem(gathered.where, what, fix))


def _note_platform(gathered: Gathering, subdir: str = "") -> None:
    """Note the platform and the Python that a set of packages is for."""
    python, markers = gathered.python, dict(gathered.markers)
    if python:
        markers |= {"python_version": python, "python_full_version": f"{python}.0"}
    if subdir in _PLATFORMS:
        system, machine = _PLATFORMS[subdir]
        os_name, platform_system = _SYSTEMS[system]
        markers |= {"sys_platform": system, "platform_machine": machine}
        markers |= {"os_name": os_name, "platform_system": platform_system}
    gathered.markers = markers


def read_conda_lock(document: Table, gathered: Gathering) -> None:
    """Read a `conda-lock.yml` for this machine's platform, or for the only one that it holds.

    Raises RunnerError where it is no such lock.
    """
    if document.get("version") != "1":
        version, fix = document.get("version"), "Lock it with conda-lock 1 or newer."
        raise other_version(gathered.where, "version", version, "1", fix)
    rows = [row for row in tables(document.get("package")) if isinstance(row.get("name"), str)]
    if not rows:
        raise refuse(Problem(gathered.where, "it has no packages", MAKE_AGAIN))
    names = dict.fromkeys(str(row.get("platform")) for row in rows)
    here = _platform({name: name for name in names}, gathered)
    gathered.conditional = len(names) > 1
    for row in rows:
        name, version, url = (str(row.get(key, "")) for key in ("name", "version", "url"))
        is_pip = row.get("manager") == "pip"
        package = _Package(name, version, not is_pip, _address(url) if is_pip else "")
        if row.get("platform") == here:
            package.take(gathered)
        else:
            gathered.pass_over(package.on_pypi, package.version, str(row.get("platform")))
    _note_platform(gathered, here)


def read_pixi(document: Table, gathered: Gathering, environment: str = "") -> None:
    """Read one environment of a `pixi.lock`; raises RunnerError.

    Without a name that is `default`, or the only environment that it holds.
    """
    if document.get("version") not in _PIXI:
        version, fix = document.get("version"), "Lock it with another pixi."
        raise other_version(gathered.where, "version", version, "4 to 7", fix)
    environments = {
        name: as_table(each.get("packages"))
        for name, each in as_table(document.get("environments")).items()
        if isinstance(each, dict)
    }
    name = _environment(list(environments), gathered.where, environment)
    by_platform = environments[name]
    subdirs = {  # conda's names: version 7 allows own ones
        str(row.get("name")): str(row.get("subdir", row.get("name")))
        for row in tables(document.get("platforms"))
    }
    subdirs = {platform: subdirs.get(platform, platform) for platform in by_platform}
    here = _platform(subdirs, gathered)
    rows = _rows_of(document)
    gathered.conditional = len(by_platform) > 1 or len(environments) > 1
    for package in _referred(by_platform[here], rows, gathered.where):
        package.take(gathered)
    others = [(platform, each) for platform, each in by_platform.items() if platform != here]
    others += [
        (f"environment {other}", environments[other].get(here))
        for other in environments
        if other != name
    ]
    for marker, references in others:
        for package in _referred(references, rows, gathered.where):
            gathered.pass_over(package.on_pypi, package.version, marker)
    _note_platform(gathered, subdirs[here])


def _environment(names: list[str], where: str, asked: str) -> str:
    """Return the environment of a `pixi.lock` that is asked for, or that stands for all."""
    if not names:
        raise refuse(Problem(where, "it has no environments", MAKE_AGAIN))
    shown = first_few([shorten(name, SHORT) for name in names], _MANY)
    if asked and asked not in names:
        raise refuse(InvalidValue("--environment", asked, f"{join(shown, 'or')}, in {where}"))
    if not asked and _DEFAULT not in names and len(names) > 1:
        what = f"it holds several environments: {join(shown)}"
        raise refuse(Problem(where, what, "Name one with --environment."))
    return asked or (_DEFAULT if _DEFAULT in names else names[0])


def _rows_of(document: Table) -> dict[str, Table]:
    rows: dict[str, Table] = {}
    for row in tables(document.get("packages")):
        kind = row.get("kind")  # of versions 4 and 5
        place = row.get("url", row.get("path")) if kind else next(iter(row.values()), "")
        rows[str(place)] = row
    return rows


def _referred(references: object, rows: Mapping[str, Table], where: str) -> Iterator[_Package]:
    """Yield the packages that an environment of a `pixi.lock` refers to."""
    for reference in tables(references):
        kind, place = next(((str(k), str(v)) for k, v in reference.items()), ("", ""))
        if place not in rows:
            what = f"it has no package for {shorten(place, 2 * SHORT)!r} of an environment"
            raise refuse(Problem(where, what, MAKE_AGAIN))
        row = rows[place]
        name, version = str(row.get("name", "")), str(row.get("version", ""))
        file = unquote(place.partition("#")[0].rpartition("/")[2])
        stem = file.removesuffix(".conda").removesuffix(".tar.bz2")
        if kind == "pypi":
            address = "path" if row.get("editable") == "true" else _address(place)
            yield _Package(name, version, is_conda=False, address=address)
        elif kind == "conda_source":  # `name[hash] @ place`
            yield _Package(place.partition("[")[0], "", address="source")
        elif stem != file and stem.count("-") > 1:
            in_name, in_version, _ = stem.rsplit("-", 2)
            yield _Package(name or in_name, version or in_version)
        else:
            yield _Package(name, version, address="source")


_NAME = re.compile(r"[\w.-]+")
_RANGE = frozenset("<>!~*,|[]")
_PARTS = 3


def read_environment(document: Table, gathered: Gathering) -> None:
    """Read an `environment.yml`; raises RunnerError where it is none.

    conda reads `=2.6` as any 2.6: only a version of three parts, one with a build, or one behind
    `==` is a pin.
    """
    dependencies = as_list(document.get("dependencies"))
    specs = [item for item in dependencies if isinstance(item, str)]
    lists = [as_list(item.get("pip")) for item in tables(dependencies)]
    lines = [line for lines in lists for line in lines if isinstance(line, str)]
    if not specs and not lines:
        raise refuse(Problem(gathered.where, "it has no dependencies", MAKE_AGAIN))
    for number, spec in enumerate(specs, 1):
        _read_spec(spec, gathered, f"{gathered.where}: dependency {number}")
    _note_platform(gathered)
    read_requirements("\n".join(lines), gathered, f"{gathered.where}: pip")


def _read_spec(spec: str, gathered: Gathering, where: str) -> None:
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
        _Package(name, version).take(gathered)
    else:
        gathered.leave(on_pypi(name), f"{shorten(wanted, SHORT) or 'any version'}, not a pin")


def read_list(rows: list[object], gathered: Gathering) -> None:
    """Read what `conda list --json` or `pip list --format json` prints; raises RunnerError."""
    if not rows:
        raise refuse(Problem(gathered.where, "it has no packages", MAKE_AGAIN))
    for number, each in enumerate(rows, 1):
        row = as_table(each)
        name, version = _named(row, f"{gathered.where}: package {number}")
        origin = row.get("channel", row.get("kind"))
        is_local = origin == "<develop>" or "editable_project_location" in row
        is_conda = isinstance(origin, str) and origin not in {"pypi", "<develop>"}
        _Package(name, version, is_conda, "editable" if is_local else "").take(gathered)
    _note_platform(gathered)


def _named(row: Table, where: str) -> tuple[str, str]:
    name, version = row.get("name"), row.get("version")
    if not isinstance(name, str) or not isinstance(version, str):
        raise refuse(Problem(where, "it has no name or no version", MAKE_AGAIN))
    return name, version


# SBOMs

_CYCLONEDX = re.compile(r"1\.\d{1,2}")
_SPDX = re.compile(r"(SPDX-2|3\.0)\.\d{1,2}")
_MARKER = "uv:package:marker"
"""The property in which uv says for whom a component is."""
_WRITE_AGAIN = "Write it as one of these."


def read_cyclonedx(document: Table, gathered: Gathering) -> None:
    """Read the packages of PyPI and conda in a CycloneDX SBOM; raises RunnerError."""
    version = document.get("specVersion")
    if not _CYCLONEDX.fullmatch(str(version)):
        raise other_version(gathered.where, "specVersion", version, "1.x", _WRITE_AGAIN)
    components = tables(document.get("components"))
    for component in components:  # grows: a component has components of its own
        components += tables(component.get("components"))
        properties = tables(component.get("properties"))
        markers = (row.get("value") for row in properties if row.get("name") == _MARKER)
        if component.get("scope") != "excluded":
            purl, version = component.get("purl"), component.get("version")
            _take_purl(gathered, purl, version, next(markers, ""))


def read_spdx(document: Table, gathered: Gathering) -> None:
    """Read the packages of PyPI and conda in an SPDX SBOM, version 2 or 3; raises RunnerError."""
    inner = document.get("sbom")  # as the API of GitHub wraps it
    document = inner if isinstance(inner, dict) else document
    graph = tables(document.get("@graph"))
    versions = (element["specVersion"] for element in graph if "specVersion" in element)
    version = document.get("spdxVersion", next(versions, None))
    if not _SPDX.fullmatch(str(version)):
        raise other_version(gathered.where, "spdxVersion", version, "SPDX-2 and 3.0", _WRITE_AGAIN)
    for package in tables(document.get("packages")):
        references = tables(package.get("externalRefs"))
        purls = [row for row in references if row.get("referenceType") == "purl"]
        purl = purls[0].get("referenceLocator") if purls else ""
        _take_purl(gathered, purl, package.get("versionInfo"))
    for element in graph:
        purl, listed = element.get("software_packageUrl"), element.get("software_packageVersion")
        _take_purl(gathered, purl, listed)


def _take_purl(gathered: Gathering, purl: object, listed: object, marker: object = "") -> None:
    """Note a package by its URL; its version may stand beside it."""
    from packageurl import PackageURL  # noqa: PLC0415 - other formats do without

    if not isinstance(purl, str) or not purl:
        return
    try:
        found = PackageURL.from_string(purl)
    except ValueError as error:
        what = f"{shorten(purl, 2 * SHORT)!r} is not a package URL"
        raise refuse(Problem(gathered.where, what, MAKE_AGAIN)) from error
    if found.type in {"pypi", "conda"}:
        name = on_pypi(found.name) if found.type == "conda" else found.name
        version = found.version or (listed if isinstance(listed, str) else "")
        address = "vcs_url" if "vcs_url" in found.qualifiers else ""
        gathered.take(name, version, address=address, marker=marker)


# What `pip inspect` prints

_VARIABLES = (
    *("os_name", "sys_platform", "platform_machine", "platform_system"),
    *("python_version", "python_full_version"),
)
"""The marker variables that decide here."""
_PYTHON = re.compile(r"\d{1,3}\.\d{1,3}(\.\d{1,3})?((a|b|rc)\d{1,3})?\+?")


def read_inspected(document: Table, gathered: Gathering) -> None:
    """Read the packages that `pip inspect` found, and the platform that it ran on.

    Raises RunnerError where the text is something else.
    """
    where, version = gathered.where, document.get("version")
    if version != "1":
        raise other_version(where, "version", version, "1", "Make it with pip 22.2 or newer.")
    installed = tables(document.get("installed"))
    if not installed:
        raise refuse(Problem(where, "it has no packages", MAKE_AGAIN))
    for number, item in enumerate(installed):
        name, version = _named(as_table(item.get("metadata")), f"{where}: installed[{number}]")
        kinds = [
            kind for kind in ("vcs_info", "dir_info") if kind in as_table(item.get("direct_url"))
        ]
        gathered.take(name, version, address=kinds[0] if kinds else "")
    environment = as_table(document.get("environment"))
    variables = {name: str(environment[name]) for name in _VARIABLES if name in environment}
    for name in ("python_version", "python_full_version"):
        if name in variables and not _PYTHON.fullmatch(variables[name]):
            value = variables[name]
            raise refuse(InvalidValue(f"{where}: environment.{name}", value, "a version"))
    gathered.markers = {**gathered.markers, **variables}
    gathered.python = variables.get("python_version", "")
