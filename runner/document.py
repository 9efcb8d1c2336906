"""An answer as a document, and its writers: text for a terminal, Markdown to paste, JSON.

A command says what it has to say once, in these parts; how that looks is decided here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from repromatrix.runner.markdown import fenced, plain, sentence, span
from repromatrix.runner.text import printable, printable_lines

_STEP = "  "
_BAR = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Code:
    """Words that Markdown shows as code: a command, a name, a message of others."""

    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that Markdown shows as code and links to an address, if there is one."""

    text: str
    address: str


@dataclass(frozen=True, slots=True)
class Hyperlink:
    """Words that Markdown links to an address, if there is one."""

    text: str
    address: str


Words = str | Code | Reference | Hyperlink
Line = Words | tuple[Words, ...]
"""What stands on one line: words, or several that follow each other."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A line with its name before it; names of one list are aligned in text."""

    name: Words
    line: Line


@dataclass(frozen=True, slots=True)
class Listing:
    """A list below its title, which may stand in another list."""

    title: Line
    entries: Sequence[Line | Fact | Listing]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences, each on a line of its own."""

    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; text aligns them and leaves the names of the columns out."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Line]]
    fold: str = ""
    """The summary below which Markdown folds it; then text leaves it out."""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines that stand as they are: a message, or commands."""

    text: str
    language: str


Part = Listing | Paragraph | Table | Verbatim
"""Without lines, entries or rows it is not written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """The answer of a command."""

    headline: Line = ""
    """The whole answer in a sentence; empty where it consists of several."""
    parts: Sequence[Part]
    data: Any
    """The answer for programs: keys and values are a contract."""
    repeat: str = ""
    """The command that repeats it, for whoever reads it elsewhere."""


def write(document: Document, form: str) -> str:
    """Return a document as `text`, `markdown` or `json`."""
    match form:
        case "json":
            return json.dumps(document.data, indent=1, ensure_ascii=False) + "\n"
        case "markdown":
            return _joined(_markdown(document))
        case _:
            return _joined([_said(document.headline), *map(_text, document.parts)])


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(filter(None, blocks)) + "\n"


# Text


def _text(part: Part) -> str:
    match part:
        case Paragraph(lines):
            return "\n".join(map(_said, lines))
        case Listing(title, entries) if entries:
            below = _indented(entries, _STEP if title else "")
            return "\n".join([*([_said(title)] if title else []), *below])
        case Verbatim(lines, _):
            return "\n".join(_STEP + printable(line) for line in lines.splitlines())
        case Table(_, rows, "") if rows:
            return "\n".join(_aligned([[*map(_said, row)] for row in rows]))
        case _:
            return ""


def _said(line: Line) -> str:
    """Return a line for a terminal, which obeys nothing that stands in it."""
    parts = line if isinstance(line, tuple) else (line,)
    return printable("".join(part if isinstance(part, str) else part.text for part in parts))


def _indented(entries: Sequence[Line | Fact | Listing], space: str) -> Iterator[str]:
    names = [len(_said(entry.name)) for entry in entries if isinstance(entry, Fact)]
    width = max(names, default=0)
    for entry in entries:
        match entry:
            case Fact(name, line):
                yield f"{space}{_said(name):<{width}}  {_said(line)}"
            case Listing(title, inner):
                yield f"{space}{_said(title)}"
                yield from _indented(inner, space + _STEP)
            case _:
                yield f"{space}{_said(entry)}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True) if width]
        yield f"{_STEP}{_STEP.join(cells)}".rstrip()


# Markdown


def _markdown(document: Document) -> Iterator[str]:
    if document.headline:
        yield f"**{_marked(document.headline)}**"
    yield from map(_pasted, document.parts)
    if document.repeat:
        yield f"Repeat it:\n\n{fenced(document.repeat, 'sh')}"


def _pasted(part: Part) -> str:
    match part:
        case Paragraph(lines):
            return "  \n".join(map(_marked, lines))
        case Listing(title, entries) if entries:
            above = f"**{_marked(title)}**\n\n" if title else ""
            return above + "\n".join(_items(entries, ""))
        case Table(columns, rows, fold) if rows:
            head = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
            table = "\n".join([*head, *map(_row, rows)])
            summary = f"<details><summary>{_mark(fold)}</summary>"
            return f"{summary}\n\n{table}\n\n</details>" if fold else table
        case Verbatim(lines, language):
            return fenced(printable_lines(lines), language)
        case _:
            return ""


def _marked(line: Line) -> str:
    """Return a line in which nothing of others is markup, and commands are code."""
    return "".join(map(_mark, line if isinstance(line, tuple) else (line,)))


def _mark(words: Words) -> str:
    match words:
        case Reference(text, address) if address:
            return f"[{span(printable(text))}]({address})"
        case Hyperlink(text, address) if address:
            return f"[{plain(printable(text))}]({address})"
        case Hyperlink(text):
            return plain(printable(text))
        case Reference(text) | Code(text):
            return span(printable(text))
        case _:
            return sentence(printable(words))


def _items(entries: Sequence[Line | Fact | Listing], space: str) -> Iterator[str]:
    for entry in entries:
        match entry:
            case Fact(name, line):
                yield f"{space}- {_mark(name)}: {_marked(line)}"
            case Listing(title, inner):
                yield f"{space}- {_marked(title)}"
                yield from _items(inner, space + _STEP)
            case _:
                yield f"{space}- {_marked(entry)}"


def _row(cells: Sequence[Line]) -> str:
    # A bar would end a cell of a table, even within code.
    marked = (_BAR.sub(r"\\|", _marked(cell)) for cell in cells)
    return f"| {' | '.join(marked)} |"
