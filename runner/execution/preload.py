"""What the cases of a batch import, read from their source: what their worker may prepare."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from repromatrix.runner.model import script
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.packages import UNDER_TEST


def wanted(cases: Iterable[Case]) -> dict[str, object]:
    """Return the packages and names that cases take from torch and the Hugging Face libraries.

    Modules below a package are named behind all packages, and only those that a case imports
    whatever its arguments are: one inside a function may be what a workaround changes.
    """
    modules: set[str] = set()
    inner: set[str] = set()
    names: dict[str, set[str]] = {}
    for case in cases:
        tree = script.tree(case.script.code)
        inner.update(_inner(tree.body))
        for module, name in _imports(tree):
            if module in UNDER_TEST:
                modules.add(module)
                if name:
                    names.setdefault(module, set()).add(name)
    return {
        "modules": [*(module for module in UNDER_TEST if module in modules), *sorted(inner)],
        "names": {module: sorted(names[module]) for module in UNDER_TEST if module in names},
    }


def _inner(statements: Iterable[ast.stmt]) -> Iterable[str]:
    """Return the modules below the packages that are imported at the top of a case."""
    for statement in statements:
        match statement:
            case ast.Import(names=aliases):
                found = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0):
                found = [module]
            case _:
                found = []
        yield from (name for name in found if "." in name and _top(name) in UNDER_TEST)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _imports(tree: ast.Module) -> Iterable[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ((_top(alias.name), "") for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                whole = module in UNDER_TEST
                yield from ((_top(module), alias.name if whole else "") for alias in aliases)
            case _:
                pass
