"""The shape of the code: who may import what, and how large a thing may be."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import runner
from runner.planning.imports import PRELOADED

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent

# Lowest first; a module imports only from its own layer and from those before it.
LAYERS = (
    *(
        "errors",
        "interruption",
        "places",
        "processes",
        "scratch",
        "writing",
        "searching",
        "model",
        "judging",
        "planning",
        "evidence",
    ),
    *(
        "environments",
        "history",
        "installed",
        "corpus",
        "project",
        "rendering",
        "engine",
        "trials",
        "campaign",
        "running",
        "cluster",
        "attempt",
        "commits",
        "bisecting",
        "comparing",
        "blaming",
        "answering",
        "telling",
        "terminal",
        "carrying",
    ),
    *("commands", "cli", "__main__"),
)
APART = "inside"
"""Executed by another python; whoever speaks to it may import it, and it imports nobody."""

UNDER_TEST = {"torch", "transformers", "accelerate", "peft"}
# The one once the case has imported it, the other as a case of its own.
LOOKS_AT_TORCH = {"runner/inside/witness.py", "runner/inside/device.py"}
TABLES_AND_PAGES = {"pandas", "jinja2"}
PAGE_MAKERS = {"runner/rendering.py", "runner/commands/results.py"}
STARTERS = {"runner/processes.py", "runner/engine/zygote.py", "noxfile.py"}
SPEAKERS = {"runner/cli/__init__.py", "runner/terminal/speaking.py"}
FUNCTION, MODULE = 40, 300

SITE = ROOT / "reports" / "site"
TREES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
    for path in [
        *sorted((ROOT / "runner").rglob("*.py")),
        # A rendered site holds cases to download, which are no code of ours.
        *(one for one in sorted((ROOT / "reports").rglob("*.py")) if SITE not in one.parents),
        ROOT / "noxfile.py",
    ]
}
RUNNER = {where: tree for where, tree in TREES.items() if where.startswith("runner/")}
INSIDE = {where: tree for where, tree in RUNNER.items() if where.startswith(f"runner/{APART}/")}


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of everything that is imported, also late and for types alone."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.ImportFrom():
                yield "a relative import"
            case _:
                pass


def _packages(tree: ast.AST) -> set[str]:
    return {name.partition(".")[0] for name in _imports(tree)}


def _layer(name: str) -> str:
    """Return the layer of a module, given by its path or by its full name."""
    return name.removesuffix(".py").replace("/", ".").split(".")[1]


def test_the_documentation_names_the_layers_in_this_order() -> None:
    prose = (runner.__doc__ or "").partition("Layers, lowest first")[2].partition("`inside`")[0]
    named = re.findall(r"`(\w+)`", prose)

    assert named
    assert [layer for layer in LAYERS if layer in named] == named


def test_every_module_is_in_a_layer() -> None:
    found = {_layer(where) for where in RUNNER} - {"__init__"}

    assert found == {*LAYERS, APART}


@pytest.mark.parametrize("where", [where for where in RUNNER if where not in INSIDE])
def test_a_module_imports_only_from_below(where: str) -> None:
    if where == "runner/__init__.py":
        allowed: set[str] = set()
    else:
        allowed = {*LAYERS[: LAYERS.index(_layer(where)) + 1], APART}
    ours = {_layer(name) for name in _imports(RUNNER[where]) if name.startswith("runner.")}

    assert ours <= allowed


@pytest.mark.parametrize("where", INSIDE)
def test_inside_imports_only_the_standard_library_and_itself(where: str) -> None:
    strangers = _packages(INSIDE[where]) - {*sys.stdlib_module_names}
    ours = {_layer(name) for name in _imports(INSIDE[where]) if name.startswith("runner.")}
    late = {"torch"} if where in LOOKS_AT_TORCH else set()

    assert strangers <= {"runner"} | late
    assert ours <= {APART}


def test_what_is_under_test_is_imported_nowhere_else() -> None:
    found = {where for where, tree in TREES.items() if _packages(tree) & UNDER_TEST}

    assert found == LOOKS_AT_TORCH
    late = {name for name in _imports(TREES["runner/inside/witness.py"]) if "torch" in name}
    assert late == {"torch.utils._python_dispatch.TorchDispatchMode"}


def test_tables_and_pages_are_made_below_reports_alone() -> None:
    found = {where for where, tree in TREES.items() if _packages(tree) & TABLES_AND_PAGES}
    callers = {where for where, tree in RUNNER.items() if "reports" in _packages(tree)}

    assert {where for where in found if not where.startswith("reports/")} == set()
    assert callers == PAGE_MAKERS


def test_three_modules_start_processes() -> None:
    ways = {"subprocess", "multiprocessing", "pty", "asyncio"}
    calls = {"system", "popen", "posix_spawn", "spawnv", "fork", "forkpty"}
    importing = {where for where, tree in TREES.items() if _packages(tree) & ways}
    calling = {where for where, tree in TREES.items() if _called(tree, "os") & calls}

    assert importing == STARTERS
    assert calling == {"runner/inside/slot.py", "runner/inside/walls.py"}


def _called(tree: ast.AST, module: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == module
    }


def test_only_who_is_meant_to_writes_to_the_terminal() -> None:
    printing = {where for where, tree in TREES.items() if _prints(tree)}
    writing = {where for where, tree in TREES.items() if _called(tree, "sys") & {"stdout"}}

    assert printing <= SPEAKERS
    # `inside` lets go of what the case printed.
    assert {where for where in writing if where not in INSIDE} <= SPEAKERS


def _prints(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        for node in ast.walk(tree)
    )


def test_the_zygote_prepares_what_is_under_test() -> None:
    assert set(PRELOADED) == UNDER_TEST


@pytest.mark.parametrize("where", TREES)
def test_no_function_has_a_long_body(where: str) -> None:
    long = {
        node.name: lines
        for node in ast.walk(TREES[where])
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (lines := (node.end_lineno or 0) - node.body[0].lineno + 1) > FUNCTION
    }

    assert long == {}


@pytest.mark.parametrize("where", TREES)
def test_no_module_is_long(where: str) -> None:
    lines = len((ROOT / where).read_text(encoding="utf-8").splitlines())

    assert lines <= MODULE


def test_every_module_says_what_it_is() -> None:
    silent = [where for where, tree in TREES.items() if not ast.get_docstring(tree)]

    assert silent == []
