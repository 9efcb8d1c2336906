"""Whether a tree can be imported at all, asked of an interpreter that has nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from repromatrix.runner.environments.building import Built
from repromatrix.runner.execution.events import Tree
from repromatrix.runner.execution.worker_client import unimportable

LAZY = """
def __dir__():
    return ["PeftModel"]


def __getattr__(name):
    raise RuntimeError(f"{__file__}: no {name}")
"""


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ("__version__ = '1.0'\n", ""),
        ("__version__ = '1.0'\nclass PeftModel: ...\n", ""),
        ("raise ImportError('hub>=9 is needed')\n", "ImportError: hub>=9 is needed"),
        (LAZY, "RuntimeError: peft/__init__.py: no PeftModel"),
    ],
)
def test_a_tree_is_imported_once_with_a_name_that_needs_most_of_it(
    init: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "tree" / "peft").mkdir(parents=True)
    (tmp_path / "tree" / "peft" / "__init__.py").write_text(init)
    here = Built(name="here", folder=Path(sys.prefix), python=Path(sys.executable), versions={})
    tree = Tree(package="peft", path=tmp_path / "tree", kept=tmp_path / "kept")

    assert unimportable(here, tree) == expected
    assert sorted(path.name for path in tree.path.rglob("*")) == ["__init__.py", "peft"]
