"""A requirements file, or what `pip freeze` prints: its lines, each read by packaging."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from repromatrix.runner.audit.packages import Gathering
from repromatrix.runner.errors import Fault, Problem, RunnerError, more_to_do
from repromatrix.runner.text import plural, shorten

Open = Callable[[str, str], tuple[str, str]]
"""Open a file that another names: takes the naming file and the name, gives its path and text."""

_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--hash[= ]\S+")
_NESTED = re.compile(r"(?:-r|--requirement)[= ]?\s*(\S+)")
_EDITABLE = re.compile(r"(?:-e|--editable)[= ]?\s*(\S+)")
_EXACT = re.compile(r"={2,3}[^*,]+")
_FEW = 5
_LONGEST = 16_000
"""Characters of a line."""
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
    if editable or _is_address(line):
        _address(editable[1] if editable else line, gathered)
    elif not line.startswith("-"):
        _requirement(_HASH.sub("", line), markers, gathered)


def _is_address(line: str) -> bool:
    bare = line.split(" ", 1)[0]
    return "://" in bare or bare.startswith((".", "/")) or bare.endswith(".whl")


def _address(text: str, gathered: Gathering) -> None:
    """Note the package of an address: a wheel has it in its name, others may have `#egg=`."""
    address = urlsplit(text)
    try:
        name, version, *_ = parse_wheel_filename(unquote(PurePosixPath(address.path).name))
    except InvalidWheelFilename:
        egg = re.search(r"\begg=([\w.-]+)", address.fragment)
        if egg:
            gathered.leave(egg[1], "an address, not a version")
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
        gathered.leave(requirement.name, "an address, not a version")
    elif version:
        gathered.pin(requirement.name, version)
    else:
        gathered.leave(requirement.name, f"{requirement.specifier or 'any version'}, not a pin")
