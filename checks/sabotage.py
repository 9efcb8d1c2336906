"""Changes to the syntax tree of a case that must change its outcome.

One assertion is inverted, the library refuses every call, leaves a tensor in another dtype, or its
calls are left out: a stand-in takes what is done with their results, and is true or false.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum

_GIVEN = {"precision", "workaround"}
"""What a case is called with: an assertion about nothing else is about the call."""

_STANDARD = {"contextlib", "copy", "json", "math", "os", "pathlib", "sys", "tempfile"}

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

_CASTS = {"bfloat16", "from_config", "from_pretrained", "half", "load_model", "pipeline", "to"}
_SAYS = re.compile(r"(must (be|have|load|comp)|back|loads)(?!.*(whatever|weights\.)).*dtype|has fp")

_LEAVES = """
def _left_behind(result):
    import torch
    model = result if isinstance(result, torch.nn.Module) else getattr(result, "model", None)
    if isinstance(model, torch.nn.Module):
        values = model.state_dict(keep_vars=True).values()
        values = [one for one in values if one.is_floating_point() and one.dtype.itemsize > 1]
        dtype = max([one.dtype for one in values], key=[one.dtype for one in values].count)
        left = min([one for one in values if one.dtype == dtype], key=torch.numel)
        left.data = left.data.to(torch.bfloat16 if dtype == torch.float32 else torch.float32)
    return result
"""


class Sabotage(StrEnum):
    REFUSED = "refused"
    LEFT_OUT_HOLDS = "left out, holds"
    LEFT_OUT_FAILS = "left out, does not hold"


def sabotaged(code: str, how: Sabotage) -> str:
    """Return the code with every call on the library replaced."""
    tree = ast.parse(code)
    name = "_refused" if how is Sabotage.REFUSED else "_LeftOut"
    changed = _Calls(_imported(tree), name).visit(tree)
    return _with(changed, _STAND_IN.replace("HOLDS", str(how is Sabotage.LEFT_OUT_HOLDS)))


def left_behind(code: str) -> str:
    """Let what loads or casts a model leave a tensor behind; empty where no dtype is demanded."""
    tree = ast.parse(code)
    says = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    casts = [one for one in calls if ast.unparse(one.func).rpartition(".")[2] in _CASTS]
    for node in casts:
        node.args, node.keywords = [ast.Call(node.func, node.args, node.keywords)], []
        node.func = ast.Name(id="_left_behind", ctx=ast.Load())
    return _with(tree, _LEAVES) if casts and _SAYS.search(says) else ""


def inverted(code: str) -> Iterator[str]:
    """Yield the code once for each assertion about more than the call, with that one inverted."""
    for number, _ in enumerate(_assertions(ast.parse(code))):
        tree = ast.parse(code)
        chosen = _assertions(tree)[number]
        chosen.test = ast.UnaryOp(op=ast.Not(), operand=chosen.test)
        yield ast.unparse(ast.fix_missing_locations(tree))


def _assertions(tree: ast.Module) -> list[ast.Assert]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    names = [{one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)} for node in found]
    given = [bool(used) and all(one in _GIVEN or one.isupper() for one in used) for used in names]
    return [node for node, about_the_call in zip(found, given, strict=True) if not about_the_call]


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
    second = tree.body[1]
    first = 2 if isinstance(second, ast.ImportFrom) and second.module == "__future__" else 1
    tree.body[first:first] = ast.parse(stand_in).body
    return ast.unparse(ast.fix_missing_locations(tree))
