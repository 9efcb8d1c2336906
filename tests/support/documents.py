"""Expected output as Markdown: what was typed, in which surroundings, and what was printed.

A document has a heading per example. `Given …` lines say what the example starts from; those above
the first example hold for all of them. The block of kind `console` is the command, `? 2` below it
the exit code where it is not 0; `stdout` and `stderr` are what was printed there, empty unless they
stand. A `Given` that ends in a colon goes on in the block below it.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COMMAND = "$ repromatrix"


@dataclass(frozen=True, kw_only=True, slots=True)
class Printed:
    """What a command leaves behind where it was typed."""

    out: str
    err: str
    code: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """One thing that an example starts from, with the block below it."""

    text: str
    block: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One command with what it prints."""

    path: Path
    title: str
    givens: tuple[Given, ...]
    arguments: tuple[str, ...]
    printed: Printed

    @property
    def name(self) -> str:
        """The name of its test."""
        return f"{self.path.stem}: {self.title}"


_PART = re.compile(
    r"^(?P<ticks>`{3,})(?P<kind>.*)\n(?P<block>(?:.*\n)*?)(?P=ticks)$"
    r"|^## (?P<title>.*)$|^Given (?P<given>.*?)\.?$",
    re.MULTILINE,
)
"""A block, a heading, or what is given; what looks like another one inside of a block is none."""


def read(path: Path) -> list[Example]:
    """Return the examples of a document, in its order."""
    top, *sections = _sections(path.read_text())
    shared = _givens(top)
    return [_example(path, shared, section) for section in sections]


def rewritten(text: str, title: str, printed: Printed) -> str:
    """Return a document with what was printed in the place of what an example expected."""
    top, *sections = _sections(text)
    begin = f"## {title}\n"
    mended = [_mended(one, printed) if one.startswith(begin) else one for one in sections]
    return "".join([top, *mended]).rstrip("\n") + "\n"


def _sections(text: str) -> list[str]:
    """Cut a document in front of its headings."""
    begins = [part.start() for part in _PART.finditer(text) if part["title"] is not None]
    return [text[begin:end] for begin, end in pairwise([0, *begins, len(text)])]


def _example(path: Path, shared: Sequence[Given], section: str) -> Example:
    blocks = {part["kind"]: part["block"] for part in _PART.finditer(section) if part["ticks"]}
    command, *more = blocks["console"].splitlines()
    assert command.startswith(COMMAND), f"{path}: {command} is no command"
    (code,) = [line.removeprefix("? ") for line in more] or ["0"]
    return Example(
        path=path,
        title=section.partition("\n")[0].removeprefix("## "),
        givens=(*shared, *_givens(section)),
        arguments=tuple(shlex.split(command.removeprefix(COMMAND))),
        printed=Printed(out=blocks.get("stdout", ""), err=blocks.get("stderr", ""), code=int(code)),
    )


def _givens(text: str) -> tuple[Given, ...]:
    """Return what is given, each with the block that follows where it ends in a colon."""
    parts = [*_PART.finditer(text), None]
    return tuple(
        Given(
            text=part["given"], block=below["block"] if below and part["given"][-1] == ":" else ""
        )
        for part, below in pairwise(parts)
        if part and part["given"]
    )


def _mended(section: str, printed: Printed) -> str:
    above, fence, rest = section.partition("```console\n")
    command, code = rest.partition("\n")[0], f"? {printed.code}\n" if printed.code else ""
    blocks = [f"{above}{fence}{command}\n{code}```\n"]
    for kind, text in (("stdout", printed.out), ("stderr", printed.err)):
        ticks = "`" * (max([2, *map(len, re.findall(r"(?m)^`{3,}", text))]) + 1)
        blocks += [f"{ticks}{kind}\n{text}{ticks}\n"] if text else []
    return "\n".join([*blocks, ""])
