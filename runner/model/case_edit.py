"""A case's text with other `fails` entries: comments, order and everything else stay.

An entry reaches from its header, with the comments directly above it, to the next header or to
the comments above that. Of an entry only the keys that change are written.

tomlkit does not do this: to it the comments above a header belong to the table before, so that
they go with that table, and a new entry gets between them and their own.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.model.case import parse_script

_OPENS, _CLOSES = "# /// script\n", "# ///"
_HEADER = re.compile(r"\[\[?[\w.\" -]+\]\]?\s*(#.*)?$")
_FAILS = re.compile(r"\[\[\s*tool\.repromatrix\.fails\s*\]\]")
_CLAIMS = re.compile(r"\[\[?[\w.\" -]*tool\.repromatrix\.claims[\w.\" -]*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"([\w-]+)\s*=")
KEYS = (
    *("when", "precisions", "devices", "workarounds", "variants"),
    *("outcome", "raises", "match", "where"),
)
"""The keys that are written; the others, such as `title` and `fixed-by`, are a person's."""
_WIDTH = 88


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One entry as it is to stand: its keys, and the number of the one whose place it takes."""

    keys: Mapping[str, Any] = field(default_factory=dict)
    replaces: int | None = None


def rewritten(text: str, where: str, kept: Sequence[int], entries: Sequence[Written]) -> str:
    """Return the text of a case in which only the kept and the given entries stand.

    Raises RunnerError where the block cannot be edited without touching anything else.
    """
    script = parse_script(text, where)
    content = script.block.removeprefix(_OPENS).removesuffix(_CLOSES)
    sections = _sections(
        [
            line[2:] if line.startswith("# ") else line[1:]
            for line in content.rstrip("\n").split("\n")
        ]
    )
    replacing = {entry.replaces: entry for entry in entries if entry.replaces is not None}
    fresh = [_fresh(entry.keys) for entry in entries if entry.replaces is None]
    lines = list(_assembled(sections, kept, replacing, fresh))
    block = _OPENS + "".join(f"# {line}".rstrip() + "\n" for line in lines) + _CLOSES
    result = text.replace(script.block, block, 1)
    _held(script.table, result, where, kept, entries)
    return result


def _sections(lines: Sequence[str]) -> list[list[str]]:
    """Cut before each header, the comments directly above it with it."""
    starts = [0]
    for start, _ in _statements(lines):
        if _HEADER.match(lines[start]):
            while start > starts[-1] and lines[start - 1].startswith("#"):
                start -= 1  # noqa: PLW2901
            starts += [start] if start else []
    ends = [*starts[1:], len(lines)]
    return [list(lines[start:end]) for start, end in zip(starts, ends, strict=True)]


def _statements(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where each key with its value, header, comment and empty line begins and ends."""
    start, text = 0, ""
    for end, line in enumerate(lines, 1):
        text = f"{text}\n{line}" if text else line
        if not _KEY.match(text) or _is_whole(text):
            yield start, end
            start, text = end, ""


def _is_whole(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # its value goes on in the next line
        return False
    return True


def _assembled(
    sections: Sequence[list[str]],
    kept: Sequence[int],
    replacing: Mapping[int, Written],
    fresh: Sequence[list[str]],
) -> Iterator[str]:
    """Yield the lines; new entries stand behind the last one, before the claims, or at the end."""
    ours = [number for number, section in enumerate(sections) if any(map(_FAILS.match, section))]
    claims = [number for number, section in enumerate(sections) if any(map(_CLAIMS.match, section))]
    place = ours[-1] + 1 if ours else (claims[0] if claims else len(sections))
    out: list[list[str]] = []
    for number, section in enumerate(sections):
        if number == place:
            out += fresh
        entry = ours.index(number) if number in ours else None
        if entry is None or entry in kept:
            out.append(section)
        elif entry in replacing:
            out.append(_edited(section, replacing[entry].keys))
    if place == len(sections):
        out += fresh
    for section in out:
        while section and not section[-1].strip():
            section.pop()
    for number, section in enumerate(filter(None, out)):
        yield from [""] * bool(number) + section


def _fresh(keys: Mapping[str, Any]) -> list[str]:
    lines = ["[[tool.repromatrix.fails]]"]
    for key in KEYS:
        if key in keys:
            lines += _line(key, keys[key])
    return lines


def _edited(section: Sequence[str], keys: Mapping[str, Any]) -> list[str]:
    """Replace the spans of the keys that change; a new key stands behind our last one."""
    spans = _spans(section)
    now = tomllib.loads("\n".join(section[_header(section) + 1 :]))
    out = list(section)
    behind = max(
        (end for key, (_, end) in spans.items() if key in KEYS), default=_header(section) + 1
    )
    added = [
        line for key in KEYS if key in keys and key not in spans for line in _line(key, keys[key])
    ]
    out[behind:behind] = added
    for key, (start, end) in sorted(spans.items(), key=lambda item: -item[1][0]):
        if key in KEYS and now.get(key) != keys.get(key):
            out[start:end] = _line(key, keys[key]) if key in keys else []
    return out


def _header(section: Sequence[str]) -> int:
    return next(number for number, line in enumerate(section) if _FAILS.match(line))


def _spans(section: Sequence[str]) -> dict[str, tuple[int, int]]:
    return {
        key[1]: (start, end)
        for start, end in _statements(section)
        if (key := _KEY.match(section[start]))
    }


def _line(key: str, value: Any) -> list[str]:  # noqa: ANN401 - a string or a list of strings
    line = f"{key} = {_value(value)}"
    if isinstance(value, str) or len(line) < _WIDTH:
        return [line]
    return [f"{key} = [", *(f"    {_value(one)}," for one in value), "]"]


def _value(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(map(_value, value))}]"


def _held(
    before: Mapping[str, Any],
    text: str,
    where: str,
    kept: Sequence[int],
    entries: Sequence[Written],
) -> None:
    """Read what was written: a block that says anything else than was meant is never kept."""
    after = parse_script(text, where).table
    meant = json.loads(json.dumps(before))
    old = meant["tool"]["repromatrix"].pop("fails", [])
    replacing = {entry.replaces: entry for entry in entries}
    wanted = [
        {key: value for key, value in entry.items() if key not in KEYS}
        | dict(replacing[number].keys)
        if number in replacing
        else entry
        for number, entry in enumerate(old)
        if number in kept or number in replacing
    ]
    wanted += [dict(entry.keys) for entry in entries if entry.replaces is None]
    if wanted:
        meant["tool"]["repromatrix"]["fails"] = wanted
    if after != meant:
        fix = "Write each entry of `fails` as a table of its own, one key a line."
        raise refuse(Problem(f"{where}: fails", "the entries cannot be edited in place", fix))
