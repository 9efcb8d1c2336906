"""A set of packages as files pin them: requirements files, what `pip freeze` prints, and locks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from repromatrix.runner.errors import Fault, Problem, RunnerError, more_to_do, refuse
from repromatrix.runner.model.case import decode
from repromatrix.runner.model.packages import TORCH
from repromatrix.runner.text import plural, shorten

LIMIT = 16 * 2**20
"""Bytes of a file; the largest locks that are known have a third of that."""
SHORT = 40
"""Characters of a text out of a file that is part of a sentence."""
MAKE_AGAIN = "The file may be cut off: make it again."
_REASON = 200
"""Characters of what a library says of a file, with the place."""
_LONGEST = 16_000
"""Characters of a marker or a line; uv writes markers that have a thousand."""
_SHOWN = 60
"""Characters of a line that is named."""
_ADDRESS = "an address, not a version"
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_NO_MARKER = (ValueError, UndefinedComparison, UndefinedEnvironmentName, RecursionError)
"""What the evaluation of a marker raises, for example for a number of 5,000 digits."""
Table = dict[str, Any]


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
    ranges: Mapping[str, str] = field(default_factory=dict)
    """The specifiers of those that a range is given of; empty for any version."""
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
    absent: frozenset[str] = frozenset()
    """Packages that are said not to be installed."""
    notes: tuple[str, ...] = ()
    """What else was read of a pasted text, and what was not, in sentences."""

    def version(self, package: str) -> str:
        """Return the version of a package, or nothing where none is pinned."""
        return self.pins.get(package, "")


@dataclass(slots=True)
class Gathering:
    """Packages as they are read; one that occurs in two versions is not pinned."""

    where: str
    """The file, for errors."""
    markers: Mapping[str, str]
    """The marker variables of the platform that packages are read for."""
    versions: dict[str, set[str]] = field(default_factory=dict)
    loose: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, str] = field(default_factory=dict)
    conditional: bool = False
    passed: set[Other] = field(default_factory=set)
    nameless: int = 0
    python: str = ""
    """Major and minor version of the interpreter, where the file says it."""
    absent: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Lines that may say a version, and were not read."""

    def take(self, name: str, version: object, *, address: str = "", marker: object = "") -> None:
        """Note a package, from an index or from an address of a kind, if its marker holds here."""
        if not self.holds(marker):
            texts = marker if isinstance(marker, list) else [marker]
            self.pass_over(name, version, " or ".join(map(str, texts)))
        elif address:
            self.leave(name, f"an address ({address}), not a version")
        elif version:
            self.pin(name, str(version))
        else:
            self.leave(name, "any version, not a pin")

    def pin(self, name: str, version: str) -> None:
        """Note a version; a text that PEP 440 does not allow pins nothing."""
        canonical = canonicalize_name(name)
        try:
            parsed = Version(version)
        except ValueError:  # also for a number of 5,000 digits
            self.leave(name, f"{shorten(version, SHORT)!r} is not a version")
        else:  # builds of one version are one version; that of torch is shown
            text = str(parsed) if canonical == TORCH else parsed.public
            self.versions.setdefault(canonical, set()).add(text)

    def leave(self, name: str, why: str) -> None:
        """Note a package that is not pinned."""
        self.loose.setdefault(canonicalize_name(name), why)

    def pass_over(self, name: str, version: object, marker: str) -> None:
        """Note what is meant for another platform or Python."""
        self.passed.add(Other(canonicalize_name(name), str(version or ""), marker))

    def holds(self, marker: object) -> bool:
        """Return whether a marker holds here, or one of several; raises RunnerError for a bad one.

        It is not known which extras were installed, so what one of them may bring is not left out.
        """
        texts = [text for text in (marker if isinstance(marker, list) else [marker]) if text]
        self.conditional = self.conditional or bool(texts)
        return not texts or any(self._holds(str(text)) for text in texts)

    def _holds(self, text: str) -> bool:
        if len(text) > _LONGEST:
            what = f"the marker {shorten(text[:60], SHORT)!r} has more than {_LONGEST:,} characters"
            raise refuse(Problem(self.where, what))
        extras = dict.fromkeys(("", *_EXTRA.findall(text)))
        try:
            parsed = Marker(text)
            return any(parsed.evaluate({**self.markers, "extra": extra}) for extra in extras)
        except _NO_MARKER as error:
            raise self.bad_marker(text, "PEP 508", error) from error

    def bad_marker(self, text: str, standard: str, error: Exception) -> RunnerError:
        """Return the error for a marker that a standard does not allow."""
        reason = str(error).partition("\n")[0]
        what = f"the marker {shorten(text, 60)!r} is not one of {standard} ({reason})"
        return refuse(Problem(self.where, what))

    def installed(self, form: str) -> Installed:
        """Return what was read."""
        if len(builds := self.versions.get(TORCH, set())) > 1:
            self.versions[TORCH] = {Version(text).public for text in builds}
        several = {
            name: f"several versions: {', '.join(sorted(versions, key=_in_order))}"
            for name, versions in self.versions.items()
            if len(versions) > 1
        }
        loose = several | self.loose
        return Installed(
            what=self.where,
            form=form,
            pins={
                name: next(iter(versions))
                for name, versions in self.versions.items()
                if name not in loose
            },
            loose=loose,
            ranges={name: text for name, text in self.ranges.items() if name not in several},
            python=self.python,
            markers=self.markers,
            conditional=self.conditional,
            others=tuple(
                other
                for other in sorted(self.passed)
                if other.version and other.version not in self.versions.get(other.package, ())
            ),
            nameless=self.nameless,
            absent=frozenset(self.absent),
            notes=(*self.notes, *self._not_read()),
        )

    def _not_read(self) -> Iterator[str]:
        if self.unread:
            first = shorten(self.unread[0], _SHOWN)
            yield f"Not read: {plural(len(self.unread), 'line')}, such as {first!r}."


def _in_order(version: str) -> tuple[Version, str]:
    """Order versions that PEP 440 takes for equal, such as 11.0 and 11.0.0, by their text."""
    return Version(version), version


def as_list(value: object) -> list[Any]:
    """Return a value that is a list, and an empty one for any other."""
    return value if isinstance(value, list) else []


def as_table(value: object) -> Table:
    """Return a value that is a table, and an empty one for any other."""
    return value if isinstance(value, dict) else {}


def tables(value: object) -> list[Table]:
    """Return the tables of a list, and none of anything else."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def content_of(path: Path, where: str) -> bytes:
    """Return what a file holds, up to a byte more than is read; raises RunnerError."""
    try:
        with path.open("rb") as file:
            return file.read(LIMIT + 1)
    except OSError as error:
        raise refuse(Problem(where, f"the file cannot be read ({error.strerror})")) from error


# Requirements files: their lines, each read by `packaging`

_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--hash[= ]\S+")
_NESTED = re.compile(r"(?:-r|--requirement)[= ]?\s*(\S+)")
_EDITABLE = re.compile(r"(?:-e|--editable)[= ]?\s*(\S+)")
_EXACT = re.compile(r"={2,3}[^*,]+")
_OPTION = re.compile(r"--(?!constraint)[a-z]|-[if]\b")
"""The options of pip that name no versions."""
_FEW = 5
_EXPECTED = "A line is a requirement such as `name==1.2.3`, or an option of pip."


def read_requirements(text: str, gathered: Gathering, where: str = "") -> None:
    """Read a requirements file; raises RunnerError with its unreadable lines."""
    faults = list[Fault]()

    def read_file(text: str, where: str, open_files: tuple[str, ...]) -> None:
        for number, line in _logical_lines(text):
            nested = _NESTED.fullmatch(line)
            if nested:
                inner, content = _opened(where, nested[1])
                if inner not in open_files:  # a file may include itself
                    read_file(content, inner, (*open_files, inner))
                continue
            try:
                _read_line(line, gathered)
            except ValueError as error:
                what = f"cannot read {shorten(line, _SHOWN)!r} ({error})"
                faults.append(Problem(f"{where}: line {number}", what))

    where = where or gathered.where
    read_file(text, where, (where,))
    if len(faults) > _FEW:
        more = plural(len(faults) - _FEW, "more line")
        faults = [*faults[:_FEW], Problem(where, f"{more} cannot be read")]
    if faults:
        raise RunnerError([*faults[:-1], more_to_do(faults[-1], _EXPECTED)])


def _opened(at: str, name: str) -> tuple[str, str]:
    """Return the path and the text of the file that `-r` names in another file."""
    path = Path(os.path.normpath(Path(at).expanduser().parent / name))
    if not os.path.isfile(path):  # noqa: PTH113 - pathlib raises for a name that is too long
        raise refuse(Problem(f"{at}: -r {name}", "the file does not exist"))
    return str(path), decode(content_of(path, str(path)), str(path)).removeprefix("\ufeff")


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


def _read_line(line: str, gathered: Gathering) -> None:
    if line.endswith("\\"):
        msg = "the file ends here and is cut off"
        raise ValueError(msg)
    editable = _EDITABLE.match(line)
    first = line.split(" ", 1)[0]
    if editable or "://" in first or first.startswith((".", "/")) or first.endswith(".whl"):
        _read_address(editable[1] if editable else line, gathered)
    elif not line.startswith("-"):
        _read_requirement(_HASH.sub("", line), gathered)
    elif not _OPTION.match(line):
        gathered.unread.append(line)


def _read_address(text: str, gathered: Gathering) -> None:
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


def _read_requirement(line: str, gathered: Gathering) -> None:
    if len(line) > _LONGEST:
        msg = f"it has {len(line)} characters"
        raise ValueError(msg)
    try:
        requirement = Requirement(line)
    except (InvalidRequirement, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(reason) from error
    marker, specifier = requirement.marker, requirement.specifier
    gathered.conditional = gathered.conditional or marker is not None
    version = next(iter(specifier)).version if _EXACT.fullmatch(str(specifier)) else ""
    if marker is not None and not marker.evaluate(dict(gathered.markers)):
        if version:
            gathered.pass_over(requirement.name, version, str(marker))
    elif requirement.url:
        gathered.leave(requirement.name, _ADDRESS)
    elif version:
        gathered.pin(requirement.name, version)
    else:
        gathered.leave(requirement.name, f"{specifier or 'any version'}, not a pin")
        canonical = canonicalize_name(requirement.name)
        both = filter(None, (gathered.ranges.get(canonical), str(specifier)))
        gathered.ranges[canonical] = ",".join(both)


# Locks: the packages that this platform would install

_LOCAL = {"editable", "virtual", "directory", "path"}
_ADDRESSES = ("git", "hg", "svn", "bzr", "url", "file", "path")
"""Keys of a package that pdm or pipenv did not take from an index."""
_PIPFILE = 6
"""The only version of `Pipfile.lock` that pipenv ever wrote."""


def read_pylock(table: Table, gathered: Gathering) -> None:
    """Read a `pylock.toml` (PEP 751); raises RunnerError where it is none."""
    from packaging.pylock import (  # noqa: PLC0415 - other formats do without
        Pylock,
        PylockUnsupportedVersionError,
        PylockValidationError,
    )

    try:
        lock = Pylock.from_dict(table)
    except (PylockValidationError, PylockUnsupportedVersionError, RecursionError) as error:
        what = f"it is not a lock of PEP 751, version 1 ({shorten(str(error), _REASON)})"
        raise refuse(Problem(gathered.where, what)) from error
    here: dict[str, Any] = {
        **gathered.markers,
        "extras": set(lock.extras or ()),
        "dependency_groups": {*(lock.dependency_groups or ()), *(lock.default_groups or ())},
    }
    gathered.conditional = any(package.marker is not None for package in lock.packages)
    for package in lock.packages:
        try:
            selected = not package.marker or package.marker.evaluate(here, context="lock_file")
        except _NO_MARKER as error:
            raise gathered.bad_marker(str(package.marker), "PEP 751", error) from error
        if not selected:
            gathered.pass_over(package.name, package.version, str(package.marker))
        elif package.version is None or package.is_direct:
            gathered.leave(package.name, _ADDRESS)
        else:
            gathered.pin(package.name, str(package.version))


def read_poetry(table: Table, gathered: Gathering) -> None:
    """Read a `poetry.lock`; raises RunnerError where it is none."""
    if "lock-version" not in as_table(table.get("metadata")):
        what = "it has no `lock-version` below `metadata`"
        raise refuse(Problem(gathered.where, what, "Lock it with poetry 1.1 or newer."))
    for package in _packages(table, gathered.where):
        marker, source = package.get("markers", ""), as_table(package.get("source")).get("type")
        gathered.take(
            package["name"],
            package.get("version"),
            address=source if source in {"git", "url", "directory", "file"} else "",
            marker=list(marker.values()) if isinstance(marker, dict) else marker,
        )


def read_pdm(table: Table, gathered: Gathering) -> None:
    """Read a `pdm.lock`; raises RunnerError where it is none."""
    version = as_table(table.get("metadata")).get("lock_version")
    if not re.fullmatch(r"[34](\.\d{1,9})*", str(version)):
        fix = "Lock it with pdm 2."
        raise other_version(gathered.where, "lock_version", version, "3 and 4", fix)
    for package in _packages(table, gathered.where):
        gathered.take(
            package["name"],
            package.get("version"),
            address=next((key for key in _ADDRESSES if key in package), ""),
            marker=package.get("marker", ""),
        )


def read_pipfile(table: Table, gathered: Gathering) -> None:
    """Read a `Pipfile.lock`, with all its categories; raises RunnerError where it is none."""
    version = as_table(table.get("_meta")).get("pipfile-spec")
    if version != _PIPFILE:
        fix = "Lock it with a newer pipenv."
        raise other_version(gathered.where, "pipfile-spec", version, str(_PIPFILE), fix)
    categories = [as_table(value) for key, value in table.items() if key != "_meta"]
    entries = [pair for category in categories for pair in category.items()]
    if not entries:
        raise refuse(Problem(gathered.where, "it has no packages", MAKE_AGAIN))
    for name, entry in entries:
        if not isinstance(entry, dict):
            at = f"{gathered.where}: {shorten(name, SHORT)}"
            raise refuse(Problem(at, "it is not a table", MAKE_AGAIN))
        text, marker = str(entry.get("version", "")), entry.get("markers", "")
        kind = next((key for key in _ADDRESSES if key in entry), "")
        if kind or text.startswith("==") or not gathered.holds(marker):
            gathered.take(name, text.removeprefix("=="), address=kind, marker=marker)
        else:
            gathered.leave(name, f"{shorten(text, SHORT) or 'any version'}, not a pin")


def other_version(where: str, key: str, version: object, known: str, fix: str) -> RunnerError:
    """Return the error for a lock of a version that cannot be read."""
    is_stated = isinstance(version, str | int | float)
    found = f"`{key}` is {shorten(str(version), SHORT)}" if is_stated else f"it has no `{key}`"
    return refuse(Problem(where, f"{found}; {known} can be read", fix))


def read_uv(table: Table, gathered: Gathering) -> None:
    """Read what a `uv.lock` reaches from the members of its workspace.

    That is with all their extras and groups; raises RunnerError where it is no such lock.
    """
    if not isinstance(table.get("version"), int):
        raise refuse(Problem(gathered.where, "it is not a lock of uv: it has no `version`"))
    packages = _packages(table, gathered.where)
    by_name: dict[str, list[Table]] = {}
    for package in packages:
        by_name.setdefault(package["name"], []).append(package)
    edges = tables(as_table(table.get("manifest")).get("requirements"))
    for root in packages:
        if _LOCAL & {*as_table(root.get("source"))}:
            _take_locked(root, gathered)
            groups = [root.get("dependencies")]
            for key in ("optional-dependencies", "dev-dependencies"):
                groups += as_table(root.get(key)).values()
            edges += [edge for group in groups for edge in tables(group)]
    # Without a member it is the lock of something that is not a project.
    entered, closed = _walk(edges or [{"name": name} for name in by_name], by_name, gathered)
    for package in packages:
        if id(package) not in entered and "registry" in as_table(package.get("source")):
            texts = as_list(package.get("resolution-markers"))
            marker = " or ".join(map(str, texts or [closed.get(package["name"], "")]))
            gathered.pass_over(package["name"], package.get("version"), marker)


def _walk(
    edges: list[Table], by_name: Mapping[str, list[Table]], gathered: Gathering
) -> tuple[set[int], dict[str, str]]:
    """Take what the edges reach whose markers hold here.

    Return which packages these are, and by name the marker of an edge that does not hold.
    """
    entered, closed = set[tuple[int, str]](), dict[str, str]()
    while edges:
        edge = edges.pop()
        name, version = edge.get("name"), edge.get("version")
        if not gathered.holds(edge.get("marker")):
            closed.setdefault(str(name), str(edge["marker"]))
            continue
        if not isinstance(name, str) or name not in by_name:
            what = f"a package depends on {name!r}, which is not in the file"
            raise refuse(Problem(gathered.where, what, MAKE_AGAIN))
        wanted = [one for one in by_name[name] if version is None or one.get("version") == version]
        if len(wanted) > 1:
            wanted = [one for one in wanted if gathered.holds(one.get("resolution-markers"))]
        extras = ["", *map(str, as_list(edge.get("extra")))]
        for package, extra in ((package, extra) for package in wanted for extra in extras):
            if (id(package), extra) not in entered:
                entered.add((id(package), extra))
                edges += _behind(package, extra, gathered)
    return {number for number, extra in entered if not extra}, closed


def _behind(package: Table, extra: str, gathered: Gathering) -> list[Table]:
    """Return the edges of an extra; without one take the package, and return its own."""
    if extra:
        return tables(as_table(package.get("optional-dependencies")).get(extra))
    _take_locked(package, gathered)
    return tables(package.get("dependencies"))


def _take_locked(package: Table, gathered: Gathering) -> None:
    source = as_table(package.get("source"))
    kind = "" if "registry" in source else shorten(next(iter(source), "no source"), SHORT)
    gathered.take(package["name"], package.get("version"), address=kind)


def _packages(table: Table, where: str) -> list[Table]:
    packages = [row for row in tables(table.get("package")) if isinstance(row.get("name"), str)]
    if not packages:
        raise refuse(Problem(where, "it has no packages", MAKE_AGAIN))
    return packages
