"""The plain path of a case in one precision: a script to paste into an issue.

Workarounds, other precisions and what is only measured go; what is left fails as the case does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.model.case import Case, syntax_tree
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.scripts.dead_code import without_dead_code
from repromatrix.runner.scripts.folding import Folder
from repromatrix.runner.scripts.inlining import inline
from repromatrix.runner.scripts.python_text import Original, original, written
from repromatrix.runner.scripts.syntax import bound, changed, display, is_dtype, leaking, read

_MAIN, _MEASURED, _NUMBERS = "main", "measured", "numbers"
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
    main = next(filter(_is_main, tree.body), None)
    if not isinstance(main, ast.FunctionDef):
        what = "the case has no function `main` that takes the precision first"
        raise refuse(Problem(case.where, what, "`case` with its name alone prints it as it is."))
    device = Device.CUDA if Device.CUDA in case.block.needs else Device.CPU
    tree.body = [node for node in tree.body if not _is_entry(node)]
    known: _Parameters = {_MAIN: _chosen(main, precision)}
    main.args = _no_arguments()
    while known:  # what a function is called with is known once its callers are folded
        _fold(tree, device, case.variant, known)
        known = _pass_on(tree, {precision.value, device.value, case.variant})
    _name_measured(tree, main)
    _dissolve(tree, main)
    without_dead_code(tree)
    _refuse_declining(tree, case, precision)
    inline(tree)
    _spread(tree, before)
    without_dead_code(tree)
    return written(tree, before)


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == _MAIN and bool(node.args.args)


def _is_entry(node: ast.stmt) -> bool:
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case _:
            return False


def _no_arguments() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _chosen(main: ast.FunctionDef, precision: Precision) -> dict[str, ast.expr]:
    """Return what the parameters of `main` are: the precision, then their defaults."""
    first, *_ = main.args.args
    return {**_defaults(main), first.arg: ast.Constant(value=precision.value)}


def _defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    names = [argument.arg for argument in function.args.args]
    defaults = function.args.defaults
    return dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _fold(
    tree: ast.Module, device: Device, variant: str, known: Mapping[str, Mapping[str, ast.expr]]
) -> None:
    functions = _functions(tree)
    outside = [node for node in tree.body if node not in functions]
    bindings = bound([*outside])
    elsewhere = {name for one in functions for name in changed(one.body) - {*bound(one.body)}}
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
    for function in _functions(tree):
        calls = _calls(tree, function)
        names = [argument.arg for argument in function.args.args]
        for name in names if calls else []:
            given = [_argument(call, function, name) for call in calls]
            words = {ast.dump(word) for word in given if word is not None and _is_put(word, texts)}
            if len(words) != 1 or not all(word and ast.dump(word) in words for word in given):
                continue
            if bound(function.body)[name]:
                continue
            known.setdefault(function.name, {})[name] = next(filter(None, given))
            for call in calls:
                _take_argument(call, function, name)
            _take_parameter(function, name)
    return known


def _is_put(word: ast.expr, texts: set[str]) -> bool:
    match word:
        case ast.Constant(value=None | bool() | ""):
            return True
        case ast.Constant(value=str(text)):
            return text in texts
        case _:
            return is_dtype(word)


def _calls(tree: ast.Module, function: ast.FunctionDef) -> list[_Call]:
    """Return the calls of a function; none where it is not only called, and simply."""
    calls = [
        call
        for part in ast.walk(tree)
        if isinstance(part, ast.Call) and (call := _call(part, function.name))
    ]
    arguments = function.args
    special = arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg
    starred = any(
        any(isinstance(given, ast.Starred) for given in call.positional)
        or any(keyword.arg is None for keyword in call.keywords)
        for call in calls
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


def _argument(call: _Call, function: ast.FunctionDef, name: str) -> ast.expr | None:
    """Return what a call gives for a parameter, or its default."""
    place = _place(function, name)
    if place < len(call.positional):
        return call.positional[place]
    given = (keyword.value for keyword in call.keywords if keyword.arg == name)
    return next(given, _defaults(function).get(name))


def _place(function: ast.FunctionDef, name: str) -> int:
    return [argument.arg for argument in function.args.args].index(name)


def _take_argument(call: _Call, function: ast.FunctionDef, name: str) -> None:
    place = _place(function, name)
    call.positional[place : place + 1] = []
    call.keywords[:] = [keyword for keyword in call.keywords if keyword.arg != name]


def _take_parameter(function: ast.FunctionDef, name: str) -> None:
    defaults = _defaults(function)
    arguments = function.args
    arguments.args = [argument for argument in arguments.args if argument.arg != name]
    arguments.defaults = [defaults[one.arg] for one in arguments.args if one.arg in defaults]


# What is measured


class _Renamed(ast.NodeTransformer):
    """Gives names of their own to the numbers that are measured, or another one to all of them."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Name a number."""
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if (
                name == _MEASURED and key in self.names
            ):
                return ast.copy_location(ast.Name(id=self.names[key], ctx=node.ctx), node)
            case _:
                self.generic_visit(node)
                return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Name all of them."""
        if node.id == _MEASURED:
            node.id = self.names[_MEASURED]
        return node


def _name_measured(tree: ast.Module, main: ast.FunctionDef) -> None:
    """Make variables of the numbers of `main`, or an ordinary dict where it is used as one."""
    taken = {*bound([tree]), *read(tree)}
    keys = _measured_keys(tree, main)
    names = {key: _free(re.sub(r"\W", "_", key), taken) for key in keys}
    _Renamed({**names, _MEASURED: _free(_NUMBERS, taken)}).visit(tree)


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else f"{name}_value"


def _measured_keys(tree: ast.Module, main: ast.FunctionDef) -> set[str]:
    """Return the keys of numbers that only `main` itself knows, each set before it is read."""
    keyed = [
        (part, part.slice.value)
        for part in _own(main)
        if isinstance(part, ast.Subscript)
        and isinstance(part.value, ast.Name)
        and part.value.id == _MEASURED
        and isinstance(part.slice, ast.Constant)
    ]
    added = {id(part.target) for part in ast.walk(main) if isinstance(part, ast.AugAssign)}
    uses = sum(isinstance(part, ast.Name) and part.id == _MEASURED for part in ast.walk(tree))
    declared = bound([tree])[_MEASURED]
    simple = uses == len(keyed) + declared and not any(id(part) in added for part, _ in keyed)
    return {str(key) for _, key in keyed} if simple else set()


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
    """Put the statements of `main` behind all others; it stays where a name would mean two things.

    It also stays where it returns, or is decorated.
    """
    others = [node for node in tree.body if node is not main]
    outer = bound(node for node in others if not isinstance(node, ast.FunctionDef))
    outer.update(node.name for node in _functions(tree))
    is_bound_again = {*bound(main.body)} & {*outer}
    returns = any(isinstance(part, ast.Return) for part in _own(main))
    if is_bound_again or returns or main.decorator_list:
        call = ast.Call(func=ast.Name(id=_MAIN, ctx=ast.Load()), args=[], keywords=[])
        tree.body = [*others, main, ast.copy_location(ast.Expr(value=call), main)]
    else:
        tree.body = [*others, *main.body]


def _spread(tree: ast.Module, before: Original) -> None:
    """Put dicts that were folded, and are used once as `**name`, where they are used."""
    times, bindings = read(tree), bound([tree])
    values = {
        target.id: written_out
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and not before.holds(node)
        for target in node.targets
        if isinstance(target, ast.Name) and times[target.id] == bindings[target.id] == 1
        if (written_out := display(node.value)) is not None
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            call.keywords = [*_spelled(call.keywords, values)]


def _spelled(
    keywords: Iterable[ast.keyword], values: Mapping[str, Mapping[str, ast.expr]]
) -> Iterator[ast.keyword]:
    for keyword in keywords:
        match keyword:
            case ast.keyword(arg=None, value=ast.Name(id=name)) if name in values and all(
                isinstance(value, ast.Constant) or is_dtype(value)
                for value in values[name].values()
            ):
                yield from (ast.keyword(arg=key, value=one) for key, one in values[name].items())
            case _:
                yield keyword


def _refuse_declining(tree: ast.Module, case: Case, precision: Precision) -> None:
    bodies = [tree.body, *(function.body for function in _functions(tree))]
    if any(ast.unparse(node) == _DECLINES for body in bodies for node in body):
        others = [str(one) for one in Precision if one is not precision]
        what = f"{case.name} declines to judge in {precision}"
        raise refuse(Problem("--precision", what, f"Choose {' or '.join(others)}."))
