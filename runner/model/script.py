"""The inline metadata of a script (PEP 723): text in, table and the code below it out."""

from __future__ import annotations

import ast
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.model.toml import read_table

# The expression of the specification, https://packaging.python.org/specifications/inline-script-metadata/
_BLOCK = re.compile(
    r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$",
)
_PARSING = threading.Lock()
_FIX = "A case has exactly one block between `# /// script` and `# ///`."


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """A script taken apart."""

    table: dict[str, Any]
    block: str
    code: str
    first_line: int
    text: str = field(default="", repr=False, compare=False)
    """All of it, as it was read: what is run, whatever becomes of the file meanwhile."""


def decode(content: bytes, where: str) -> str:
    """Return the text of a file; raises RunnerError when it is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        at = f"byte {content[error.start]:#04x} at offset {error.start}"
        raise refuse(Problem(where, f"not UTF-8 text ({at})", "Save it as UTF-8.")) from error


def tree(code: str) -> ast.Module:
    """Parse Python; raises what `ast.parse` does.

    One thread at a time: CPython counts the depth of a tree per interpreter, and where two threads
    build one each, both end in a SystemError now and then (seen on 3.11.7).
    """
    with _PARSING:
        return ast.parse(code)


def parse_python(text: str, where: str) -> ast.Module:
    """Parse a file as Python; raises RunnerError with the line."""
    try:
        return tree(text)
    except SyntaxError as error:
        at = f"{where}: line {error.lineno}"
        raise refuse(Problem(at, f"invalid Python: {error.msg}")) from error
    except (ValueError, MemoryError, RecursionError) as error:
        why = str(error) or "an expression is nested too deep"
        raise refuse(Problem(where, f"invalid Python: {why}")) from error


def has_block(text: str) -> bool:
    """Say whether a script says anything about itself."""
    return any(match["type"] == "script" for match in _BLOCK.finditer(text))


def parse_script(text: str, where: str) -> Script:
    """Take a script apart; raises RunnerError when there is not exactly one readable block."""
    matches = [match for match in _BLOCK.finditer(text) if match["type"] == "script"]
    if len(matches) != 1:
        what = f"{len(matches)} script blocks" if matches else "no script block"
        if not matches and "\r" in text:
            what += " that can be read: the lines end in \\r"
        raise refuse(Problem(where, what, _FIX))
    match = matches[0]
    content = "".join(
        line[2:] if line.startswith("# ") else line[1:]
        for line in match["content"].splitlines(keepends=True)
    )
    code = text[match.end() :]
    first_line = text.count("\n", 0, match.start("content")) + 1
    table = read_table(content, f"{where}: script block")
    return Script(table=table, block=match.group(0), code=code, first_line=first_line, text=text)
