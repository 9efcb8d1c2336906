"""A requirements file, or what `pip freeze` prints: its lines, each read by packaging."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from repromatrix.runner.audit.packages import Gathering
from repromatrix.runner.errors import Fault, OldFault, RunnerError

Open = Callable[[str, str], tuple[str, str]]
"""Reads a file that a file names: where and what in, where and text out."""

_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--hash[= ]\S+")
_NESTED = re.compile(r"(?:-r|--requirement)[= ]?\s*(\S+)")
_EDITABLE = re.compile(r"(?:-e|--editable)[= ]?\s*(\S+)")
_EXACT = re.compile(r"={2,3}[^*,]+")
_FEW = 5
_LONGEST = 16_000
ALLOWED = "a line like `name==1.2.3`, or what pip takes"


def read_requirements(text: str, where: str, markers: Mapping[str, str], opened: Open) -> Gathering:
    """Return the packages of a requirements file; raises RunnerError with its unreadable lines."""
    found, faults = Gathering(), list[Fault]()
    _read(text, where, (markers, opened), (found, faults), (where,))
    if faults:
        more = len(faults) - _FEW
        last = OldFault(where=where, found=f"{more} more such lines", allowed=ALLOWED)
        raise RunnerError([*faults[:_FEW], *([last] if more > 0 else [])])
    return found


def _read(
    text: str,
    where: str,
    given: tuple[Mapping[str, str], Open],
    into: tuple[Gathering, list[Fault]],
    open_files: tuple[str, ...],
) -> None:
    markers, opened = given
    found, faults = into
    for number, line in _logical_lines(text):
        nested = _NESTED.fullmatch(line)
        if nested:
            inner, content = opened(where, nested[1])
            if inner not in open_files:  # one that names itself has been read
                _read(content, inner, given, into, (*open_files, inner))
            continue
        try:
            _line(line, markers, found)
        except ValueError as error:
            key, shown = f"line {number}", f"{line[:60]!r} ({error})"
            faults.append(OldFault(where=where, key=key, found=shown, allowed=ALLOWED))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield what stands in the file, continued lines joined, with the number of the first."""
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


def _line(line: str, markers: Mapping[str, str], found: Gathering) -> None:
    """Read one requirement; raises ValueError where it is none."""
    if line.endswith("\\"):
        msg = "the file ends inside of it: it is cut off"
        raise ValueError(msg)
    editable = _EDITABLE.match(line)
    if editable or _is_address(line):
        _address(editable[1] if editable else line, found)
    elif not line.startswith("-"):
        _requirement(_HASH.sub("", line), markers, found)


def _is_address(line: str) -> bool:
    bare = line.split(" ", 1)[0]
    return "://" in bare or bare.startswith((".", "/")) or bare.endswith(".whl")


def _address(text: str, found: Gathering) -> None:
    """Note what an address says it is: a wheel in its name, others in their egg, if at all."""
    address = urlsplit(text)
    try:
        name, version, *_ = parse_wheel_filename(unquote(PurePosixPath(address.path).name))
    except InvalidWheelFilename:
        egg = re.search(r"\begg=([\w.-]+)", address.fragment)
        if egg:
            found.leave(egg[1], "an address, not a version")
        else:
            found.nameless += 1
    else:
        found.pin(name, str(version))


def _requirement(line: str, markers: Mapping[str, str], found: Gathering) -> None:
    if len(line) > _LONGEST:
        msg = f"{len(line)} characters"
        raise ValueError(msg)
    try:
        one = Requirement(line)
    except (InvalidRequirement, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(reason) from error
    found.conditional = found.conditional or one.marker is not None
    if one.marker is not None and not one.marker.evaluate(dict(markers)):
        if _EXACT.fullmatch(str(one.specifier)):
            found.pass_over(one.name, next(iter(one.specifier)).version, str(one.marker))
        return
    if one.url:
        found.leave(one.name, "an address, not a version")
    elif _EXACT.fullmatch(str(one.specifier)):
        found.pin(one.name, next(iter(one.specifier)).version)
    else:
        found.leave(one.name, f"{one.specifier or 'any version'}, not a pin")
