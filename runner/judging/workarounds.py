"""What a workaround is held to: its snippet is its code, and some result shows it work. Pure."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

from repromatrix.runner.errors import Problem
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import PLAIN, Case, syntax_tree
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.scripts.plain import fold_path
from repromatrix.runner.text import join

_LINES, _BUILTINS = 6, frozenset(dir(builtins))
_FIX = "Call, set and pass what the script does for it."


def refuted(judged: Iterable[Judged]) -> set[str]:
    """Name the workarounds of a case that never work, by its judged cells.

    Such a one fails somewhere where the plain case fails, and passes in no such cell.
    """
    rows = [row.seen for row in judged]
    failing = {seen.cell for seen in rows if seen.reading.fails}
    beside = [seen for seen in rows if seen.cell._replace(workaround=PLAIN) in failing]
    passing = {seen.cell.workaround for seen in beside if seen.outcome is Outcome.PASSES}
    return {seen.cell.workaround for seen in beside if seen.outcome.is_failure} - passing - {PLAIN}


def snippets(case: Case) -> Iterator[Problem]:
    """Yield what is wrong with the code to paste: it does what the script does for a workaround.

    Raises RunnerError where the script has no `main`.
    """
    plain = _lines(case, PLAIN) if case.block.snippets else {}
    for name in sorted(case.block.workarounds.keys() & case.block.snippets.keys()):
        key, snippet = f"snippets.{name}", case.block.snippets[name]
        lines = len(snippet.splitlines())
        if not 0 < lines <= _LINES:
            yield Problem(key, f"{lines} lines", f"Write 1 to {_LINES} lines, or no snippet.")
            continue
        try:
            used = {*_used(syntax_tree(snippet))}
        except SyntaxError as error:
            yield Problem(f"{key}: line {error.lineno}", f"invalid Python: {error.msg}")
            continue
        ours = _lines(case, name)
        branch = [line for line in ours if line not in plain and not line.startswith("def ")]
        told, given = _words(branch), set[str]().union(*(ours[line] for line in branch))
        simple = [line for line in ours if not line.startswith(("for ", "with "))]
        takes = [line for line in simple if given & _words([line]) and not line.startswith("def ")]
        gives = [line for line in simple if ours[line] & told]
        if other := used - _words([*branch, *takes, *gives] or ours):
            what = f"the code for this workaround has no {join(sorted(other))}"
            yield Problem(key, what, _FIX)
        elif used.isdisjoint(_words([*branch, *takes] or ours)):
            yield Problem(key, "nothing of it stands in the branch of this workaround", _FIX)


def _lines(case: Case, workaround: str) -> dict[str, set[str]]:
    """Return each statement that runs with a workaround as text, and the names that it sets."""
    tree = syntax_tree(case.script.code)
    fold_path(tree, case, Precision.FP16, *filter(None, [workaround]))
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.stmt))
    others = (ast.ClassDef, ast.Import, ast.ImportFrom)
    return {ast.unparse(node): {*_set(node)} for node in nodes if not isinstance(node, others)}


def _words(lines: Iterable[str]) -> set[str]:
    return set(re.findall(r"\w+", "\n".join(lines)))


def _set(tree: ast.AST) -> Iterator[str]:
    """Yield the names that are set, or whose attributes or values are; of a function its own."""
    for node in [tree] if isinstance(tree, ast.FunctionDef) else ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), ctx=ast.Store()):
                yield name
            case _:
                pass


def _used(tree: ast.Module) -> Iterator[str]:
    """Yield what is called, set or passed, but for Python's own, and all texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name not in _BUILTINS:
                yield name
            case ast.Call(func=ast.Attribute(attr=name)) | ast.keyword(arg=str(name)):
                yield name
            case ast.Attribute(value=ast.Name(id="torch"), attr=name):
                yield name
            case ast.Constant(value=str(text)):
                yield from _words([text])
            case ast.Attribute() | ast.Subscript():
                yield from _set(node)
            case _:
                pass
