"""`uv.lock`, `poetry.lock` and `pylock.toml`: the packages that this platform would install."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName

from repromatrix.runner.audit.packages import Gathering, shown
from repromatrix.runner.errors import OldFault, RunnerError, refuse

Table = dict[str, Any]
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_NO_MARKER = (ValueError, UndefinedComparison, UndefinedEnvironmentName, RecursionError)
"""What evaluating a marker raises: also for a number of 5,000 digits."""
_LONGEST = 16_000
"""Characters of a marker; uv writes some of a thousand."""
_AGAIN = "It may be cut off: make it again."
_OWN = {"editable", "virtual", "directory", "path"}


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
        raise _bad(where, str(error), "a lock of PEP 751, version 1") from error
    found = Gathering()
    here: dict[str, Any] = {
        **markers,
        "extras": set(lock.extras or ()),
        "dependency_groups": {*(lock.dependency_groups or ()), *(lock.default_groups or ())},
    }
    found.conditional = any(one.marker is not None for one in lock.packages)
    for one in lock.packages:
        if one.marker is not None and not _selects(one.marker, here, where):
            found.pass_over(one.name, one.version, str(one.marker))
            continue
        if one.version is None or one.is_direct:
            found.leave(one.name, "an address, not a version")
        else:
            found.pin(one.name, str(one.version))
    return found


def _selects(marker: Marker, here: dict[str, Any], where: str) -> bool:
    try:
        return marker.evaluate(here, context="lock_file")
    except _NO_MARKER as error:
        raise _bad(where, f"the marker {str(marker)[:60]!r}", "markers of PEP 751") from error


def read_poetry(table: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return the packages of a `poetry.lock`; raises RunnerError where it is none."""
    metadata = table.get("metadata")
    if not isinstance(metadata, dict) or "lock-version" not in metadata:
        raise _bad(where, "no `lock-version` below `metadata`", "a lock of poetry 1.1 or newer")
    found = Gathering()
    for one in _packages(table, where):
        said = one.get("markers", "")
        asked = list(said.values()) if isinstance(said, dict) else [said]
        found.conditional = found.conditional or any(asked)
        if not any(_holds(marker, markers, where) for marker in asked):
            found.pass_over(one["name"], one.get("version"), " or ".join(map(str, asked)))
            continue
        source = one.get("source")
        kind = source.get("type", "") if isinstance(source, dict) else ""
        if kind in {"git", "url", "directory", "file"}:
            found.leave(one["name"], f"an address ({kind}), not a version")
        else:
            found.pin(one["name"], str(one.get("version", "")))
    return found


def read_uv(table: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return what a `uv.lock` reaches from its members; raises RunnerError where it is none."""
    if not isinstance(table.get("version"), int):
        raise _bad(where, "no `version`", "a lock of uv")
    walk = _Walk(_packages(table, where), where, markers)
    manifest = table.get("manifest")
    asked = _tables(manifest.get("requirements", ())) if isinstance(manifest, dict) else ()
    return walk.from_roots(asked)


class _Walk:
    """The graph of a `uv.lock`, walked along the edges whose markers hold here."""

    def __init__(self, packages: list[Table], where: str, markers: Mapping[str, str]) -> None:
        self.packages, self.where, self.markers = packages, where, markers
        self.by_name: dict[str, list[Table]] = {}
        for one in packages:
            self.by_name.setdefault(one["name"], []).append(one)
        self.seen: set[tuple[int, str]] = set()
        self.closed: dict[str, str] = {}
        """By package the marker of an edge that does not hold here."""
        self.found = Gathering()

    def from_roots(self, asked: Iterable[Table]) -> Gathering:
        """Walk from the members of the workspace, with all their extras and groups."""
        roots = [one for one in self.packages if _OWN & set(_source(one))]
        edges = [*asked, *(edge for root in roots for edge in self._of_root(root))]
        if not edges:  # a lock of something else than a project
            edges = [{"name": name} for name in self.by_name]
        while edges:
            edges.extend(self._follow(edges.pop()))
        self._pass_over()
        return self.found

    def _pass_over(self) -> None:
        """Note the versions that no edge leads to here."""
        for one in self.packages:
            meant = one.get("resolution-markers", ())
            texts = meant if isinstance(meant, list) else []
            texts = texts or [self.closed.get(one["name"], "")]
            if (id(one), "") not in self.seen and "registry" in _source(one):
                self.found.pass_over(one["name"], one.get("version"), " or ".join(map(str, texts)))

    def _of_root(self, root: Table) -> Iterator[Table]:
        self._note(root)
        yield from _tables(root.get("dependencies", ()))
        for key in ("optional-dependencies", "dev-dependencies"):
            for edges in _values(root.get(key)):
                yield from _tables(edges)

    def _follow(self, edge: Table) -> Iterator[Table]:
        name, marker = edge.get("name"), edge.get("marker", "")
        self.found.conditional = self.found.conditional or bool(marker)
        if not _holds(marker, self.markers, self.where):
            self.closed.setdefault(str(name), str(marker))
            return
        if not isinstance(name, str) or name not in self.by_name:
            found = f"a dependency on {name!r}, and no package of that name"
            raise _bad(self.where, found, "a whole lock", _AGAIN)
        extras = edge.get("extra", ())
        for one in self._chosen(self.by_name[name], edge.get("version")):
            for extra in ("", *(extras if isinstance(extras, list) else ())):
                yield from self._enter(one, str(extra))

    def _enter(self, one: Table, extra: str) -> Iterator[Table]:
        key = (id(one), extra)
        if key in self.seen:
            return
        self.seen.add(key)
        if not extra:
            self._note(one)
            yield from _tables(one.get("dependencies", ()))
        elif isinstance(groups := one.get("optional-dependencies"), dict):
            yield from _tables(groups.get(extra, ()))

    def _chosen(self, found: list[Table], version: object) -> list[Table]:
        """Of several versions take the one that is asked for, or those that are meant for here."""
        exact = [one for one in found if version is None or one.get("version") == version]
        if len(exact) == 1:
            return exact
        return [one for one in exact if self._is_meant(one.get("resolution-markers", ()))]

    def _is_meant(self, markers: object) -> bool:
        texts = markers if isinstance(markers, list) else []
        self.found.conditional = self.found.conditional or bool(texts)
        return not texts or any(_holds(text, self.markers, self.where) for text in texts)

    def _note(self, one: Table) -> None:
        source = _source(one)
        if "registry" in source:
            self.found.pin(one["name"], str(one.get("version", "")))
        else:
            kind = shown(next(iter(source), "no source"))
            self.found.leave(one["name"], f"an address ({kind}), not a version")


def _packages(table: Table, where: str) -> list[Table]:
    found = [one for one in _tables(table.get("package", ())) if isinstance(one.get("name"), str)]
    if not found:
        raise _bad(where, "no packages", "a lock with packages", _AGAIN)
    return found


def _source(one: Table) -> Table:
    source = one.get("source")
    return source if isinstance(source, dict) else {}


def _tables(value: object) -> list[Table]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _values(value: object) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _holds(marker: object, markers: Mapping[str, str], where: str) -> bool:
    """Say whether a marker holds here, for the lock itself or for any extra that it names.

    Nobody says which extras were installed; what one of them may bring is not left out.
    """
    if not marker:
        return True
    text = str(marker)
    if len(text) > _LONGEST:
        found = f"a marker of {len(text)} characters"
        raise _bad(where, found, f"markers of at most {_LONGEST}")
    extras = dict.fromkeys(("", *_EXTRA.findall(text)))
    try:
        asked = Marker(text)
        return any(asked.evaluate({**markers, "extra": extra}) for extra in extras)
    except _NO_MARKER as error:
        reason = str(error).splitlines()[0]
        found = f"the marker {text[:60]!r} ({reason})"
        raise _bad(where, found, "markers of PEP 508") from error


def _bad(where: str, found: str, allowed: str, remedy: str = "") -> RunnerError:
    return refuse(OldFault(where=where, found=found, allowed=allowed, fix=remedy))
