"""Changes to the syntax tree of a case that must change its outcome.

One assertion is inverted, the library refuses every call, or its calls are left out: a stand-in
takes whatever is done with their results, and is true or false when it is tested.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum

_GIVEN = {"precision", "workaround"}
"""What a case is called with: an assertion about nothing else is about the call."""

_STANDARD = {"contextlib", "copy", "json", "math", "os", "pathlib", "sys", "tempfile"}
"""What a case imports and is not about."""

_STAND_IN = """
class _LeftOut:
    def __init__(self, *arguments, **named): pass
    def __getattr__(self, name):
        if name[:2] == "__": raise AttributeError(name)
        return _LeftOut()  # another one: tuples of the same are equal, whatever those say
    def __setattr__(self, name, value): pass
    def _other(self, *arguments, **named): return _LeftOut()
    __call__ = __getitem__ = __enter__ = __neg__ = __abs__ = __invert__ = __pos__ = _other
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _other
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __matmul__ = __and__ = __or__ = _other
    def __exit__(self, *arguments): return False
    def __setitem__(self, key, value): pass
    def _holds(self, *arguments): return HOLDS
    __bool__ = __contains__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _holds
    def __hash__(self): return 0
    def __len__(self): return int(HOLDS)
    __int__ = __index__ = __len__
    def __float__(self): return float(HOLDS)
    def __iter__(self): return iter((self,))
    def __format__(self, form): return "left out"
def _refused(*arguments, **named): raise ConnectionError("the library refuses")
"""


class Sabotage(StrEnum):
    """What is done to a case beside inverting one of its assertions."""

    REFUSED = "refused"
    LEFT_OUT_HOLDS = "left out, holds"
    LEFT_OUT_FAILS = "left out, does not hold"


def sabotaged(code: str, how: Sabotage) -> str:
    """Return the code with every call on the library replaced."""
    tree = ast.parse(code)
    name = "_refused" if how is Sabotage.REFUSED else "_LeftOut"
    changed = _Calls(_imported(tree), name).visit(tree)
    stand_in = _STAND_IN.replace("HOLDS", str(how is Sabotage.LEFT_OUT_HOLDS))
    return _with(changed, stand_in)


def inverted(code: str) -> Iterator[str]:
    """Yield the code once for each assertion about more than the call, with that one inverted."""
    for number, _ in enumerate(_assertions(ast.parse(code))):
        tree = ast.parse(code)
        chosen = _assertions(tree)[number]
        chosen.test = ast.UnaryOp(op=ast.Not(), operand=chosen.test)
        yield ast.unparse(ast.fix_missing_locations(tree))


def _assertions(tree: ast.Module) -> list[ast.Assert]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    return [node for node in found if not _is_about_the_call(node)]


def _is_about_the_call(node: ast.Assert) -> bool:
    names = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)}
    return bool(names) and all(name in _GIVEN or name.isupper() for name in names)


def _imported(tree: ast.Module) -> set[str]:
    """Return the names that a case has from what it is about."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                package = getattr(node, "module", "") or alias.name
                if package.partition(".")[0] not in _STANDARD | {"__future__"}:
                    found.add(alias.asname or alias.name.partition(".")[0])
    return found


class _Calls(ast.NodeTransformer):
    """Replaces each call that begins at one of some names, whatever it reaches through."""

    def __init__(self, names: set[str], replacement: str) -> None:
        self.names = names
        self.replacement = replacement

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]  # decorators stay
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        root: ast.expr = node
        while isinstance(root, ast.Call | ast.Attribute | ast.Subscript):
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name) and root.id in self.names:
            name = ast.Name(id=self.replacement, ctx=ast.Load())
            return ast.copy_location(ast.Call(func=name, args=[], keywords=[]), node)
        return self.generic_visit(node)


def _with(tree: ast.Module, stand_in: str) -> str:
    """Put the stand-in behind the docstring and what Python wants first."""
    first = next(place for place, node in enumerate(tree.body) if not _comes_first(node))
    tree.body[first:first] = ast.parse(stand_in).body
    return ast.unparse(ast.fix_missing_locations(tree))


def _comes_first(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
