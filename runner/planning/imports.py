"""What the cases of a batch import, read from their source: what their zygote may prepare."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.model.case import Case

# In the order of import. Packages that patch others are imported only by the cell that asks.
PRELOADED = ("torch", "transformers", "accelerate", "peft")


def wanted(cases: Iterable[Case]) -> dict[str, object]:
    """Return the packages and names that cases take from torch and the Hugging Face libraries."""
    modules: set[str] = set()
    names: dict[str, set[str]] = {}
    for case in cases:
        for module, name in _imports(ast.parse(case.script.code)):
            if module in PRELOADED:
                modules.add(module)
                if name:
                    names.setdefault(module, set()).add(name)
    return {
        "modules": [module for module in PRELOADED if module in modules],
        "names": {module: sorted(names[module]) for module in PRELOADED if module in names},
    }


def _imports(tree: ast.Module) -> Iterable[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ((alias.name.partition(".")[0], "") for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                whole = module in PRELOADED
                top = module.partition(".")[0]
                yield from ((top, alias.name if whole else "") for alias in aliases)
            case _:
                pass
