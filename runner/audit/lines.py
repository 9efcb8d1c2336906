"""The line of a lock or a list on which a package is pinned, for annotations. The search is pure.

It knows the shapes of entries, not the formats: a lock of TOML, JSON or YAML names a package in one
line and its version in one of the next, and a list has both in one line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.audit.packages import LIMIT, Installed

_LONG = 4_000
"""Characters of a line."""
_NAME = re.compile(r"""(?:-\s+)?["']?name["']?\s*[:=]\s*["']?([\w.-]+)["']?,?$""")
"""`name = "x"`, `"name": "x",` and `- name: x`."""
_KEY = re.compile(r"""["']?([\w.-]+)["']?\s*:\s*\{?$""")
"""`"x": {`, whose version stands in a table of its own."""
_VERSION = re.compile(r"""["']?(?:version|versionInfo)["']?\s*[:=]\s*["']?=*([^"',\s]+)["']?,?$""")
_PINNED = re.compile(r"""(?:-\s+)?["']?([\w.-]+)(?:\[[^\]]*\])?\s*={1,3}\s*([^"',;\s=]+)""")
"""`x==1.2.3` of a list, and `- x=1.2.3=build` of conda."""
_FILE = re.compile(r"/([\w.-]+?)-(\d[^-/\s]*)-[^/\s]*\.(?:whl|conda)(?=[#\s\"']|$)")
"""The address of a wheel or of a package of conda."""
_OTHER_FILE = re.compile(r"(?m)^\s*(?:-r|--requirement)[= ]?\s*(\S+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PinPlace:
    """Where a package is pinned."""

    file: str
    """From the root of the repository that we are in; absolute where it lies outside of it."""
    line: int | None
    """Counted from 1; None where it is not known."""


def place_of(installed: Installed, package: str) -> PinPlace | None:
    """Return where a package is pinned; None where no file says so, as for an interpreter."""
    path = file_of(installed)
    if installed.form == "interpreter" or path is None:
        return None
    found = next(_in_files(path, package, installed.version(package), (path,)), None)
    return found or PinPlace(file=_in_repository(path), line=None)


def _in_repository(path: Path) -> str:
    """Return a path as annotations name it: from the folder that has `.git`, else from here."""
    here = Path.cwd()
    # pathlib raises where a folder above may not be searched.
    above = (here, *here.parents)
    root = next((one for one in above if os.path.exists(one / ".git")), here)  # noqa: PTH110
    whole = Path(os.path.normpath(here / path))
    return (whole.relative_to(root) if whole.is_relative_to(root) else whole).as_posix()


def file_of(installed: Installed) -> Path | None:
    """Return the file, or the interpreter, of a set of packages; None for standard input."""
    path = Path(installed.what).expanduser()
    return path if path.is_file() else None


def _in_files(
    path: Path, package: str, version: str, opened: tuple[Path, ...]
) -> Iterator[PinPlace]:
    try:
        with path.open("rb") as file:
            text = file.read(LIMIT).decode(errors="replace")
    except OSError:
        return
    line = line_of(text, package, version)
    if line is not None:
        yield PinPlace(file=_in_repository(path), line=line)
    for other in _OTHER_FILE.findall(text) if line is None else ():
        inner = Path(os.path.normpath(path.parent / other))
        if inner not in opened:  # a file may include itself
            yield from _in_files(inner, package, version, (*opened, inner))


def line_of(text: str, package: str, version: str) -> int | None:
    """Return the line, from 1, that pins a package to a version; else None.

    In a lock it is that of the version, not of the name: it is the one that an upgrade changes.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    wanted = canonicalize_name(package)
    beginning = wanted.partition("-")[0]
    for number, line in enumerate(lines):
        # Most lines are about another package; no entry is so long, and searching one takes long.
        if beginning not in line.lower() or len(line) > _LONG:
            continue
        bare = line.strip()
        pinned = _PINNED.match(bare) or _FILE.search(unquote(bare))
        if pinned and canonicalize_name(pinned[1]) == wanted and _is_same(pinned[2], version):
            return number + 1
        named = _NAME.match(bare) or _KEY.match(bare)
        if named and canonicalize_name(named[1]) == wanted:
            below = _version_below(lines, number, version)
            if below is not None:
                return below + 1
    return None


def _version_below(lines: Sequence[str], start: int, version: str) -> int | None:
    """Return which of the next lines, up to the next name, has the version."""
    for number in range(start + 1, len(lines)):
        bare = lines[number].strip()
        found = _VERSION.match(bare)
        if found:
            return number if _is_same(found[1], version) else None
        if _NAME.match(bare) or not bare:
            return None
    return None


def _is_same(text: str, version: str) -> bool:
    try:
        return Version(text).public == Version(version).public
    except ValueError:  # also for a number of 5,000 digits
        return False
