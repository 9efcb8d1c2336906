"""Sets of packages as SBOMs and `pip inspect` list them, in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from repromatrix.runner.audit.conda import on_pypi
from repromatrix.runner.audit.packages import (
    MAKE_AGAIN,
    SHORT,
    Gathering,
    Table,
    is_selected,
    other_version,
    tables,
)
from repromatrix.runner.errors import InvalidValue, Problem, refuse
from repromatrix.runner.text import shorten

_CYCLONEDX = re.compile(r"1\.\d{1,2}")
_SPDX = re.compile(r"(SPDX-2|3\.0)\.\d{1,2}")
_MARKER = "uv:package:marker"
"""The property in which uv says for whom a component is."""
_VARIABLES = (
    *("os_name", "sys_platform", "platform_machine", "platform_system"),
    *("python_version", "python_full_version"),
)
_PYTHON = re.compile(r"\d{1,3}\.\d{1,3}(\.\d{1,3})?((a|b|rc)\d{1,3})?\+?")


def read_cyclonedx(document: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return the packages of PyPI and conda in a CycloneDX SBOM; raises RunnerError."""
    version = document.get("specVersion")
    if not _CYCLONEDX.fullmatch(str(version)):
        fix = "Write it as one of these."
        raise other_version(where, "specVersion", version, "1.x", fix)
    gathered = Gathering()
    components = tables(document.get("components"))
    for component in components:  # grows: a component has components of its own
        components += tables(component.get("components"))
        if component.get("scope") != "excluded":
            purl, listed = component.get("purl"), component.get("version")
            _take(gathered, purl, listed, (_marker(component), markers, where))
    return gathered


def _marker(component: Table) -> object:
    properties = tables(component.get("properties"))
    return next((row.get("value") for row in properties if row.get("name") == _MARKER), "")


def read_spdx(document: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return the packages of PyPI and conda in an SPDX SBOM, version 2 or 3; raises RunnerError."""
    inner = document.get("sbom")  # as the API of GitHub wraps it
    document = inner if isinstance(inner, dict) else document
    graph = tables(document.get("@graph"))
    version = document.get("spdxVersion", next(_versions_of(graph), None))
    if not _SPDX.fullmatch(str(version)):
        fix = "Write it as one of these."
        raise other_version(where, "spdxVersion", version, "SPDX-2 and 3.0", fix)
    gathered = Gathering()
    for package in tables(document.get("packages")):
        references = tables(package.get("externalRefs"))
        purls = [row for row in references if row.get("referenceType") == "purl"]
        purl = purls[0].get("referenceLocator") if purls else ""
        _take(gathered, purl, package.get("versionInfo"), ("", markers, where))
    for element in graph:
        purl, listed = element.get("software_packageUrl"), element.get("software_packageVersion")
        _take(gathered, purl, listed, ("", markers, where))
    return gathered


def _versions_of(graph: list[Table]) -> Iterator[object]:
    return (element["specVersion"] for element in graph if "specVersion" in element)


def _take(
    gathered: Gathering,
    purl: object,
    listed: object,
    held: tuple[object, Mapping[str, str], str],
) -> None:
    """Note a package by its URL, if its marker holds; its version may stand beside it."""
    from packageurl import PackageURL  # noqa: PLC0415 - other formats do without

    if not isinstance(purl, str) or not purl:
        return
    try:
        found = PackageURL.from_string(purl)
    except ValueError as error:
        what = f"{shorten(purl, 2 * SHORT)!r} is not a package URL"
        raise refuse(Problem(held[2], what, MAKE_AGAIN)) from error
    if found.type not in {"pypi", "conda"}:
        return
    name = on_pypi(found.name) if found.type == "conda" else found.name
    version = found.version or (listed if isinstance(listed, str) else "")
    if not is_selected(gathered, {"name": name, "version": version}, *held):
        return
    address = "vcs_url" if "vcs_url" in found.qualifiers else ""
    if version or address:
        gathered.take(name, version, address)
    else:
        gathered.leave(name, "any version, not a pin")


def read_inspected(document: Table, where: str) -> Gathering:
    """Return the packages that `pip inspect` found, and the platform that it ran on.

    Raises RunnerError where the text is something else.
    """
    if document.get("version") != "1":
        raise other_version(
            where, "version", document.get("version"), "1", "Make it with pip 22.2 or newer."
        )
    gathered = Gathering()
    installed = tables(document.get("installed"))
    if not installed:
        raise refuse(Problem(where, "it has no packages", MAKE_AGAIN))
    for number, item in enumerate(installed):
        metadata = item.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        name, version = metadata.get("name"), metadata.get("version")
        if not isinstance(name, str) or not isinstance(version, str):
            at = f"{where}: installed[{number}]"
            raise refuse(Problem(at, "it has no name or no version", MAKE_AGAIN))
        direct = item.get("direct_url")
        found = {"vcs_info", "dir_info"} & {*direct} if isinstance(direct, dict) else set[str]()
        gathered.take(name, version, next(iter(found), ""))
    environment = document.get("environment")
    gathered.markers = _environment(environment if isinstance(environment, dict) else {}, where)
    gathered.python = gathered.markers.get("python_version", "")
    return gathered


def _environment(variables: Table, where: str) -> Mapping[str, str]:
    """Return the marker variables that decide here, those of versions only if they are some."""
    found = {name: str(variables[name]) for name in _VARIABLES if name in variables}
    for name in ("python_version", "python_full_version"):
        if name in found and not _PYTHON.fullmatch(found[name]):
            raise refuse(InvalidValue(f"{where}: environment.{name}", found[name], "a version"))
    return found
