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
"""The keys that are written; `fixed-by` and `note` are a person's."""
_TITLE = "[[tool.repromatrix.fails]]"
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
    marked = content.rstrip("\n").split("\n")
    sections = _sections([line.removeprefix("#").removeprefix(" ") for line in marked])
    replacing = {entry.replaces: entry for entry in entries if entry.replaces is not None}
    added = [entry.keys for entry in entries if entry.replaces is None]
    fresh = [
        [_TITLE, *(line for key in KEYS if key in keys for line in _line(key, keys[key]))]
        for keys in added
    ]
    lines = list(_assembled(sections, kept, replacing, fresh))
    block = _OPENS + "".join(f"# {line}".rstrip() + "\n" for line in lines) + _CLOSES
    result = text.replace(script.block, block, 1)
    # A block that says anything else than was meant is never kept.
    meant = json.loads(json.dumps(script.table))
    wanted = [
        {key: value for key, value in entry.items() if key not in KEYS}
        | dict(replacing[number].keys)
        if number in replacing
        else entry
        for number, entry in enumerate(meant["tool"]["repromatrix"].pop("fails", []))
        if number in kept or number in replacing
    ] + [dict(keys) for keys in added]
    if wanted:
        meant["tool"]["repromatrix"]["fails"] = wanted
    if parse_script(result, where).table != meant:
        fix = "Write each entry of `fails` as a table of its own, one key a line."
        raise refuse(Problem(f"{where}: fails", "the entries cannot be edited in place", fix))
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
        if _KEY.match(text):
            try:
                tomllib.loads(text)
            except tomllib.TOMLDecodeError:  # its value goes on in the next line
                continue
        yield start, end
        start, text = end, ""


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


def _edited(section: Sequence[str], keys: Mapping[str, Any]) -> list[str]:
    """Replace the spans of the keys that change; a new key stands behind our last one."""
    below = next(number for number, line in enumerate(section, 1) if _FAILS.match(line))
    spans = {
        found[1]: (start, end)
        for start, end in _statements(section)
        if (found := _KEY.match(section[start]))
    }
    now = tomllib.loads("\n".join(section[below:]))
    behind = max((end for key, (_, end) in spans.items() if key in KEYS), default=below)
    out = list(section)
    out[behind:behind] = [
        line for key in KEYS if key in keys and key not in spans for line in _line(key, keys[key])
    ]
    for key, (start, end) in sorted(spans.items(), key=lambda item: -item[1][0]):
        if key in KEYS and now.get(key) != keys.get(key):
            out[start:end] = _line(key, keys[key]) if key in keys else []
    return out


def _line(key: str, value: Any) -> list[str]:  # noqa: ANN401 - a string or a list of strings
    line = f"{key} = {_value(value)}"
    if isinstance(value, str) or len(line) < _WIDTH:
        return [line]
    return [f"{key} = [", *(f"    {_value(one)}," for one in value), "]"]


def _value(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(map(_value, value))}]"
