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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Block:
    kind: str
    text: str


def read(path: Path) -> list[Example]:
    """Return the examples of a document, in its order."""
    top, *sections = _sections(path.read_text())
    shared = tuple(_givens(_parts(top)))
    return [_example(path, shared, section) for section in sections]


def rewritten(text: str, title: str, printed: Printed) -> str:
    """Return a document with what was printed in the place of what an example expected."""
    top, *sections = _sections(text)
    mended = [_mended(one, printed) if _title(one) == title else one for one in sections]
    return "".join([top, *mended]).rstrip("\n") + "\n"


def _sections(text: str) -> list[str]:
    """Cut a document in front of its headings; what looks like one inside of a block is none."""
    found, fence = [""], ""
    for line in text.splitlines(keepends=True):
        ticks = re.match(r"(`{3,})", line)
        if ticks and not fence:
            fence = ticks[1]
        elif line.rstrip("\n") == fence:
            fence = ""
        elif line.startswith("## ") and not fence:
            found.append("")
        found[-1] += line
    return found


def _example(path: Path, shared: Sequence[Given], section: str) -> Example:
    parts = list(_parts(section))
    blocks = {one.kind: one.text for one in parts if isinstance(one, _Block)}
    command, *more = blocks["console"].splitlines()
    assert command.startswith(COMMAND), f"{path}: {command} is no command"
    (code,) = [line.removeprefix("? ") for line in more] or ["0"]
    return Example(
        path=path,
        title=_title(section),
        givens=(*shared, *_givens(parts)),
        arguments=tuple(shlex.split(command.removeprefix(COMMAND))),
        printed=Printed(out=blocks.get("stdout", ""), err=blocks.get("stderr", ""), code=int(code)),
    )


def _title(section: str) -> str:
    return section.partition("\n")[0].removeprefix("## ")


def _parts(text: str) -> Iterator[str | _Block]:
    """Yield the lines of a section, and its blocks whole."""
    lines = iter(text.splitlines())
    for line in lines:
        ticks = re.match(r"(`{3,})(.*)", line)
        if not ticks:
            yield line
            continue
        inside = iter(lines.__next__, ticks[1])
        yield _Block(kind=ticks[2], text="".join(f"{one}\n" for one in inside))


def _givens(parts: Iterator[str | _Block] | Sequence[str | _Block]) -> Iterator[Given]:
    open_ = ""
    for one in parts:
        if isinstance(one, _Block):
            if open_:
                yield Given(text=open_, block=one.text)
            open_ = ""
        elif one.startswith("Given "):
            text = one.removeprefix("Given ")
            if text.endswith(":"):
                open_ = text
            else:
                yield Given(text=text.removesuffix("."), block="")


def _mended(section: str, printed: Printed) -> str:
    above, fence, rest = section.partition("```console\n")
    command, code = rest.partition("\n")[0], f"? {printed.code}\n" if printed.code else ""
    blocks = [f"{above}{fence}{command}\n{code}```\n"]
    for kind, text in (("stdout", printed.out), ("stderr", printed.err)):
        ticks = "`" * (max([2, *map(len, re.findall(r"(?m)^`{3,}", text))]) + 1)
        blocks += [f"{ticks}{kind}\n{text}{ticks}\n"] if text else []
    return "\n".join([*blocks, ""])
