"""Fold what is known of a Python program into its syntax tree. Pure.

Names become their values, and conditions, lookups, loops and blocks that are decided by them go.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repromatrix.runner.scripts.python_text import WIDTH
from repromatrix.runner.scripts.syntax import (
    bound,
    changed,
    display,
    is_dtype,
    is_pure,
    is_word,
    read,
)


def _is_same(left: object, right: object) -> bool:
    # A dtype is known by its name, a text that is made anew wherever it is asked for.
    return type(left) is type(right) and left == right


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
    ast.Is: _is_same,
    ast.IsNot: lambda left, right: not _is_same(left, right),
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_UNKNOWN = object()
_PREFIX, _DEVICE, _VARIANT = "REPRO_", "REPRO_DEVICE", "REPRO_VARIANT"
"""Environment variables of cases: none is set, but for those of the device and the variant."""


@dataclass(kw_only=True)
class Folder(ast.NodeTransformer):
    """Folds statements in their order; a name that is bound anew is no longer known."""

    device: str
    """Where the program computes: what the environment variable says."""
    variant: str = ""
    """Which variant is built; empty where the program has none."""
    words: dict[str, ast.expr] = field(default_factory=dict)
    """Names that stand for a word wherever they are read."""
    constants: dict[str, ast.expr] = field(default_factory=dict)
    """Constants and sets of the module that are bound once: conditions know them, and they stay."""
    displays: dict[str, dict[Any, ast.expr]] = field(default_factory=dict)
    """Names of dicts that are written out and of which only single values are read."""
    bindings: Counter[str] = field(default_factory=Counter)
    """How often each name is bound in the function."""
    leaking: set[str] = field(default_factory=set)
    """Names whose dicts may be changed elsewhere."""
    parameters: Mapping[str, Mapping[str, ast.expr]] = field(default_factory=dict)
    """What is known of the parameters of the module's functions."""

    def _inside(self, function: ast.FunctionDef) -> Folder:
        """Return what folds the body of a function."""
        bindings = bound(function.body) + bound([function.args])
        inside = self._hiding({*bindings, *self._bound_again()})
        inside.words |= self.parameters.get(function.name, {})
        inside.bindings = bindings
        return inside

    def _bound_again(self) -> set[str]:
        """Return the words that what runs later does not know."""
        return {name for name in self.words if self.bindings[name] > 1}

    def _hiding(self, hidden: Iterable[str]) -> Folder:
        names = set(hidden)
        return dataclasses.replace(
            self,
            words=_without(self.words, names),
            constants=_without(self.constants, names),
            displays=_without(self.displays, names),
        )

    # Statements

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return what is left of statements."""
        done: list[ast.stmt] = []
        for node in body:
            for left in self.statement(node):
                if not _is_joined(done, left, node):
                    done.append(left)
            if done and isinstance(done[-1], _ENDS):
                break
        return done

    def statement(self, node: ast.stmt) -> list[ast.stmt]:  # noqa: C901, PLR0911 - a table: one return per kind of statement
        """Return what is left of one statement: itself, none, or those that it held."""
        match node:
            case ast.If():
                return self._if(node)
            case ast.For() | ast.While():
                return self._loop(node)
            case ast.With():
                return self._with(node)
            case ast.Try():
                return self._try(node)
            case ast.FunctionDef():
                node.body = self._inside(node).block(node.body) or nothing(node)
                return [node]
            case ast.Assign(targets=[target]):
                return self._assign(node, target)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return self._named(node, name, value)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.BitOr()):
                return self._added(node, name)
            case ast.Assert():
                node.test = self.condition(node.test)
                return [] if self._is(node.test, truth=True) else [node]
            case ast.Expr():
                node.value = self.fold(node.value)
                return [] if isinstance(node.value, (ast.Constant, ast.Name)) else [node]
            case _:
                return self._other(node)

    def _other(self, node: ast.stmt) -> list[ast.stmt]:
        self._forget(changed([node]))
        self.generic_visit(node)
        return [node]

    def _added(self, node: ast.AugAssign, name: str) -> list[ast.stmt]:
        """Fold `name |= {…}`."""
        node.value = self.fold(node.value)
        before, more = self.displays.get(name), display(node.value)
        self._forget([name])
        if before is not None and more is not None:
            self.displays[name] = {**before, **more}
        return [node]

    def _if(self, node: ast.If) -> list[ast.stmt]:
        node.test = self.condition(node.test)
        decided = self.value(node.test)
        if decided is not _UNKNOWN:
            return self.block(node.body if decided else node.orelse)
        before = dict(self.words), dict(self.displays)
        node.body = self.block(node.body)
        self.words, self.displays = before
        node.orelse = self.block(node.orelse)
        self._forget(changed([*node.body, *node.orelse]))
        return tidy_if(node)

    def _loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        self._forget(changed([node]))
        if isinstance(node, ast.For):
            node.iter = self.fold(node.iter)
            if isinstance(node.iter, (ast.List, ast.Tuple)) and not node.iter.elts:
                return self.block(node.orelse)
        else:
            node.test = self.condition(node.test)
            if self.value(node.test) is False:
                return self.block(node.orelse)
        node.body = self.block(node.body)
        node.orelse = self.block(node.orelse)
        self._forget(changed([node]))
        return tidy_loop(node)

    def _with(self, node: ast.With) -> list[ast.stmt]:
        for item in node.items:
            item.context_expr = self.fold(item.context_expr)
        self._forget(changed(node.items))
        node.items = [item for item in node.items if item.optional_vars or not _is_idle(item)]
        body = self.block(node.body)
        node.body = body or nothing(node)
        return [node] if node.items else body

    def _try(self, node: ast.Try) -> list[ast.stmt]:
        self._forget(changed([node]))
        for handler in node.handlers:
            handler.body = self.block(handler.body) or nothing(node)
        node.body = self.block(node.body)
        node.orelse, node.finalbody = self.block(node.orelse), self.block(node.finalbody)
        self._forget(changed([node]))
        if not node.body or not (node.handlers or node.finalbody):
            return [*node.body, *node.orelse, *node.finalbody]
        return [node]

    def _assign(self, node: ast.Assign, target: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Subscript):
            target.slice = self.fold(target.slice)
        match target, node.value:
            case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                return self._pairs(node, names, values)
            case ast.Name(id=name), value:
                return self._named(node, name, value)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)), value if (
                name in self.displays
            ):
                node.value = self.fold(value)
                self.displays[name] = {**self.displays[name], key: node.value}
                return [node]
            case _:
                return self._other(node)

    def _named(
        self, node: ast.Assign | ast.AnnAssign, name: str, value: ast.expr
    ) -> list[ast.stmt]:
        before = ast.dump(value)
        node.value = self.fold(value)
        self._learn(name, node.value, was_folded=ast.dump(node.value) != before)
        is_itself = isinstance(node.value, ast.Name) and node.value.id == name
        return [] if is_itself else [node]

    def _pairs(
        self, node: ast.Assign, names: Sequence[ast.expr], values: Sequence[ast.expr]
    ) -> list[ast.stmt]:
        """Fold `a, b = x, y`, a pair at a time."""
        before = [ast.dump(value) for value in values]
        folded = [self.fold(value) for value in values]
        node.value = ast.Tuple(elts=folded, ctx=ast.Load())
        self._forget(changed([node]))
        for target, value, was in zip(names, folded, before, strict=True):
            if isinstance(target, ast.Name):
                self._learn(target.id, value, was_folded=ast.dump(value) != was)
        return [node]

    def _learn(self, name: str, value: ast.expr, *, was_folded: bool) -> None:
        self._forget([name])
        is_alias = isinstance(value, ast.Name) and value.id in self.constants
        if was_folded and (is_word(value) or is_alias):
            self.words[name] = value
        values = display(value)
        if values is not None and name not in self.leaking:
            self.displays[name] = values

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.words.pop(name, None)
            self.displays.pop(name, None)

    # Expressions

    def fold(self, node: ast.expr) -> ast.expr:
        """Return an expression with what is known put in."""
        folded: ast.expr = self.visit(node)
        return folded

    def condition(self, node: ast.expr) -> ast.expr:
        """Fold an expression of which only the truth matters."""
        return self._needed(self.fold(node))

    def _needed(self, node: ast.expr) -> ast.expr:
        """Return a condition without the operands that decide nothing."""
        if not isinstance(node, ast.BoolOp):
            return node
        idle = isinstance(node.op, ast.And)
        values = [self._needed(value) for value in node.values]
        values = [each for each in values if not self._is(each, truth=idle)] or values[-1:]
        return values[0] if len(values) == 1 else ast.BoolOp(op=node.op, values=values)

    def value(self, node: ast.expr) -> Any:  # noqa: ANN401 - whatever a program holds
        """Return the value of an expression where it is known."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in self.constants:
                return self.value(self.constants[name])
            case ast.Attribute(attr=name) if is_dtype(node):
                return f"torch.{name}"
            case _:
                return _UNKNOWN

    def _members(self, node: ast.expr) -> Any:  # noqa: ANN401 - whatever a program holds
        """Return what is in a container that is written out."""
        match node:
            case ast.Name(id=name) if name in self.displays:
                return tuple(self.displays[name])
            case ast.Name(id=name) if name in self.constants:
                return self._members(self.constants[name])
            case ast.Dict() if (values := display(node)) is not None:
                return tuple(values)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                members = [self.value(one) for one in elements]
                return _UNKNOWN if _UNKNOWN in members else tuple(members)
            case _:
                return self.value(node)

    def _is(self, node: ast.expr, *, truth: bool) -> bool:
        value = self.value(node)
        return value is not _UNKNOWN and bool(value) is truth

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Put in a word for its name."""
        known = self.words.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return node if known is None else copy.deepcopy(known)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        """Fold a body that is run later: what is bound again meanwhile is not known there."""
        hidden = {*bound([node.args]), *self._bound_again()}
        node.body = self._hiding(hidden).fold(node.body)
        return node

    def _comprehension(self, node: ast.AST) -> ast.AST:
        hiding = self._hiding(bound([node]))
        return hiding.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815 - names of ast

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Decide a comparison of two known values."""
        self.generic_visit(node)
        compare = _COMPARED.get(type(node.ops[0])) if len(node.ops) == 1 else None
        left, right = self.value(node.left), self.value(node.comparators[0])
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            right = self._members(node.comparators[0])
        if compare is None or left is _UNKNOWN or right is _UNKNOWN:
            return node
        return ast.copy_location(ast.Constant(value=compare(left, right)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Decide as far as known operands come first, or what is before them only looks."""
        self.generic_visit(node)
        idle = isinstance(node.op, ast.And)
        left: list[ast.expr] = []
        for value in node.values:
            if self._is(value, truth=not idle):  # it decides
                left = [value] if all(map(is_pure, left)) else [*left, value]
                break
            left.append(value)
        kept = [one for one in left[:-1] if not self._is(one, truth=idle)] + left[-1:]
        return kept[0] if len(kept) == 1 else ast.BoolOp(op=node.op, values=kept)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """Decide a `not`."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and (value := self.value(node.operand)) is not _UNKNOWN:
            return ast.copy_location(ast.Constant(value=not value), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """Choose a branch."""
        self.generic_visit(node)
        node.test = self._needed(node.test)
        decided = self.value(node.test)
        if decided is _UNKNOWN:
            return node
        return node.body if decided else node.orelse

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Look a value up in a dict that is written out."""
        was_constant = isinstance(node.slice, ast.Constant)
        self.generic_visit(node)
        values = display(node.value)
        if isinstance(node.value, ast.Name):
            values = self.displays.get(node.value.id)
        elif not is_pure(node.value):
            return node
        key = self.value(node.slice)
        if values is None or not isinstance(node.ctx, ast.Load) or key not in values:
            return node
        found = values[key]
        again = any(self.bindings[name] > 1 for name in read(found))
        return node if again or (was_constant and not is_word(found)) else copy.deepcopy(found)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """Put known texts into an f-string."""
        self.generic_visit(node)
        parts: list[ast.expr] = []
        for part in node.values:
            match part:
                case ast.FormattedValue(
                    value=ast.Constant(value=str()) as text, conversion=-1, format_spec=None
                ):
                    part = text  # noqa: PLW2901 - the part, as it is now known
                case _:
                    pass
            match parts, part:
                case [*_, ast.Constant(value=str(before))], ast.Constant(value=str(after)):
                    parts[-1] = ast.Constant(value=before + after)
                case _:
                    parts.append(part)
        if len(parts) == 1 and isinstance(parts[0], ast.Constant):
            return parts[0]
        return ast.copy_location(ast.JoinedStr(values=parts), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Ask the surroundings, and leave out what says what holds anyway."""
        self.generic_visit(node)
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id="os"), attr="environ"), attr="get"
                )
                | ast.Attribute(value=ast.Name(id="os"), attr="getenv"),
                args=[ast.Constant(value=str(name)), *default],
            ) if name.startswith(_PREFIX):
                if name == _DEVICE:
                    return ast.copy_location(ast.Constant(value=self.device), node)
                if name == _VARIANT and self.variant:
                    return ast.copy_location(ast.Constant(value=self.variant), node)
                return default[0] if default else ast.Constant(value=None)
            case ast.Call(func=ast.Name(id="int"), args=[ast.Constant(value=str(text))]) if (
                text.isdigit()
            ):
                return ast.copy_location(ast.Constant(value=int(text)), node)
            case _:
                node.keywords = list(_keywords(node.keywords))
                return self._on_cpu(node) if self.device == "cpu" else node

    def _on_cpu(self, node: ast.Call) -> ast.expr:
        """Return a call without naming the device on which torch computes anyway."""
        match node.func:
            case ast.Attribute(value=moved, attr="to"):
                args = [each for each in node.args if not _is_cpu(each)]
                keywords = [each for each in node.keywords if not _is_cpu_keyword(each)]
                if (args, keywords) != (node.args, node.keywords) and not args and not keywords:
                    return moved
                node.args, node.keywords = args, keywords
            case function if _root(function) == "torch":
                node.keywords = [each for each in node.keywords if not _is_cpu_keyword(each)]
            case _:
                pass
        return node


def nothing(node: ast.stmt) -> list[ast.stmt]:
    """Return what stands in a statement that nothing stands in."""
    return [ast.copy_location(ast.Pass(), node)]


def tidy_if(node: ast.If) -> list[ast.stmt]:
    """Return an undecided `if`, or what is left of it where a branch is empty."""
    if node.body:
        return [node]
    if not node.orelse:
        expression = ast.copy_location(ast.Expr(value=node.test), node)
        return [] if is_pure(node.test) else [expression]
    node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
    node.body, node.orelse = node.orelse, []
    return [node]


def tidy_loop(node: ast.For | ast.While) -> list[ast.stmt]:
    """Return a loop, or nothing where it does nothing."""
    if node.body:
        return [node]
    if isinstance(node, ast.For) and is_pure(node.iter):
        return node.orelse
    node.body = nothing(node)
    return [node]


def _is_idle(item: ast.withitem) -> bool:
    """Say whether a context changes nothing: a CPU is what torch computes on anyway."""
    match item.context_expr:
        case ast.Call(func=ast.Name(id="nullcontext"), args=[]):
            return True
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="device"),
            args=[ast.Constant(value="cpu")],
        ):
            return True
        case _:
            return False


def _is_joined(done: list[ast.stmt], node: ast.stmt, before: ast.stmt) -> bool:
    """Put `x["key"] = known` into the dict that was written out just before; say whether it was."""
    match done, node:
        case (
            [*_, ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as written)],
            ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=again), slice=ast.Constant() as key)],
                value=value,
            ),
        ) if name == again and isinstance(value, ast.Constant) and node is before:
            values = display(written)
            longer = len(ast.unparse(before)) + len(ast.unparse(done[-1]))
            if values is None or key.value in values or longer > WIDTH:
                return False
            written.keys.append(key)
            written.values.append(value)
            return True
        case _:
            return False


def _keywords(keywords: Iterable[ast.keyword]) -> Iterator[ast.keyword]:
    """Yield keyword arguments, those of a written out `**{…}` one by one."""
    for keyword in keywords:
        values = display(keyword.value) if keyword.arg is None else None
        if values is None or not all(isinstance(key, str) and key.isidentifier() for key in values):
            yield keyword
        else:
            yield from (ast.keyword(arg=key, value=value) for key, value in values.items())


def _is_cpu(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _is_cpu_keyword(keyword: ast.keyword) -> bool:
    return keyword.arg == "device" and _is_cpu(keyword.value)


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _without(known: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if name not in names}
