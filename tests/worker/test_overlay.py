"""A tree of sources in front of what is installed: its bytecode, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from factories import cell
from one_case import ready_in

from repromatrix.runner.execution.events import Tree
from repromatrix.runner.execution.pool import observe
from repromatrix.runner.model.cell import PROTOCOL
from repromatrix.runner.model.observation import Provenance
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SAY = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from repromatrix.runner.worker import overlay; sys.path.pop(0)"
)
PUT = "overlay.put_in_front({'path': sys.argv[2], 'kept': sys.argv[3]}); import under_test"


def imported(tree: Path, kept: Path, show: str) -> str:
    """Return what a new interpreter says of a package, with a tree in front of its path."""
    code = f"{SAY}; {PUT}; print({show})"
    command = [sys.executable, "-c", code, str(ROOT), str(tree), str(kept)]
    environ = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a tree with one package."""
    package = tmp_path / "tree" / "under_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from under_test.part import value\n")
    return package.parent


def write(tree: Path, value: int) -> None:
    """Write a module that differs from other versions of it neither by size nor by time."""
    path = tree / "under_test" / "part.py"
    path.write_text(f"value = {value}\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))


def test_commits_of_equal_size_and_time_run_their_own_code(tree: Path, tmp_path: Path) -> None:
    seen = []
    for value in (1, 2, 3, 1):
        write(tree, value)
        seen.append(imported(tree, tmp_path / "kept", "under_test.value"))

    assert seen == ["1", "2", "3", "1"]


def test_compiled_files_lie_outside_of_the_tree_and_are_used_again(
    tree: Path, tmp_path: Path
) -> None:
    write(tree, 1)
    imported(tree, tmp_path / "kept", "under_test.value")
    (compiled,) = (tmp_path / "kept").rglob("part.*.pyc")
    before = compiled.stat().st_mtime_ns
    imported(tree, tmp_path / "kept", "under_test.value")

    assert compiled.stat().st_mtime_ns == before
    assert sorted(path.name for path in tree.rglob("*")) == ["__init__.py", "part.py", "under_test"]


AGAIN = """
import importlib.util
from pathlib import Path

file = Path(__file__).with_name("part.py")
spec = importlib.util.spec_from_file_location("again", file)
again = importlib.util.module_from_spec(spec)
spec.loader.exec_module(again)
value = again.value
"""


def test_a_file_that_is_loaded_by_its_location_is_kept_by_content_too(
    tree: Path, tmp_path: Path
) -> None:
    (tree / "under_test" / "__init__.py").write_text(AGAIN)
    seen = []
    for value in (1, 2):
        write(tree, value)
        seen.append(imported(tree, tmp_path / "kept", "under_test.value"))

    assert seen == ["1", "2"]
    assert list(tree.rglob("__pycache__")) == []


PROVENANCE = Provenance(
    case_digest="0" * 16,
    environment_digest="0" * 16,
    packages={"peft": "0.1", "transformers": "4.50.0"},
    python="3.11.0",
    torch_build="",
    hardware="",
    protocol=PROTOCOL,
    run="run",
)


@pytest.mark.parametrize(
    ("transformers", "peft", "expected"),
    [
        ("tree/transformers/__init__.py", "environment/lib/peft.py", (Outcome.PASSES, "")),
        (
            "environment/lib/transformers/__init__.py",
            "environment/lib/peft.py",
            (Outcome.NOT_RUN, "refused: transformers is no file of the tree"),
        ),
        (
            "tree/transformers/__init__.py",
            "tree/peft/__init__.py",
            (Outcome.NOT_RUN, "refused: peft is no file of the environment"),
        ),
    ],
)
def test_a_package_from_the_wrong_place_is_refused(
    transformers: str, peft: str, expected: tuple[Outcome, str], tmp_path: Path
) -> None:
    tree = Tree(package="transformers", path=tmp_path / "tree", kept=tmp_path / "kept")
    answer: dict[str, Any] = {
        "outcome": "passes",
        "imported": {"transformers": str(tmp_path / transformers), "peft": str(tmp_path / peft)},
        "claimed": {"transformers": "4.51.0.dev0", "peft": "0.2"},
    }
    seen = observe(cell(), answer, PROVENANCE, ready_in(tmp_path / "environment", tree))

    assert (seen.outcome, seen.reason) == expected
    assert seen.provenance.packages == {"peft": "0.1", "transformers": "4.51.0.dev0"}


def test_a_tree_is_known_by_its_files_and_its_paths_are_taken_out(tmp_path: Path) -> None:
    tree = Tree(package="transformers", path=tmp_path / "my tree", kept=tmp_path / "kept")
    file = str(tree.path / "transformers" / "__init__.py")
    answer = {
        "outcome": "fails",
        "error_class": "ValueError",
        "message": f"see {file}",
        "imported": {"transformers": file},
    }
    seen = observe(cell(), answer, PROVENANCE, ready_in(tmp_path / "environment", tree))

    assert seen.failed is not None
    assert (seen.provenance.imported, seen.failed.message) == (
        {"transformers": "transformers/__init__.py"},
        "see transformers/__init__.py",
    )
