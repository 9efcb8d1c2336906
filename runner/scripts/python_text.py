"""A changed syntax tree as text: what was not changed stands as its author wrote it. Pure."""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

WIDTH = 100
_INDENT = "    "
_FOR_TOOLS = re.compile(r"  # (?:noqa|isort|type: ignore|fmt)\b.*$")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_FSTRING_STARTS, _FSTRING_ENDS = (
    {getattr(tokenize, f"{kind}STRING_{end}", -1) for kind in "FT"} for end in ("START", "END")
)
"""From Python 3.12 on an f-string is many tokens, from 3.14 on a t-string as well."""


class Original(NamedTuple):
    """A file, and what every statement of it was before the tree was changed."""

    lines: tuple[str, ...]
    statements: dict[tuple[int, int], str]

    def holds(self, node: ast.stmt) -> bool:
        """Say whether a statement is what it was."""
        return self.statements.get((node.lineno, node.col_offset)) == ast.dump(node)


def original(source: str, tree: ast.Module) -> Original:
    """Remember what a tree is, before it is changed."""
    statements = {
        (node.lineno, node.col_offset): ast.dump(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
    }
    return Original(tuple(source.splitlines()), statements)


def written(tree: ast.Module, before: Original) -> str:
    """Return a tree as text, whose statements have the places that they had before."""
    lines = _block(tree.body, before, "")
    return "".join(f"{line}\n" for line in lines)


def _block(body: Sequence[ast.stmt], before: Original, indent: str) -> Iterator[str]:
    last: ast.stmt | None = None
    for node in body:
        if last is not None:
            yield from [""] * _gap(last, node, before, indent)
        yield from _statement(node, before, indent)
        last = node


def _gap(last: ast.stmt, node: ast.stmt, before: Original, indent: str) -> int:
    definitions = (ast.FunctionDef, ast.ClassDef)
    if isinstance(last, definitions) or isinstance(node, definitions):
        return 1 if indent else 2
    between = before.lines[last.end_lineno or last.lineno : node.lineno - 1]
    # Where a function begins in between, one of the two was moved.
    is_elsewhere = last.col_offset and any(line.startswith("def ") for line in between)
    return int(not is_elsewhere and any(not line.strip() for line in between))


def _statement(node: ast.stmt, before: Original, indent: str) -> Iterator[str]:
    is_elif = before.lines[node.lineno - 1].startswith("elif", node.col_offset)
    if before.holds(node) and not is_elif:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        for line in before.lines[first - 1 : node.end_lineno]:
            yield (indent + _FOR_TOOLS.sub("", line)[node.col_offset :]).rstrip()
    elif isinstance(node, ast.If):
        yield from _branches(node, before, indent)
    else:
        yield from _parts(node, before, indent)


def _parts(node: ast.stmt, before: Original, indent: str) -> Iterator[str]:
    """Yield a statement that was changed: its head, and what stands below it."""
    if not hasattr(node, "body"):
        yield from wrapped(ast.unparse(node), indent)
        return
    bare = copy.copy(node)
    for name in ("body", "orelse", "finalbody"):
        if getattr(node, name, None):
            setattr(bare, name, [ast.Pass()])
    heads = [line for line in ast.unparse(bare).splitlines() if line.strip() != "pass"]
    handlers = getattr(node, "handlers", [])
    blocks = [node.body, *(one.body for one in handlers)]
    blocks += [block for name in ("orelse", "finalbody") if (block := getattr(node, name, None))]
    decorators = len(heads) - len(blocks)
    yield from (indent + line for line in heads[:decorators])
    for head, block in zip(heads[decorators:], blocks, strict=True):
        yield from wrapped(head, indent)
        yield from _block(block, before, indent + _INDENT)


def _branches(node: ast.If, before: Original, indent: str, word: str = "if") -> Iterator[str]:
    yield from wrapped(f"{word} {ast.unparse(node.test)}:", indent)
    yield from _block(node.body, before, indent + _INDENT)
    match node.orelse:
        case []:
            pass
        case [ast.If() as other]:
            yield from _branches(other, before, indent, "elif")
        case _:
            yield f"{indent}else:"
            yield from _block(node.orelse, before, indent + _INDENT)


def wrapped(line: str, indent: str = "") -> Iterator[str]:
    """Yield a line of code, on several lines where it is long and has brackets to break it in."""
    line = _double_quoted(line)
    first, *others = _places(line) if len(indent + line) > WIDTH else [0]
    last = others[-1] if others else first
    inside = line[first:last]
    if not inside:
        yield indent + line
        return
    is_short = len(indent + _INDENT + inside) <= WIDTH
    yield indent + line[:first]
    for start, end in pairwise([first, last] if is_short else [first, *others]):
        yield from wrapped(line[start:end].strip(), indent + _INDENT)
    yield from wrapped(line[last:], indent)


def _places(line: str) -> list[int]:
    """Return where the outermost brackets with the longest text begin, have commas, and end."""
    depth, spans = 0, [[0]]
    for token in _tokens(line):
        depth -= token.string in _CLOSING
        match depth, token.string:
            case 0, "(" | "[" | "{":
                spans.append([token.end[1]])
            case (0, ")" | "]" | "}") | (1, ","):
                spans[-1].append(token.start[1] + (token.string == ","))
            case _:
                pass
        depth += token.string in _OPENING
    return max(spans, key=lambda places: places[-1] - places[0])


def _tokens(line: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of a piece of a line, which may end before its brackets do.

    An f-string is one token, as it is up to Python 3.11: what is printed must be read there.
    """
    first, depth = None, 0
    with contextlib.suppress(tokenize.TokenError):
        for token in tokenize.generate_tokens(io.StringIO(line).readline):
            if token.type in _FSTRING_STARTS:
                first, depth = first if depth else token, depth + 1
            depth -= token.type in _FSTRING_ENDS
            if depth:
                continue
            if token.type in _FSTRING_ENDS and first:
                text = line[first.start[1] : token.end[1]]
                token = token._replace(type=tokenize.STRING, string=text, start=first.start)  # noqa: PLW2901
            yield token


def _double_quoted(line: str) -> str:
    for token in reversed([*_tokens(line)]):
        prefix, quote, text = token.string.partition("'")
        if token.type == tokenize.STRING and quote and not {'"', "\\"} & set(token.string):
            line = f'{line[: token.start[1]]}{prefix}"{text[:-1]}"{line[token.end[1] :]}'
    return line
