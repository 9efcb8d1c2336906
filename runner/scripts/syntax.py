"""Questions about a syntax tree of Python: what it binds, what only looks. Pure."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from typing import Any

_DTYPES = frozenset({"float32", "bfloat16", "float16"})
_BUILTINS = frozenset(
    {
        *("abs", "all", "any", "bool", "dict", "float", "getattr", "hasattr", "int", "isinstance"),
        *("len", "list", "map", "max", "min", "next", "range", "set", "slice", "sorted", "str"),
        *("sum", "tuple", "type", "zip"),
    }
)
_METHODS = frozenset(
    {
        *("abs", "all", "any", "argmax", "double", "endswith", "exists", "flatten", "float"),
        *("get", "isfinite", "isinf", "isnan", "item", "items", "keys", "max", "mean", "min"),
        *("modules", "named_modules", "named_parameters", "norm", "numel", "parameters"),
        *("square", "startswith", "std", "sum", "values"),
    }
)
"""What only looks: at a tensor, at a module's parts, at a text or a container."""


def is_pure(node: ast.AST, functions: Iterable[str] = ()) -> bool:
    """Say whether an expression only looks, so that a program can do without it.

    `functions` are those of the program that only look. A method counts by its name, on a tensor:
    `float` of a module would change it.
    """
    known = {*functions, *_BUILTINS}
    return all(_looks(part, known) for part in ast.walk(node))


def _looks(part: ast.AST, known: set[str]) -> bool:
    match part:
        case ast.Call(func=ast.Name(id=name)):
            return name in known
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _METHODS
        case ast.Call() | ast.NamedExpr() | ast.Await() | ast.Yield() | ast.YieldFrom():
            return False
        case _:
            return True


def is_dtype(node: ast.AST) -> bool:
    """Say whether an expression is a dtype of torch by its name."""
    match node:
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return name in _DTYPES
        case _:
            return False


def is_word(node: ast.AST) -> bool:
    """Say whether an expression is a text, a truth value, None or a dtype."""
    match node:
        case ast.Constant(value=str() | bool() | None):
            return True
        case _:
            return is_dtype(node)


def bound(nodes: Iterable[ast.AST], *, keys: bool = False) -> Counter[str]:
    """Return how often each name is bound anywhere in some nodes.

    With `keys` also how often a value of it is set by its key.
    """
    found: Counter[str] = Counter()
    for node in nodes:
        for part in ast.walk(node):
            match part:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    found[name] += 1
                case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()) if keys:
                    found[name] += 1
                case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found[name] += 1
                case ast.ExceptHandler(name=str(name)):
                    found[name] += 1
                case ast.alias(name=name, asname=asname):
                    found[asname or name.partition(".")[0]] += 1
                case _:
                    pass
    return found


def leaking(tree: ast.AST) -> set[str]:
    """Return the names that are given away or asked for a method: either may change them."""
    found: set[str] = set()
    for part in ast.walk(tree):
        match part:
            case ast.Attribute(value=ast.Name(id=name)):
                found.add(name)
            case ast.Call(args=args, keywords=keywords):
                given = [*args, *(keyword.value for keyword in keywords if keyword.arg)]
                found |= {one.id for one in given if isinstance(one, ast.Name)}
            case _:
                pass
    return found


def display(node: ast.AST | None) -> dict[Any, ast.expr] | None:
    """Return the values of a dict that is written out, by its keys; None for anything else."""
    if not isinstance(node, ast.Dict):
        return None
    if not all(isinstance(key, ast.Constant) for key in node.keys):
        return None
    pairs = zip(node.keys, node.values, strict=True)
    return {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}


def read(tree: ast.AST) -> Counter[str]:
    """Return how often each name is read, but for what is known inside of an expression alone."""
    match tree:
        case ast.Name(id=name, ctx=ast.Load()):
            return Counter([name])
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            own = bound([tree])
        case _:
            own = Counter()
    found = Counter[str]()
    for part in ast.iter_child_nodes(tree):
        found.update(read(part))
    return Counter({name: found[name] for name in found if name not in own})
