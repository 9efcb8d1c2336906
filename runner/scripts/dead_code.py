"""Leave out of a Python program what nothing asks for any more: imports, names, functions. Pure."""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from repromatrix.runner.scripts.folding import nothing, tidy_if, tidy_loop
from repromatrix.runner.scripts.syntax import bound, display, filled, is_pure, read


def without_dead_code(tree: ast.Module) -> None:
    """Leave out what is never read, as long as computing it only looks."""
    before = ""
    while before != (before := ast.dump(tree)):
        tree.body = _Wanted.of(tree).block(tree.body)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """What is read of a program, or of a function of it, and what its functions do."""

    read: Counter[str]
    dicts: frozenset[str]
    """Names that are only bound to dicts that are written out."""
    captured: frozenset[str]
    """Names that are read by what runs later."""
    idle: frozenset[str]
    """Functions that do nothing."""
    looking: frozenset[str]
    """Functions that only look."""

    @classmethod
    def of(cls, tree: ast.Module) -> _Wanted:
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        dicts = _dicts(tree)
        times = _times([node for node in tree.body if node not in functions], dicts)
        for function in functions:
            own = _own(function)
            counted = _times([function], dicts)
            times.update({name: counted[name] for name in counted if name not in own})
        later = [part for part in ast.walk(tree) if isinstance(part, (ast.Lambda, ast.FunctionDef))]
        return cls(
            read=times,
            dicts=dicts,
            captured=frozenset(name for part in later for name in read(part)),
            idle=frozenset(one.name for one in functions if _is_idle(one)),
            looking=frozenset(one.name for one in functions if all(map(_looks, one.body))),
        )

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return what is left of statements that follow each other."""
        wanted = [
            node
            for number, node in enumerate(body)
            if not self._is_overwritten(node, body[number + 1 :])
        ]
        return [left for node in wanted for left in self._left(node)]

    def _of_function(self, function: ast.FunctionDef) -> _Wanted:
        times, counted = self.read.copy(), _times([function], self.dicts)
        times.update({name: counted[name] - times[name] for name in _own(function)})
        return dataclasses.replace(self, read=times)

    def _is_overwritten(self, node: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
        """Say whether a name gets another value before anybody reads this one."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name in self.captured or not self._is_pure(value):
                    return False
            case _:
                return False
        for later in rest:
            match later:
                case ast.Assign(targets=[ast.Name(id=again)], value=other) if again == name:
                    return not read(other)[name]
                case _ if name in read(later) or name in bound([later]):
                    return False
                case _:
                    pass
        return False

    def _left(self, node: ast.stmt) -> list[ast.stmt]:  # noqa: PLR0911 - a table: one return per kind of statement
        """Return what is left of a statement: itself, nothing, or what it computes."""
        self._tidy_inside(node)
        match node:
            case ast.Import() | ast.ImportFrom():
                node.names = [alias for alias in node.names if self._is_wanted(alias)]
                return [node] if node.names else []
            case ast.FunctionDef(name=name):
                return [node] if self.read[name] else []
            case ast.Assign(targets=[target], value=value):
                return self._assigned(node, target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._assigned(node, target, value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                return [] if not self.read[name] and self._is_pure(value) else [node]
            case ast.Expr(value=value):
                return [] if self._is_nothing(value) else [node]
            case ast.If():
                return tidy_if(node)
            case ast.For() | ast.While():
                return tidy_loop(node)
            case _:
                return [node]

    def _tidy_inside(self, node: ast.stmt) -> None:
        if isinstance(node, ast.ClassDef):
            # What a library asks of a class is nowhere read by its name: all of it stays.
            _drop_docstrings(node)
            return
        inside = self._of_function(node) if isinstance(node, ast.FunctionDef) else self
        blocks = ("body", "orelse", "finalbody")
        for part in [node, *getattr(node, "handlers", ())]:
            for name in blocks:
                if block := getattr(part, name, None):
                    setattr(part, name, inside.block(block))
            if (
                not isinstance(node, (ast.If, ast.For, ast.While))
                and getattr(part, "body", 1) == []
            ):
                part.body = nothing(node)

    def _assigned(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        match node, target, value:
            case ast.Assign(), ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(
                values
            ):
                return self._pairs(node, names, values)
            case _ if not self._is_forgotten(target):
                return [node]
            case _ if self._is_pure(value):
                return []
            case _, ast.Name(), _:
                return [ast.copy_location(ast.Expr(value=value), node)]
            case _:
                return [node]

    def _pairs(
        self, node: ast.Assign, names: Sequence[ast.expr], values: Sequence[ast.expr]
    ) -> list[ast.stmt]:
        """Return what is left of `a, b = x, y`."""
        left = [
            (target, value)
            for target, value in zip(names, values, strict=True)
            if not (self._is_forgotten(target) and self._is_pure(value))
        ]
        if len(left) == len(names) or not left:
            return [node] if left else []
        targets, kept = [target for target, _ in left], [value for _, value in left]
        if len(left) == 1:
            node.targets, node.value = targets, kept[0]
        else:
            node.targets = [ast.Tuple(elts=targets, ctx=ast.Store())]
            node.value = ast.Tuple(elts=kept, ctx=ast.Load())
        return [node]

    def _is_nothing(self, value: ast.expr) -> bool:
        match value:
            case ast.Name() | ast.Constant():
                return True
            case ast.Call(func=ast.Name(id=name), args=args):
                return name in self.idle and all(map(self._is_pure, args))
            case _:
                return False

    def _is_wanted(self, alias: ast.alias) -> bool:
        return self.read[alias.asname or alias.name.partition(".")[0]] > 0

    def _is_forgotten(self, target: ast.expr) -> bool:
        """Say whether names are never read, or the dict of which a value is set."""
        match target:
            case ast.Name(id=name):
                return not self.read[name]
            case ast.Tuple(elts=names):
                return all(isinstance(one, ast.Name) and not self.read[one.id] for one in names)
            case ast.Subscript(value=ast.Name(id=name)):
                return name in self.dicts and not self.read[name]
            case _:
                return False

    def _is_pure(self, node: ast.expr) -> bool:
        return is_pure(node, self.looking)


def _own(function: ast.FunctionDef) -> set[str]:
    """Return the names that are a function's own."""
    return set(bound(function.body) + bound([function.args]))


def _times(nodes: Sequence[ast.stmt], dicts: frozenset[str]) -> Counter[str]:
    """Return how often names are read; to set a value of a dict reads nothing."""
    found = Counter[str]()
    for node in nodes:
        found.update(read(node))
    by_key = filled(nodes)
    found.subtract({name: by_key[name] for name in dicts})
    return found


def _dicts(tree: ast.Module) -> frozenset[str]:
    found: dict[str, bool] = {}
    for part in ast.walk(tree):
        match part:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = found.get(name, True) and display(value) is not None
            case ast.For(target=ast.Name(id=name)) | ast.arg(arg=name):
                found[name] = False
            case _:
                pass
    return frozenset(name for name in found if found[name])


def _drop_docstrings(node: ast.ClassDef) -> None:
    for part in (node, *node.body):
        if isinstance(part, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(part):
            part.body = part.body[1:] or nothing(part)


def _is_idle(function: ast.FunctionDef) -> bool:
    return all(isinstance(node, ast.Pass) for node in function.body)


def _looks(node: ast.stmt) -> bool:
    match node:
        case ast.Return(value=value) | ast.Assign(targets=[ast.Name()], value=value):
            return value is None or is_pure(value)
        case _:
            return False
