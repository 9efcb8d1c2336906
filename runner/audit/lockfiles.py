"""`uv.lock`, `poetry.lock` and `pylock.toml`: the packages that this platform would install."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName

from repromatrix.runner.audit.packages import SHORT, Gathering
from repromatrix.runner.errors import Problem, RunnerError, refuse
from repromatrix.runner.text import shorten

Table = dict[str, Any]
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_NO_MARKER = (ValueError, UndefinedComparison, UndefinedEnvironmentName, RecursionError)
"""What the evaluation of a marker raises, for example for a number of 5,000 digits."""
_LONGEST = 16_000
"""Characters of a marker; uv writes some that have a thousand."""
_MAKE_AGAIN = "The file may be cut off: make it again."
_LOCAL = {"editable", "virtual", "directory", "path"}


def read_pylock(table: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return the packages of a `pylock.toml` (PEP 751); raises RunnerError where it is none."""
    from packaging.pylock import (  # noqa: PLC0415 - other formats do without
        Pylock,
        PylockUnsupportedVersionError,
        PylockValidationError,
    )

    try:
        lock = Pylock.from_dict(table)
    except (PylockValidationError, PylockUnsupportedVersionError, RecursionError) as error:
        raise refuse(Problem(where, f"it is not a lock of PEP 751, version 1 ({error})")) from error
    gathered = Gathering()
    here: dict[str, Any] = {
        **markers,
        "extras": set(lock.extras or ()),
        "dependency_groups": {*(lock.dependency_groups or ()), *(lock.default_groups or ())},
    }
    gathered.conditional = any(package.marker is not None for package in lock.packages)
    for package in lock.packages:
        if package.marker is not None and not _selects(package.marker, here, where):
            gathered.pass_over(package.name, package.version, str(package.marker))
        elif package.version is None or package.is_direct:
            gathered.leave(package.name, "an address, not a version")
        else:
            gathered.pin(package.name, str(package.version))
    return gathered


def _selects(marker: Marker, here: dict[str, Any], where: str) -> bool:
    try:
        return marker.evaluate(here, context="lock_file")
    except _NO_MARKER as error:
        raise _bad_marker(where, str(marker), "PEP 751", error) from error


def read_poetry(table: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return the packages of a `poetry.lock`; raises RunnerError where it is none."""
    metadata = table.get("metadata")
    if not isinstance(metadata, dict) or "lock-version" not in metadata:
        what = "it has no `lock-version` below `metadata`"
        raise refuse(Problem(where, what, "Lock it with poetry 1.1 or newer."))
    gathered = Gathering()
    for package in _packages(table, where):
        value = package.get("markers", "")
        texts = list(value.values()) if isinstance(value, dict) else [value]
        gathered.conditional = gathered.conditional or any(texts)
        if not any(_holds(text, markers, where) for text in texts):
            marker = " or ".join(map(str, texts))
            gathered.pass_over(package["name"], package.get("version"), marker)
            continue
        kind = _source(package).get("type", "")
        if kind in {"git", "url", "directory", "file"}:
            gathered.leave(package["name"], f"an address ({kind}), not a version")
        else:
            gathered.pin(package["name"], str(package.get("version", "")))
    return gathered


def read_uv(table: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return what a `uv.lock` reaches from its members; raises RunnerError where it is none."""
    if not isinstance(table.get("version"), int):
        raise refuse(Problem(where, "it is not a lock of uv: it has no `version`"))
    walk = _Walk(_packages(table, where), where, markers)
    manifest = table.get("manifest")
    asked = _tables(manifest.get("requirements")) if isinstance(manifest, dict) else []
    return walk.from_roots(asked)


class _Walk:
    """The graph of a `uv.lock`, walked along the edges whose markers hold here."""

    def __init__(self, packages: list[Table], where: str, markers: Mapping[str, str]) -> None:
        self.packages, self.where, self.markers = packages, where, markers
        self.by_name: dict[str, list[Table]] = {}
        for package in packages:
            self.by_name.setdefault(package["name"], []).append(package)
        self.seen: set[tuple[int, str]] = set()
        self.closed: dict[str, str] = {}
        """By package the marker of an edge that does not hold here."""
        self.gathered = Gathering()

    def from_roots(self, asked: list[Table]) -> Gathering:
        """Walk from the members of the workspace, with all their extras and groups."""
        roots = [package for package in self.packages if _LOCAL & set(_source(package))]
        edges = [*asked, *(edge for root in roots for edge in self._of_root(root))]
        if not edges:  # the lock of something that is not a project
            edges = [{"name": name} for name in self.by_name]
        while edges:
            edges.extend(self._follow(edges.pop()))
        for package in self.packages:
            if (id(package), "") not in self.seen and "registry" in _source(package):
                self._pass_over(package)
        return self.gathered

    def _pass_over(self, package: Table) -> None:
        texts = _list(package.get("resolution-markers"))
        texts = texts or [self.closed.get(package["name"], "")]
        marker = " or ".join(map(str, texts))
        self.gathered.pass_over(package["name"], package.get("version"), marker)

    def _of_root(self, root: Table) -> Iterator[Table]:
        self._note(root)
        yield from _tables(root.get("dependencies"))
        for key in ("optional-dependencies", "dev-dependencies"):
            groups = root.get(key)
            for edges in groups.values() if isinstance(groups, dict) else ():
                yield from _tables(edges)

    def _follow(self, edge: Table) -> Iterator[Table]:
        name, marker = edge.get("name"), edge.get("marker", "")
        self.gathered.conditional = self.gathered.conditional or bool(marker)
        if not _holds(marker, self.markers, self.where):
            self.closed.setdefault(str(name), str(marker))
            return
        if not isinstance(name, str) or name not in self.by_name:
            what = f"a package depends on {name!r}, which is not in the file"
            raise refuse(Problem(self.where, what, _MAKE_AGAIN))
        for package in self._chosen(self.by_name[name], edge.get("version")):
            for extra in ("", *_list(edge.get("extra"))):
                yield from self._enter(package, str(extra))

    def _enter(self, package: Table, extra: str) -> Iterator[Table]:
        key = (id(package), extra)
        if key in self.seen:
            return
        self.seen.add(key)
        if not extra:
            self._note(package)
            yield from _tables(package.get("dependencies"))
        elif isinstance(groups := package.get("optional-dependencies"), dict):
            yield from _tables(groups.get(extra))

    def _chosen(self, packages: list[Table], version: object) -> list[Table]:
        """Return the wanted version of a package, or those that are meant for this platform."""
        exact = [
            package for package in packages if version is None or package.get("version") == version
        ]
        if len(exact) == 1:
            return exact
        return [package for package in exact if self._is_for_here(package)]

    def _is_for_here(self, package: Table) -> bool:
        texts = _list(package.get("resolution-markers"))
        self.gathered.conditional = self.gathered.conditional or bool(texts)
        return not texts or any(_holds(text, self.markers, self.where) for text in texts)

    def _note(self, package: Table) -> None:
        source = _source(package)
        if "registry" in source:
            self.gathered.pin(package["name"], str(package.get("version", "")))
        else:
            kind = shorten(next(iter(source), "no source"), SHORT)
            self.gathered.leave(package["name"], f"an address ({kind}), not a version")


def _packages(table: Table, where: str) -> list[Table]:
    packages = [row for row in _tables(table.get("package")) if isinstance(row.get("name"), str)]
    if not packages:
        raise refuse(Problem(where, "it has no packages", _MAKE_AGAIN))
    return packages


def _source(package: Table) -> Table:
    source = package.get("source")
    return source if isinstance(source, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _tables(value: object) -> list[Table]:
    return [item for item in _list(value) if isinstance(item, dict)]


def _holds(marker: object, markers: Mapping[str, str], where: str) -> bool:
    """Return whether a marker holds here, for the lock itself or for any extra that it names.

    It is not known which extras were installed, so what one of them may bring is not left out.
    """
    if not marker:
        return True
    text = str(marker)
    if len(text) > _LONGEST:
        what = f"the marker {shorten(text[:60], SHORT)!r} has more than {_LONGEST:,} characters"
        raise refuse(Problem(where, what))
    extras = dict.fromkeys(("", *_EXTRA.findall(text)))
    try:
        parsed = Marker(text)
        return any(parsed.evaluate({**markers, "extra": extra}) for extra in extras)
    except _NO_MARKER as error:
        raise _bad_marker(where, text, "PEP 508", error) from error


def _bad_marker(where: str, text: str, standard: str, error: Exception) -> RunnerError:
    reason = str(error).partition("\n")[0]
    what = f"the marker {shorten(text, 60)!r} is not one of {standard} ({reason})"
    return refuse(Problem(where, what))
