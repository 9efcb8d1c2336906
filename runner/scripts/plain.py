"""The plain path of a case in one precision: a script to paste into an issue.

Workarounds, other precisions and what is only measured go; what is left fails as the case does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.model.case import Case, syntax_tree
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.scripts.dead_code import without_dead_code
from repromatrix.runner.scripts.folding import Folder
from repromatrix.runner.scripts.python_text import original, written
from repromatrix.runner.scripts.syntax import bound, is_dtype, leaking, read

_MAIN, _MEASURED = "main", "measured"
_DECLINES = "sys.exit(125)"

_Parameters = dict[str, dict[str, ast.expr]]
"""What is known of the parameters of functions."""


def plain(case: Case, precision: Precision) -> str:
    """Return the plain path of a case in one precision, on the device that the case needs.

    Raises RunnerError where the case has no `main` that takes its precision first, or declines to
    judge in that precision.
    """
    tree = syntax_tree(case.script.code)
    before = original(case.script.code, tree)
    main = fold_path(tree, case, precision)
    _name_measured(tree, main)
    _dissolve(tree, main)
    without_dead_code(tree)
    _refuse_declining(tree, case, precision)
    return written(tree, before)


def fold_path(tree: ast.Module, case: Case, *words: str) -> ast.FunctionDef:
    """Fold into the tree of a case what `main` is called with: its precision, a workaround.

    Return `main`; raises RunnerError where none takes the precision first.
    """
    main = next((one for one in _functions(tree) if one.name == _MAIN and one.args.args), None)
    if main is None:
        what = "the case has no function `main` that takes the precision first"
        raise refuse(Problem(case.where, what, "`case` with its name alone prints it as it is."))
    device = Device.CUDA if Device.CUDA in case.block.needs else Device.CPU
    (call,) = ast.parse(f"main({', '.join(map(repr, map(str, words)))})").body
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test).startswith("__name__"))
    ]
    tree.body.append(ast.copy_location(call, main))
    # What a function is called with is known once its callers are folded.
    while known := _pass_on(tree, {*words, device.value, case.variant}):
        _fold(tree, device, case.variant, known)
    return main


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _fold(
    tree: ast.Module, device: Device, variant: str, known: Mapping[str, Mapping[str, ast.expr]]
) -> None:
    functions = _functions(tree)
    outside = [node for node in tree.body if node not in functions]
    bindings = bound(outside, keys=True)
    elsewhere = {name for one in functions for name in bound(one.body, keys=True) - bound(one.body)}
    constants: dict[str, ast.expr] = {
        target.id: node.value
        for node in outside
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Constant, ast.Set))
        for target in node.targets
        if isinstance(target, ast.Name) and bindings[target.id] == 1
    }
    folder = Folder(
        device=device.value,
        variant=variant,
        constants=constants,
        bindings=bindings,
        leaking={_MEASURED, *leaking(tree), *elsewhere},
        parameters=known,
    )
    tree.body = folder.block(tree.body)


# Functions that are always called with the same


class _Call(NamedTuple):
    """What a call gives: lists of the syntax tree, to be changed in place."""

    positional: list[ast.expr]
    keywords: list[ast.keyword]


def _pass_on(tree: ast.Module, texts: set[str]) -> _Parameters:
    """Take parameters away for which every call gives the same word; return what they are.

    `texts` are the words that were put in, beside dtypes, truth values and None.
    """
    known: _Parameters = {}
    for function in (one for one in _functions(tree) if one.args.args):
        arguments, again = function.args, bound(function.body)
        names = [argument.arg for argument in arguments.args]
        first = len(names) - len(arguments.defaults)
        defaults = dict(zip(names[first:], arguments.defaults, strict=True))
        calls = _calls(tree, function)
        given = [{**defaults, **_given(call, names)} for call in calls]
        words = {name: _same([one.get(name) for one in given], texts) for name in names}
        passed = {name: word for name, word in words.items() if word and not again[name]}
        for call in calls if passed else ():
            pairs = zip(names, call.positional, strict=False)
            call.positional[:] = [value for name, value in pairs if name not in passed]
            call.keywords[:] = [one for one in call.keywords if one.arg not in passed]
        arguments.args = [one for one in arguments.args if one.arg not in passed]
        arguments.defaults = [defaults[one.arg] for one in arguments.args if one.arg in defaults]
        known |= {function.name: passed} if passed else {}
    return known


def _same(given: Sequence[ast.expr | None], texts: set[str]) -> ast.expr | None:
    dumped = {ast.dump(one) if one else "" for one in given}
    word = given[0] if len(dumped) == 1 else None
    match word:
        case None | ast.Constant(value=None | bool() | ""):
            return word
        case ast.Constant(value=str(text)):
            return word if text in texts else None
        case _:
            return word if is_dtype(word) else None


def _given(call: _Call, names: Sequence[str]) -> dict[str, ast.expr]:
    by_name = {one.arg: one.value for one in call.keywords if one.arg}
    return {**dict(zip(names, call.positional, strict=False)), **by_name}


def _calls(tree: ast.Module, function: ast.FunctionDef) -> list[_Call]:
    """Return the calls of a function; none where it is not only called, and simply."""
    parts = (part for part in ast.walk(tree) if isinstance(part, ast.Call))
    calls = [call for part in parts if (call := _call(part, function.name))]
    arguments = function.args
    special = arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg
    starred = any(
        isinstance(one, ast.Starred) or getattr(one, "arg", "") is None
        for call in calls
        for one in (*call.positional, *call.keywords)
    )
    return [] if special or starred or read(tree)[function.name] != len(calls) else calls


def _call(node: ast.Call, name: str) -> _Call | None:
    """Return what a call gives a function, or `Process(target=function, args=(...))` gives it."""
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    match node.func, keywords.get("target"), keywords.get("args"):
        case ast.Name(id=called), _, _ if called == name:
            return _Call(node.args, node.keywords)
        case _, ast.Name(id=target), ast.Tuple(elts=positional) if target == name:
            return _Call(positional, [])
        case _:
            return None


# What is measured


class _Renamed(ast.NodeTransformer):
    """Gives names of their own to the numbers that are measured."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Name a number."""
        if name := self.names.get(_key(node)):
            return ast.copy_location(ast.Name(id=name, ctx=node.ctx), node)
        self.generic_visit(node)
        return node


def _key(node: ast.AST) -> str:
    match node:
        case ast.Subscript(value=ast.Name(id="measured"), slice=ast.Constant(value=str(key))):
            return key
        case _:
            return ""


def _name_measured(tree: ast.Module, main: ast.FunctionDef) -> None:
    """Make variables of the numbers that only `main` itself knows, each set before it is read."""
    taken = {*bound([tree]), *read(tree)}
    keys = [key for part in _own(main) if (key := _key(part))]
    uses = sum(isinstance(part, ast.Name) and part.id == _MEASURED for part in ast.walk(tree))
    is_added = any(isinstance(part, ast.AugAssign) and _key(part.target) for part in _own(main))
    if uses == len(keys) + bound([tree])[_MEASURED] and not is_added:
        names = {key: re.sub(r"\W", "_", key) for key in keys}
        free = {key: f"{name}_value" if name in taken else name for key, name in names.items()}
        _Renamed(free).visit(tree)


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the parts of a function, without those of functions inside of it."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


# `main` and what it was called with


def _dissolve(tree: ast.Module, main: ast.FunctionDef) -> None:
    """Put the statements of `main` where it is called; not where a name would mean two things.

    It also stays where it returns, or is decorated, or still takes something.
    """
    others = [node for node in tree.body[:-1] if node is not main]
    outer = bound(node for node in others if not isinstance(node, ast.FunctionDef))
    outer.update(node.name for node in _functions(tree))
    returns = any(isinstance(part, ast.Return) for part in _own(main))
    if not (returns or main.decorator_list or {*bound(main.body)} & {*outer} or main.args.args):
        tree.body = [*others, *main.body]
    else:
        tree.body = [*others, main, tree.body[-1]]


def _refuse_declining(tree: ast.Module, case: Case, precision: Precision) -> None:
    bodies = [tree.body, *(function.body for function in _functions(tree))]
    if any(ast.unparse(node) == _DECLINES for body in bodies for node in body):
        others = [str(one) for one in Precision if one is not precision]
        what = f"{case.name} declines to judge in {precision}"
        raise refuse(Problem("--precision", what, f"Choose {' or '.join(others)}."))
