"""What a workaround is held to: its snippet is its code, and some result shows it work. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from repromatrix.runner.errors import Problem
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import PLAIN, Case, syntax_tree
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.scripts.plain import fold_path
from repromatrix.runner.text import join

_LINES = 6


def refuted(judged: Iterable[Judged]) -> frozenset[str]:
    """Name the workarounds of a case that never work, by its judged cells.

    Such a one fails somewhere where the plain case fails, and passes in no such cell.
    """
    rows = {row.seen.cell: row.seen for row in judged}
    plain = {cell for cell, seen in rows.items() if cell.workaround == PLAIN and seen.reading.fails}
    beside = [
        (cell.workaround, seen)
        for cell, seen in rows.items()
        if cell.workaround != PLAIN and cell._replace(workaround=PLAIN) in plain
    ]
    passing = {name for name, seen in beside if seen.outcome is Outcome.PASSES}
    return frozenset(name for name, seen in beside if seen.reading.fails) - passing


def snippets(case: Case) -> Iterator[Problem]:
    """Yield what is wrong with the code to paste: it does what the script does for a workaround."""
    try:
        plain = (
            {ast.unparse(one) for one in _statements(case, PLAIN)} if case.block.snippets else ()
        )
    except SyntaxError:
        return  # said of the case itself
    for name in sorted(case.block.workarounds.keys() & case.block.snippets.keys()):
        snippet = case.block.snippets[name]
        key, lines = f"snippets.{name}", len(snippet.splitlines())
        if not 0 < lines <= _LINES:
            yield Problem(key, f"{lines} lines", f"Write 1 to {_LINES} lines, or no snippet.")
        try:
            used = {*_used(syntax_tree(snippet))}
        except SyntaxError as error:
            yield Problem(f"{key}: line {error.lineno}", f"invalid Python: {error.msg}")
            continue
        ours = _statements(case, name)
        branch = [node for node in ours if ast.unparse(node) not in plain]
        if other := used - {*chain.from_iterable(map(_words, _around(branch, ours) or ours))}:
            what = f"the code for this workaround has no {join(sorted(other))}"
            yield Problem(key, what, "Call, set and pass what the script does for it.")


def _statements(case: Case, workaround: str) -> list[ast.stmt]:
    """Return the statements that run with a workaround, but for definitions and imports."""
    tree = syntax_tree(case.script.code)
    fold_path(tree, case, Precision.FP16, *filter(None, [workaround]))
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.stmt))
    others = ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom
    return [node for node in nodes if not isinstance(node, others)]


def _around(branch: Sequence[ast.stmt], every: Iterable[ast.stmt]) -> list[ast.stmt]:
    """Return a branch with the statements that take a value of it or give it one."""
    turned = {ast.Load: ast.Store, ast.Store: ast.Load, ast.Del: ast.Del}
    ours = {(name, turned[kind]) for node in branch for name, kind in _names(node)}
    lines = (node for node in every if not isinstance(node, (ast.For, ast.With)))
    return [*branch, *(node for node in lines if not ours.isdisjoint(_names(node)))]


def _names(tree: ast.AST) -> Iterator[tuple[str, type[ast.expr_context]]]:
    """Yield each name and attribute, and whether it is read or set."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=how) | ast.Attribute(attr=name, ctx=how):
                yield name, type(how)
            case _:
                pass


def _used(tree: ast.AST) -> Iterator[str]:
    """Yield the names that are called, set or passed, and all texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(name)):
                yield name
            case _:
                pass


def _words(tree: ast.AST) -> Iterator[str]:
    """Yield every name and text."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(name)):
                yield name
            case _:
                pass
