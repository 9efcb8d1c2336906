"""Put the body of a function that is called once where its call stands. Pure.

A function stays where that is not certainly the same program, and names stay what they are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from repromatrix.runner.scripts.syntax import bound, is_dtype, read

_UNFIT = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.AnnAssign),
    *(ast.Match, ast.Yield, ast.YieldFrom),
)
"""What means something else outside of a function, or binds names unseen."""
_FRAMES = frozenset({"dir", "eval", "exec", "globals", "locals", "vars"})
"""Functions that see which names there are."""


class _SingleCall(NamedTuple):
    """Where the call of a function stands: in a statement, as a field of one of its parts."""

    block: list[ast.stmt]
    statement: ast.Assign | ast.Expr
    part: ast.AST
    field: str


def inline(tree: ast.Module) -> None:
    """Put functions that are called once where they are called, one after the other."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if any(isinstance(part, ast.Global) for part in ast.walk(tree)):
        return
    if any(_is_put(tree, function) for function in functions if _is_straight(function)):
        inline(tree)


def _is_straight(function: ast.FunctionDef) -> bool:
    """Say whether a function goes from its beginning to its end, in names of its own."""
    *_, last = function.body
    parts = [part for node in function.body for part in ast.walk(node)]
    defaults = [*function.args.defaults, *function.args.kw_defaults]
    return not (
        function.decorator_list
        or defaults
        or any(isinstance(part, _UNFIT) for part in parts)
        or any(isinstance(part, ast.Return) and part is not last for part in parts)
        or _FRAMES & {*read(function)}
    )


def _is_put(tree: ast.Module, function: ast.FunctionDef) -> bool:
    """Put a function where it is called; say whether that was possible."""
    name = function.name
    call = next(_calls(tree.body, name), None)
    if call is None or not read(tree)[name] == bound([tree])[name] == 1:
        return False
    others = [node for node in tree.body if node is not function]
    body = _body(function, call, others)
    if body is None:
        return False
    place = call.block.index(call.statement)
    call.block[place : place + 1] = body
    tree.body.remove(function)
    return True


def _calls(block: list[ast.stmt], name: str) -> Iterator[_SingleCall]:
    """Yield the calls of a function that come first in statements that run once.

    Where exceptions are suppressed, half of a function's names would be known afterwards.
    """
    for node in block:
        match node:
            case ast.With() if not any("suppress" in ast.unparse(item) for item in node.items):
                yield from _calls(node.body, name)
            case ast.Assign() | ast.Expr():
                part, field = _first(node, "value")
                match getattr(part, field):
                    case ast.Call(func=ast.Name(id=called)) if called == name:
                        yield _SingleCall(block, node, part, field)
                    case _:
                        pass
            case _:
                pass


def _first(part: ast.AST, field: str) -> tuple[ast.AST, str]:
    """Return where that of an expression stands which is computed first: `x()` in `x().y[z]`."""
    match node := getattr(part, field):
        case ast.Call(func=ast.Call() | ast.Attribute() | ast.Subscript()):
            return _first(node, "func")
        case ast.Attribute() | ast.Subscript():
            return _first(node, "value")
        case _:
            return part, field


def _body(
    function: ast.FunctionDef, call: _SingleCall, others: Sequence[ast.stmt]
) -> list[ast.stmt] | None:
    """Return what does the same as the statement of a call; None where names are in the way."""
    given = _given(function, getattr(call.part, call.field))
    if given is None:
        return None
    again = bound(function.body)
    known = {name: value for name, value in given.items() if _is_known(value) and not again[name]}
    body: list[ast.stmt] = [
        *(_assigned(name, given[name], call) for name in given if name not in known),
        *(_Known(known).visit(copy.deepcopy(node)) for node in function.body),
    ]
    result = _result(call, function.body[-1])
    shared = result | {value.id for value in known.values() if isinstance(value, ast.Name)}
    elsewhere = {*bound(others), *(name for node in others for name in read(node))}
    if ({*bound(body)} - result) & elsewhere or shared & _changing(body, others):
        return None
    return _with_result(body, call)


def _given(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr] | None:
    """Return what a call gives for each parameter, in its order; None where that is not plain."""
    names = [argument.arg for argument in function.args.args]
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    given = dict(zip(names, call.args, strict=False)) | given
    unfit = any(isinstance(part, (ast.Starred, *_UNFIT)) for part in ast.walk(call))
    is_whole = given.keys() == bound([function.args]).keys() and len(given) == len(values)
    return given if is_whole and not unfit else None


def _is_known(value: ast.expr) -> bool:
    return isinstance(value, (ast.Constant, ast.Name)) or is_dtype(value)


class _Known(ast.NodeTransformer):
    """Puts what is known of parameters in their place."""

    def __init__(self, known: Mapping[str, ast.expr]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a parameter."""
        return copy.deepcopy(self.known.get(node.id, node))


def _assigned(name: str, value: ast.expr, call: _SingleCall) -> ast.stmt:
    target = ast.Name(id=name, ctx=ast.Store())
    return ast.copy_location(ast.Assign(targets=[target], value=value), call.statement)


def _result(call: _SingleCall, last: ast.stmt) -> set[str]:
    """Return the name that a result has inside and outside, if it has one for both."""
    match call.statement, last:
        case (
            ast.Assign(targets=[ast.Name(id=target)], value=value),
            ast.Return(value=ast.Name(id=name)),
        ) if name == target and not read(value)[target]:
            return {target}
        case _:
            return set()


def _changing(body: Sequence[ast.stmt], others: Sequence[ast.stmt]) -> set[str]:
    """Return the names that are bound more than once and read by what may run in between."""
    bindings, found = bound(others), set[str]()
    for part in (part for node in (*body, *others) for part in ast.walk(node)):
        match part:
            case ast.FunctionDef(args=parameters):
                found |= {*read(part)} - {*bound([parameters])}
            case ast.Lambda() | ast.GeneratorExp():
                found |= {*read(part)}
            case _:
                pass
    return {name for name in found if bindings[name] > 1}


def _with_result(body: Sequence[ast.stmt], call: _SingleCall) -> list[ast.stmt] | None:
    """Return statements with that of their call, which takes what they return."""
    is_all = call.part is call.statement
    match body, call.statement:
        case (
            [*first, ast.Return(value=ast.Name(id=name))],
            ast.Assign(targets=[ast.Name(id=target)]),
        ) if is_all and name == target:
            return first
        case [*first, ast.Return(value=ast.expr() as value)], statement:
            setattr(call.part, call.field, value)
            return [*first, statement]
        case _, ast.Expr() if is_all:
            return [node for node in body if not isinstance(node, ast.Return)]
        case _:
            return None
