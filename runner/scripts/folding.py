"""Fold what is known of a Python program into its syntax tree. Pure.

Names become their values, and conditions, lookups, loops and blocks that are decided by them go.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import operator
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repromatrix.runner.scripts.syntax import bound, display, is_dtype, is_pure, is_word, read


def _is_same(left: object, right: object) -> bool:
    # A dtype is known by its name, a text that is made anew wherever it is asked for.
    return type(left) is type(right) and left == right


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
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
    """Folds statements in their order; a name that is bound twice is not known."""

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
    """How often each name is bound in the function, or a value of it is set by its key."""
    leaking: set[str] = field(default_factory=set)
    """Names whose dicts may be changed elsewhere."""
    parameters: Mapping[str, Mapping[str, ast.expr]] = field(default_factory=dict)
    """What is known of the parameters of the module's functions."""

    def _inside(self, function: ast.FunctionDef) -> Folder:
        bindings = bound([*function.body, function.args], keys=True)
        inside = self._hiding(bindings)
        known = self.parameters.get(function.name, {})
        inside.words |= {name: known[name] for name in known if not bindings[name]}
        inside.bindings = bindings
        return inside

    def _hiding(self, hidden: Collection[str]) -> Folder:
        """Return what folds where some names are others."""
        every: tuple[Mapping[str, Any], ...] = (self.words, self.constants, self.displays)
        words, constants, displays = (
            {name: value for name, value in known.items() if name not in hidden} for known in every
        )
        return dataclasses.replace(self, words=words, constants=constants, displays=displays)

    # Statements

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return what is left of statements."""
        done: list[ast.stmt] = []
        for node in body:
            done += self.statement(node)
            if done and isinstance(done[-1], _ENDS):
                break
        return done

    def statement(self, node: ast.stmt) -> list[ast.stmt]:  # noqa: PLR0911 - a table: one return per kind of statement
        """Return what is left of one statement: itself, none, or those that it held."""
        match node:
            case ast.If():
                return self._if(node)
            case ast.For() | ast.While():
                return self._loop(node)
            case ast.With():
                return self._with(node)
            case ast.FunctionDef():
                node.body = self._inside(node).block(node.body) or nothing(node)
                return [node]
            case ast.Assign(targets=[target]):
                return self._assign(node, target)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return self._named(node, name, value)
            case ast.Assert():
                node.test = self.fold(node.test)
                return [] if self._is(node.test, truth=True) else [node]
            case ast.Expr():
                node.value = self.fold(node.value)
                return [] if isinstance(node.value, (ast.Constant, ast.Name)) else [node]
            case _:
                return self._other(node)

    def _other(self, node: ast.stmt) -> list[ast.stmt]:
        self.generic_visit(node)
        return [node]

    def _if(self, node: ast.If) -> list[ast.stmt]:
        node.test = self.fold(node.test)
        if isinstance(node.test, ast.BoolOp):  # only its truth matters
            idle = isinstance(node.test.op, ast.And)
            node.test.values = [one for one in node.test.values if not self._is(one, truth=idle)]
        decided = self.value(node.test)
        if decided is not _UNKNOWN:
            return self.block(node.body if decided else node.orelse)
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        return tidy_if(node)

    def _loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        if isinstance(node, ast.While):
            node.test = self.fold(node.test)
        else:
            node.iter = self.fold(node.iter)
            if self._members(node.iter) == ():
                return self.block(node.orelse)
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        return tidy_loop(node)

    def _with(self, node: ast.With) -> list[ast.stmt]:
        for item in node.items:
            item.context_expr = self.fold(item.context_expr)
        node.items = [item for item in node.items if item.optional_vars or not _is_idle(item)]
        body = self.block(node.body)
        node.body = body or nothing(node)
        return [node] if node.items else body

    def _assign(self, node: ast.Assign, target: ast.expr) -> list[ast.stmt]:
        match target, node.value:
            case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                return self._pairs(node, names, values)
            case ast.Name(id=name), value:
                return self._named(node, name, value)
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
        for target, value, was in zip(names, folded, before, strict=True):
            if isinstance(target, ast.Name):
                self._learn(target.id, value, was_folded=ast.dump(value) != was)
        return [node]

    def _learn(self, name: str, value: ast.expr, *, was_folded: bool) -> None:
        if self.bindings[name] > 1:
            return
        is_alias = isinstance(value, ast.Name) and value.id in self.constants
        if was_folded and (is_word(value) or is_alias):
            self.words[name] = value
        values = display(value)
        if values is not None and name not in self.leaking:
            self.displays[name] = values

    # Expressions

    def fold(self, node: ast.expr) -> ast.expr:
        """Return an expression with what is known put in."""
        folded: ast.expr = self.visit(node)
        return folded

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

    def _scope(self, node: ast.AST) -> ast.AST:
        """Fold an expression that has names of its own."""
        return self._hiding(bound([node])).generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _scope  # noqa: N815 - names of ast
    visit_Lambda = _scope  # noqa: N815

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
        node.values = [_as_text(part) for part in node.values]
        texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
        if len(texts) == len(node.values):
            return ast.copy_location(ast.Constant(value="".join(map(str, texts))), node)
        return node

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
                # Without `**{}`.
                node.keywords = [
                    one for one in node.keywords if one.arg or self._members(one.value) != ()
                ]
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
            case function if ast.unparse(function).startswith("torch."):
                node.keywords = [each for each in node.keywords if not _is_cpu_keyword(each)]
            case _:
                pass
        return node


def nothing(node: ast.stmt) -> list[ast.stmt]:
    """Return what stands in a statement that nothing stands in."""
    return [ast.copy_location(ast.Pass(), node)]


def tidy_if(node: ast.If) -> list[ast.stmt]:
    """Return an undecided `if`, or what is left of it where a branch is empty."""
    if not node.body and not node.orelse and is_pure(node.test):
        return []
    node.body = node.body or nothing(node)
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
        case (
            ast.Call(func=ast.Name(id="nullcontext"), args=[])
            | ast.Call(
                func=ast.Attribute(value=ast.Name(id="torch"), attr="device"),
                args=[ast.Constant(value="cpu")],
            )
        ):
            return True
        case _:
            return False


def _as_text(part: ast.expr) -> ast.expr:
    """Return the text for a part of an f-string that is one."""
    match part:
        case ast.FormattedValue(
            value=ast.Constant(value=str()) as text, conversion=-1, format_spec=None
        ):
            return text
        case _:
            return part


def _is_cpu(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _is_cpu_keyword(keyword: ast.keyword) -> bool:
    return keyword.arg == "device" and _is_cpu(keyword.value)
