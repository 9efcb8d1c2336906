"""Leave out of a Python program what nothing asks for any more: imports, names, functions. Pure."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from repromatrix.runner.scripts.folding import nothing, tidy_if, tidy_loop
from repromatrix.runner.scripts.syntax import bound, is_pure, read


class _Asked(NamedTuple):
    """What is asked for in a program, or in a function of it."""

    times: Counter[str]
    """How often each name is read."""
    looking: frozenset[str]
    """Functions that only look."""

    def pure(self, node: ast.expr) -> bool:
        """Say whether a program can do without an expression."""
        return is_pure(node, self.looking)


def without_dead_code(tree: ast.Module) -> None:
    """Leave out what is never read, as long as computing it only looks."""
    before = ""
    while before != (before := ast.dump(tree)):
        times, looking = Counter[str](), set[str]()
        for node in tree.body:
            counted, own = read(node), set[str]()
            if isinstance(node, ast.FunctionDef):
                own = _own(node)
                looking |= {node.name} if all(map(_looks, node.body)) else set()
            times.update({name: counted[name] for name in counted if name not in own})
        tree.body = _block(tree.body, _Asked(times, frozenset(looking)))


def _looks(node: ast.stmt) -> bool:
    match node:
        case ast.Return(value=value) | ast.Assign(targets=[ast.Name()], value=value):
            return value is None or is_pure(value)
        case _:
            return isinstance(node, ast.Pass)


def _block(body: Sequence[ast.stmt], asked: _Asked) -> list[ast.stmt]:
    return [left for node in body for left in _left(node, asked)]


def _own(function: ast.FunctionDef) -> set[str]:
    return set(bound(function.body) + bound([function.args]))


def _left(node: ast.stmt, asked: _Asked) -> list[ast.stmt]:  # noqa: PLR0911 - a table: one return per kind of statement
    """Return what is left of a statement: itself, nothing, or what it computes."""
    _tidy_inside(node, asked)
    match node:
        case ast.Import() | ast.ImportFrom():
            node.names = [one for one in node.names if asked.times[_name(one)]]
            return [node] if node.names else []
        case ast.FunctionDef(name=name):
            return [node] if asked.times[name] else []
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            return _pairs(node, names, values, asked)
        case ast.Assign(targets=[target], value=value):
            return _assigned(node, target, value, asked)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return _assigned(node, target, value, asked)
        case ast.AugAssign(target=target, value=value):
            return [] if _is_forgotten(target, asked) and asked.pure(value) else [node]
        case ast.Expr(value=ast.Name() | ast.Constant() | ast.Call(func=ast.Name())) if asked.pure(
            node.value
        ):
            return []
        case ast.If():
            return tidy_if(node)
        case ast.For() | ast.While():
            return tidy_loop(node)
        case _:
            return [node]


def _tidy_inside(node: ast.stmt, asked: _Asked) -> None:
    if isinstance(node, ast.ClassDef):
        return  # what a library asks of a class is nowhere read by its name: all of it stays
    if isinstance(node, ast.FunctionDef):
        counted = read(node)
        own = Counter({name: counted[name] for name in _own(node)})
        asked = asked._replace(times=asked.times | own)
    for part in [node, *getattr(node, "handlers", ())]:
        for name in ("body", "orelse", "finalbody"):
            if block := getattr(part, name, None):
                setattr(part, name, _block(block, asked))
        is_tidied = isinstance(node, (ast.If, ast.For, ast.While))
        if not is_tidied and getattr(part, "body", 1) == []:
            part.body = nothing(node)


def _name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _assigned(node: ast.stmt, target: ast.expr, value: ast.expr, asked: _Asked) -> list[ast.stmt]:
    if not _is_forgotten(target, asked):
        return [node]
    if asked.pure(value):
        return []
    is_single = isinstance(target, ast.Name)
    return [ast.copy_location(ast.Expr(value=value), node) if is_single else node]


def _pairs(
    node: ast.Assign, names: Sequence[ast.expr], values: Sequence[ast.expr], asked: _Asked
) -> list[ast.stmt]:
    pairs = [*zip(names, values, strict=len(names) == len(values))]
    left = [one for one in pairs if not (_is_forgotten(one[0], asked) and asked.pure(one[1]))]
    if len(left) == len(names) or not left:
        return [node] if left else []
    targets, kept = ([*some] for some in zip(*left, strict=True))
    is_one = len(left) == 1
    node.targets = targets if is_one else [ast.Tuple(elts=targets, ctx=ast.Store())]
    node.value = kept[0] if is_one else ast.Tuple(elts=kept, ctx=ast.Load())
    return [node]


def _is_forgotten(target: ast.expr, asked: _Asked) -> bool:
    match target:
        case ast.Name(id=name):
            return not asked.times[name]
        case ast.Tuple(elts=names):
            return all(isinstance(one, ast.Name) and not asked.times[one.id] for one in names)
        case _:
            return False
