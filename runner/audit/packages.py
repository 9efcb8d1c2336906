"""A set of packages as files pin them: locks, requirements files, what `pip freeze` prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from repromatrix.runner.errors import Fault, Problem, RunnerError, more_to_do, refuse
from repromatrix.runner.text import plural, shorten

SHORT = 40
"""Characters of a text out of a file that is part of a sentence."""
_REASON = 200
"""Characters of what a library says of a file, with the place."""
_LONGEST = 16_000
"""Characters of a marker or a line; uv writes markers that have a thousand."""
_ADDRESS = "an address, not a version"


@dataclass(frozen=True, order=True, slots=True)
class Other:
    """A version of a package that a file holds for another platform or Python."""

    package: str
    version: str
    marker: str
    """The marker of the file; empty where it has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """A set of packages; names are canonical, versions those of PEP 440."""

    what: str
    """The path of the file or of the interpreter, as it was given."""
    form: str
    """Its format: `uv.lock`, a requirements file, an interpreter."""
    pins: Mapping[str, str]
    loose: Mapping[str, str] = field(default_factory=dict)
    """Packages without one published version, and why: a range, an address, several versions."""
    whole: bool = True
    """Whether a package that is not listed is not installed; unknown for a list written by hand."""
    python: str = ""
    """Major and minor version of the interpreter, where that is known."""
    markers: Mapping[str, str] = field(default_factory=dict)
    """The platform that the markers were evaluated for."""
    conditional: bool = False
    """Whether the file holds different packages for different platforms or Pythons."""
    others: tuple[Other, ...] = ()
    """Versions for other platforms than this one, where they differ."""
    nameless: int = 0
    """Addresses that do not say which package they are."""
    passed_over: tuple[str, ...] = ()
    """What else lies in the folder that was named, and was not read."""

    def version(self, package: str) -> str:
        """Return the version of a package, or nothing where none is pinned."""
        return self.pins.get(package, "")


@dataclass(kw_only=True, slots=True)
class Gathering:
    """Packages as they are read; one that occurs in two versions is not pinned."""

    versions: dict[str, set[str]] = field(default_factory=dict)
    loose: dict[str, str] = field(default_factory=dict)
    conditional: bool = False
    passed: set[Other] = field(default_factory=set)
    nameless: int = 0
    python: str = ""
    """Major and minor version of the interpreter, where the file says it."""
    markers: Mapping[str, str] = field(default_factory=dict)
    """Marker variables of the platform that the file is for, where that may be another one."""

    def pass_over(self, name: str, version: object, marker: str) -> None:
        """Note what is meant for another platform or Python."""
        self.passed.add(Other(canonicalize_name(name), str(version or ""), marker))

    def others(self) -> tuple[Other, ...]:
        """Return the versions for other platforms that differ from the one for this platform."""
        return tuple(
            other
            for other in sorted(self.passed)
            if other.version and other.version not in self.versions.get(other.package, ())
        )

    def pin(self, name: str, version: str) -> None:
        """Note a version; a text that PEP 440 does not allow pins nothing."""
        try:
            canonical = str(Version(version))
        except ValueError:  # also for a number of 5,000 digits
            self.leave(name, f"{shorten(version, SHORT)!r} is not a version")
        else:
            self.versions.setdefault(canonicalize_name(name), set()).add(canonical)

    def take(self, name: str, version: str, address: str = "") -> None:
        """Note a package that comes from an index, or from an address of a kind."""
        if address:
            self.leave(name, f"an address ({address}), not a version")
        else:
            self.pin(name, version)

    def leave(self, name: str, why: str) -> None:
        """Note a package that is not pinned."""
        self.loose.setdefault(canonicalize_name(name), why)

    def pins(self) -> dict[str, str]:
        """Return the packages that have one version."""
        return {
            name: next(iter(versions))
            for name, versions in self.versions.items()
            if len(versions) == 1 and name not in self.loose
        }

    def left(self) -> dict[str, str]:
        """Return the packages that have none, or several, with the reason."""
        several = {
            name: f"several versions: {', '.join(sorted(versions, key=_in_order))}"
            for name, versions in self.versions.items()
            if len(versions) > 1
        }
        return several | self.loose


def _in_order(version: str) -> tuple[Version, str]:
    """Order versions that PEP 440 takes for equal, such as 11.0 and 11.0.0, by their text."""
    return Version(version), version


# Requirements files: their lines, each read by `packaging`

Open = Callable[[str, str], tuple[str, str]]
"""Open a file that another names: takes the naming file and the name, gives its path and text."""

_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--hash[= ]\S+")
_NESTED = re.compile(r"(?:-r|--requirement)[= ]?\s*(\S+)")
_EDITABLE = re.compile(r"(?:-e|--editable)[= ]?\s*(\S+)")
_EXACT = re.compile(r"={2,3}[^*,]+")
_FEW = 5
_EXPECTED = "A line is a requirement such as `name==1.2.3`, or an option of pip."


def read_requirements(text: str, where: str, markers: Mapping[str, str], opened: Open) -> Gathering:
    """Return the packages of a requirements file; raises RunnerError with its unreadable lines."""
    gathered, faults = Gathering(), list[Fault]()

    def read_file(text: str, where: str, open_files: tuple[str, ...]) -> None:
        for number, line in _logical_lines(text):
            nested = _NESTED.fullmatch(line)
            if nested:
                inner, content = opened(where, nested[1])
                if inner not in open_files:  # a file may include itself
                    read_file(content, inner, (*open_files, inner))
                continue
            try:
                _line(line, markers, gathered)
            except ValueError as error:
                what = f"cannot read {shorten(line, 60)!r} ({error})"
                faults.append(Problem(f"{where}: line {number}", what))

    read_file(text, where, (where,))
    if len(faults) > _FEW:
        more = plural(len(faults) - _FEW, "more line")
        faults = [*faults[:_FEW], Problem(where, f"{more} cannot be read")]
    if faults:
        raise RunnerError([*faults[:-1], more_to_do(faults[-1], _EXPECTED)])
    return gathered


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, continued lines joined."""
    start, parts = 0, list[str]()
    for number, physical in enumerate(text.splitlines(), 1):
        start = start or number
        line = _COMMENT.sub("", physical).rstrip()
        parts.append(line.removesuffix("\\"))
        if line.endswith("\\"):
            continue
        if joined := "".join(parts).strip():
            yield start, joined
        start, parts = 0, []
    if parts:
        yield start, f"{''.join(parts).strip()} \\"


def _line(line: str, markers: Mapping[str, str], gathered: Gathering) -> None:
    """Read one requirement; raises ValueError where it is none."""
    if line.endswith("\\"):
        msg = "the file ends here and is cut off"
        raise ValueError(msg)
    editable = _EDITABLE.match(line)
    first = line.split(" ", 1)[0]
    if editable or "://" in first or first.startswith((".", "/")) or first.endswith(".whl"):
        _address(editable[1] if editable else line, gathered)
    elif not line.startswith("-"):
        _requirement(_HASH.sub("", line), markers, gathered)


def _address(text: str, gathered: Gathering) -> None:
    """Note the package of an address: a wheel has it in its name, others may have `#egg=`."""
    address = urlsplit(text)
    try:
        name, version, *_ = parse_wheel_filename(unquote(PurePosixPath(address.path).name))
    except InvalidWheelFilename:
        egg = re.search(r"\begg=([\w.-]+)", address.fragment)
        if egg:
            gathered.leave(egg[1], _ADDRESS)
        else:
            gathered.nameless += 1
    else:
        gathered.pin(name, str(version))


def _requirement(line: str, markers: Mapping[str, str], gathered: Gathering) -> None:
    if len(line) > _LONGEST:
        msg = f"it has {len(line)} characters"
        raise ValueError(msg)
    try:
        requirement = Requirement(line)
    except (InvalidRequirement, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(reason) from error
    gathered.conditional = gathered.conditional or requirement.marker is not None
    is_exact = _EXACT.fullmatch(str(requirement.specifier))
    version = next(iter(requirement.specifier)).version if is_exact else ""
    if requirement.marker is not None and not requirement.marker.evaluate(dict(markers)):
        if version:
            gathered.pass_over(requirement.name, version, str(requirement.marker))
    elif requirement.url:
        gathered.leave(requirement.name, _ADDRESS)
    elif version:
        gathered.pin(requirement.name, version)
    else:
        gathered.leave(requirement.name, f"{requirement.specifier or 'any version'}, not a pin")


# Locks: the packages that this platform would install

Table = dict[str, Any]
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_NO_MARKER = (ValueError, UndefinedComparison, UndefinedEnvironmentName, RecursionError)
"""What the evaluation of a marker raises, for example for a number of 5,000 digits."""
MAKE_AGAIN = "The file may be cut off: make it again."
_LOCAL = {"editable", "virtual", "directory", "path"}
_ADDRESSES = ("git", "hg", "svn", "bzr", "url", "file", "path")
"""Keys of a package that pdm or pipenv did not take from an index."""
_PIPFILE = 6
"""The only version of `Pipfile.lock` that pipenv ever wrote."""


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
        what = f"it is not a lock of PEP 751, version 1 ({shorten(str(error), _REASON)})"
        raise refuse(Problem(where, what)) from error
    gathered = Gathering()
    here: dict[str, Any] = {
        **markers,
        "extras": set(lock.extras or ()),
        "dependency_groups": {*(lock.dependency_groups or ()), *(lock.default_groups or ())},
    }
    gathered.conditional = any(package.marker is not None for package in lock.packages)
    for package in lock.packages:
        try:
            selected = not package.marker or package.marker.evaluate(here, context="lock_file")
        except _NO_MARKER as error:
            raise _bad_marker(where, str(package.marker), "PEP 751", error) from error
        if not selected:
            gathered.pass_over(package.name, package.version, str(package.marker))
        elif package.version is None or package.is_direct:
            gathered.leave(package.name, _ADDRESS)
        else:
            gathered.pin(package.name, str(package.version))
    return gathered


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
        kind = _source(package).get("type", "")
        kind = kind if kind in {"git", "url", "directory", "file"} else ""
        if is_selected(gathered, package, texts, markers, where):
            gathered.take(package["name"], str(package.get("version", "")), kind)
    return gathered


def read_pdm(table: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return the packages of a `pdm.lock`; raises RunnerError where it is none."""
    metadata = table.get("metadata")
    version = metadata.get("lock_version") if isinstance(metadata, dict) else None
    if not re.fullmatch(r"[34](\.\d{1,9})*", str(version)):
        raise other_version(where, "lock_version", version, "3 and 4", "Lock it with pdm 2.")
    gathered = Gathering()
    for package in _packages(table, where):
        kind = next((key for key in _ADDRESSES if key in package), "")
        if is_selected(gathered, package, package.get("marker", ""), markers, where):
            gathered.take(package["name"], str(package.get("version", "")), kind)
    return gathered


def read_pipfile(table: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return the packages of a `Pipfile.lock`, of all its categories.

    Raises RunnerError where it is none.
    """
    meta = table.get("_meta")
    version = meta.get("pipfile-spec") if isinstance(meta, dict) else None
    if version != _PIPFILE:
        fix = "Lock it with a newer pipenv."
        raise other_version(where, "pipfile-spec", version, str(_PIPFILE), fix)
    gathered = Gathering()
    categories = [value for key, value in table.items() if key != "_meta"]
    entries = [pair for each in categories if isinstance(each, dict) for pair in each.items()]
    if not entries:
        raise refuse(Problem(where, "it has no packages", MAKE_AGAIN))
    for name, entry in entries:
        if not isinstance(entry, dict):
            at = f"{where}: {shorten(name, SHORT)}"
            raise refuse(Problem(at, "it is not a table", MAKE_AGAIN))
        text = str(entry.get("version", ""))
        version = text.removeprefix("==")
        package = {"name": name, "version": version}
        kind = next((key for key in _ADDRESSES if key in entry), "")
        if not is_selected(gathered, package, entry.get("markers", ""), markers, where):
            continue
        if kind or text.startswith("=="):
            gathered.take(name, version, kind)
        else:
            gathered.leave(name, f"{shorten(text, SHORT) or 'any version'}, not a pin")
    return gathered


def other_version(where: str, key: str, version: object, known: str, fix: str) -> RunnerError:
    """Return the error for a lock of a version that nobody here knows."""
    is_told = isinstance(version, str | int | float)
    found = f"`{key}` is {shorten(str(version), SHORT)}" if is_told else f"it has no `{key}`"
    return refuse(Problem(where, f"{found}; {known} can be read", fix))


def is_selected(
    gathered: Gathering, package: Table, marker: object, markers: Mapping[str, str], where: str
) -> bool:
    """Return whether a package's marker holds here, or one of several; note it where none does."""
    texts = marker if isinstance(marker, list) else [marker]
    gathered.conditional = gathered.conditional or any(texts)
    if any(_holds(text, markers, where) for text in texts):
        return True
    text = " or ".join(map(str, texts))
    gathered.pass_over(package["name"], package.get("version"), text)
    return False


def read_uv(table: Table, where: str, markers: Mapping[str, str]) -> Gathering:
    """Return what a `uv.lock` reaches from its members; raises RunnerError where it is none."""
    if not isinstance(table.get("version"), int):
        raise refuse(Problem(where, "it is not a lock of uv: it has no `version`"))
    walk = _Walk(_packages(table, where), where, markers)
    manifest = table.get("manifest")
    asked = tables(manifest.get("requirements")) if isinstance(manifest, dict) else []
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
                texts = as_list(package.get("resolution-markers"))
                texts = texts or [self.closed.get(package["name"], "")]
                marker = " or ".join(map(str, texts))
                self.gathered.pass_over(package["name"], package.get("version"), marker)
        return self.gathered

    def _of_root(self, root: Table) -> Iterator[Table]:
        self._note(root)
        yield from tables(root.get("dependencies"))
        for key in ("optional-dependencies", "dev-dependencies"):
            groups = root.get(key)
            for edges in groups.values() if isinstance(groups, dict) else ():
                yield from tables(edges)

    def _follow(self, edge: Table) -> Iterator[Table]:
        name, marker = edge.get("name"), edge.get("marker", "")
        self.gathered.conditional = self.gathered.conditional or bool(marker)
        if not _holds(marker, self.markers, self.where):
            self.closed.setdefault(str(name), str(marker))
            return
        if not isinstance(name, str) or name not in self.by_name:
            what = f"a package depends on {name!r}, which is not in the file"
            raise refuse(Problem(self.where, what, MAKE_AGAIN))
        for package in self._chosen(self.by_name[name], edge.get("version")):
            for extra in ("", *as_list(edge.get("extra"))):
                yield from self._enter(package, str(extra))

    def _enter(self, package: Table, extra: str) -> Iterator[Table]:
        key = (id(package), extra)
        if key in self.seen:
            return
        self.seen.add(key)
        if not extra:
            self._note(package)
            yield from tables(package.get("dependencies"))
        elif isinstance(groups := package.get("optional-dependencies"), dict):
            yield from tables(groups.get(extra))

    def _chosen(self, packages: list[Table], version: object) -> list[Table]:
        """Return the wanted version of a package, or those that are meant for this platform."""
        exact = [
            package for package in packages if version is None or package.get("version") == version
        ]
        if len(exact) == 1:
            return exact
        return [package for package in exact if self._is_for_here(package)]

    def _is_for_here(self, package: Table) -> bool:
        texts = as_list(package.get("resolution-markers"))
        self.gathered.conditional = self.gathered.conditional or bool(texts)
        return not texts or any(_holds(text, self.markers, self.where) for text in texts)

    def _note(self, package: Table) -> None:
        source = _source(package)
        kind = "" if "registry" in source else shorten(next(iter(source), "no source"), SHORT)
        self.gathered.take(package["name"], str(package.get("version", "")), kind)


def _packages(table: Table, where: str) -> list[Table]:
    packages = [row for row in tables(table.get("package")) if isinstance(row.get("name"), str)]
    if not packages:
        raise refuse(Problem(where, "it has no packages", MAKE_AGAIN))
    return packages


def _source(package: Table) -> Table:
    source = package.get("source")
    return source if isinstance(source, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a value that is a list, and an empty one for any other."""
    return value if isinstance(value, list) else []


def tables(value: object) -> list[Table]:
    """Return the tables of a list, and none of anything else."""
    return [item for item in as_list(value) if isinstance(item, dict)]


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
