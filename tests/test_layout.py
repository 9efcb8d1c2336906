"""The shape of the code: who may import what, and how large a thing may be."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.model.packages import COMPANIONS, UNDER_TEST

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent

# Lowest first; a module imports only from its own layer and from those before it.
LAYERS = (
    *("text", "errors", "paths", "signals", "markdown", "document", "subprocesses", "git"),
    *("tempdirs", "files"),
    *("model", "scripts", "cases", "judging", "evidence", "planning", "environments", "project"),
    *("execution", "bisect", "compare", "audit", "site", "cli"),
)
APART = "worker"
"""Executed by another Python; whoever speaks to it may import it, and it imports nobody."""
ROOMS = {
    *("cli", "model", "scripts", "environments", "planning", "execution", "worker"),
    *("evidence", "judging", "bisect", "compare", "audit"),
}
"""The folders of `runner/`; everything else there is a loose module."""

# The one once the case has imported it, the other as a case of its own.
LOOKS_AT_TORCH = {"runner/worker/witness.py", "runner/worker/gpu_probe.py"}
TABLES_AND_PAGES = {"pandas", "jinja2"}
PAGE_MAKERS = {"runner/site.py", "runner/cli/results.py"}
STARTERS = {"runner/subprocesses.py", "runner/execution/worker_client.py", "noxfile.py"} | {
    "reports/parts.py"
}
SPEAKERS = {"runner/cli/__init__.py", "runner/cli/options.py"}
FUNCTION, MODULE, LOOSE = 40, 600, 13


SITE = ROOT / "reports" / "site"
TREES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
    for path in [
        *sorted((ROOT / "runner").rglob("*.py")),
        # A rendered site holds cases to download, which are no code of ours.
        *(one for one in sorted((ROOT / "reports").rglob("*.py")) if SITE not in one.parents),
        *sorted((ROOT / "sweep").rglob("*.py")),
        *sorted((ROOT / "tools").rglob("*.py")),
        *sorted((ROOT / "repromatrix").glob("*.py")),
        ROOT / "noxfile.py",
    ]
}
RUNNER = {where: tree for where, tree in TREES.items() if where.startswith("runner/")}
INSIDE = {where: tree for where, tree in RUNNER.items() if where.startswith(f"runner/{APART}/")}
CHILD = {where: tree for where, tree in TREES.items() if where.startswith("sweep/child/")}
"""Executed by the environment's own Python, too: what the sweep does to models."""
PROBE_LIST = "repromatrix.runner.evidence.swept.probes."
"""Data that the environment's own Python reads as well."""
SWEEP = {where: tree for where, tree in TREES.items() if where.startswith("sweep/")}
ALLOWED_TO_SWEEP = (
    *("text", "errors", "paths", "files", "model", "scripts", "planning", "project", "execution"),
    *("evidence.store", "evidence.swept"),
    *("bisect.search", "bisect.commit_search", "bisect.oracle"),
)
ALLOWED_TO_ITS_COMMAND = (
    *ALLOWED_TO_SWEEP,
    *("cli.options", "cli.engine", "cli.progress", "environments.commits"),
    *("bisect.clone", "bisect.commits", "document"),
)
"""`sweep/cli.py` is a command as those below `runner/cli/` are."""


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
    parts = name.removesuffix(".py").replace("/", ".").removeprefix("repromatrix.").split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_every_module_is_in_a_layer_and_few_are_in_no_room() -> None:
    found = {_layer(where) for where in RUNNER} - {"__init__"}
    rooms = {path.parent.name for path in (ROOT / "runner").glob("*/__init__.py")}

    assert found == {*LAYERS, APART}
    assert rooms == ROOMS
    assert len(found - ROOMS) <= LOOSE


def test_no_class_name_stands_twice() -> None:
    found = Counter(
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )

    assert {name for name, count in found.items() if count > 1} == set()


@pytest.mark.parametrize("where", [where for where in RUNNER if where not in INSIDE])
def test_a_module_imports_only_from_below(where: str) -> None:
    if where == "runner/__init__.py":
        allowed: set[str] = set()
    else:
        allowed = {*LAYERS[: LAYERS.index(_layer(where)) + 1], APART}
    ours = {
        _layer(name) for name in _imports(RUNNER[where]) if name.startswith("repromatrix.runner.")
    }

    assert ours <= allowed


@pytest.mark.parametrize("where", INSIDE)
def test_the_worker_imports_only_the_standard_library_and_itself(where: str) -> None:
    strangers = _packages(INSIDE[where]) - {*sys.stdlib_module_names}
    ours = {
        _layer(name) for name in _imports(INSIDE[where]) if name.startswith("repromatrix.runner.")
    }
    late = {"torch"} if where in LOOKS_AT_TORCH else set()

    assert strangers <= {"repromatrix"} | late
    assert ours <= {APART}


@pytest.mark.parametrize("where", CHILD)
def test_the_sweep_inside_an_environment_imports_what_is_under_test_and_itself(where: str) -> None:
    strangers = _packages(CHILD[where]) - {*sys.stdlib_module_names}
    ours = {name for name in _imports(CHILD[where]) if name.startswith("repromatrix.")}

    # safetensors comes with transformers, whose checkpoints it reads.
    assert strangers <= {"repromatrix", "safetensors", *UNDER_TEST}
    allowed = ("repromatrix.sweep.child", PROBE_LIST)
    assert all(name.startswith(allowed) for name in ours)
    assert {*_imports(TREES["runner/evidence/swept/probes.py"])} == {
        "__future__.annotations",
        "typing.NamedTuple",
    }


@pytest.mark.parametrize("where", sorted(SWEEP.keys() - CHILD.keys()))
def test_the_sweep_imports_what_measures_and_what_is_pure(where: str) -> None:
    allowed = ALLOWED_TO_ITS_COMMAND if where == "sweep/cli.py" else ALLOWED_TO_SWEEP
    ours = {
        name.removeprefix("repromatrix.runner.")
        for name in _imports(SWEEP[where])
        if name.startswith("repromatrix.") and not name.startswith("repromatrix.sweep.")
    }

    assert [name for name in ours if not name.startswith(allowed)] == []


@pytest.mark.parametrize("guest", ["sweep", "tools"])
def test_nobody_imports_a_guest(guest: str) -> None:
    found = {
        where
        for where, tree in TREES.items()
        if any(name.startswith(f"repromatrix.{guest}.") for name in _imports(tree))
    }

    assert [where for where in found if not where.startswith(f"{guest}/")] == []


def test_the_list_of_packages_is_that_of_the_matrix() -> None:
    matrix = tomllib.loads((ROOT / "environments" / "matrix.toml").read_text(encoding="utf-8"))

    assert matrix["companions"] == [*COMPANIONS]
    # The worker imports nothing of ours that lies outside of its folder.
    assert str(UNDER_TEST).replace("'", '"') in (
        ROOT / "runner" / "worker" / "safe_text.py"
    ).read_text(encoding="utf-8")


def test_what_is_under_test_is_imported_nowhere_else() -> None:
    found = {where for where, tree in TREES.items() if _packages(tree) & {*UNDER_TEST}}

    assert found - CHILD.keys() == LOOKS_AT_TORCH
    late = {name for name in _imports(TREES["runner/worker/witness.py"]) if "torch" in name}
    assert late == {"torch.utils._python_dispatch.TorchDispatchMode"}


def test_tables_and_pages_are_made_below_reports_alone() -> None:
    found = {where for where, tree in TREES.items() if _packages(tree) & TABLES_AND_PAGES}
    callers = {
        where
        for where, tree in RUNNER.items()
        if "repromatrix.reports" in {name[: len("repromatrix.reports")] for name in _imports(tree)}
    }

    assert {where for where in found if not where.startswith("reports/")} == set()
    assert callers == PAGE_MAKERS


def test_four_modules_start_processes() -> None:
    ways = {"subprocess", "multiprocessing", "pty", "asyncio"}
    calls = {"system", "popen", "posix_spawn", "spawnv", "fork", "forkpty"}
    importing = {where for where, tree in TREES.items() if _packages(tree) & ways}
    calling = {where for where, tree in TREES.items() if _called(tree, "os") & calls}

    assert importing == STARTERS
    assert calling == {"runner/worker/cell_process.py", "runner/worker/sandbox.py"}


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
    # The worker lets go of what the case printed.
    assert {where for where in writing if where not in INSIDE} <= SPEAKERS


def _prints(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        for node in ast.walk(tree)
    )


def test_no_module_and_no_function_is_long_and_every_module_says_what_it_is() -> None:
    functions = {
        (where, node.name)
        for where, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or 0) - node.body[0].lineno + 1 > FUNCTION
    }
    texts = {where: (ROOT / where).read_text(encoding="utf-8") for where in TREES}

    assert functions == set()
    assert [where for where, text in texts.items() if len(text.splitlines()) > MODULE] == []
    assert [where for where, tree in TREES.items() if not ast.get_docstring(tree)] == []
