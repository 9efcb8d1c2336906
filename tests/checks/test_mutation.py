"""The check of mutants, small: one that a test notices, and one that none does."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
from histories import History
from needs import bubblewrap

from checks import mutation
from checks.mutation import changed, drawn, mutant
from checks.table import Table

CODE = """
def larger(one, other):
    return max(one, other) > 1

def untested(one):
    return one + 1
"""
FILES = {
    "runner/judging/numbers.py": "",
    "runner/judging/same.py": CODE,
    "reports/__init__.py": "",
    "tests/judging/test_numbers.py": "from runner.judging.numbers import larger\n\n"
    "def test_numbers():\n    assert larger(1, 2)\n    assert not larger(1, 1)\n",
    "tests/conftest.py": "def pytest_addoption(parser):\n"
    "    parser.addoption('--quick', action='store_true')\n",
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout with one module that was changed, of which a function is not tested."""
    history = History()
    history.commit("one", FILES)
    checkout = history.write(tmp_path / "checkout")
    (checkout / "runner" / "judging" / "numbers.py").write_text(CODE)
    return checkout


def test_what_differs_from_a_commit_is_changed_and_nothing_else(root: Path) -> None:
    assert changed(root, "HEAD") == ["runner/judging/numbers.py"]
    with pytest.raises(SystemExit, match="--since nothing"):
        changed(root, "nothing")


def test_a_seed_draws_the_same_mutants_each_of_them_another_program(root: Path) -> None:
    (path,) = changed(root, "HEAD")
    found = drawn(root, [path], 7, 100)

    assert [one.name for one in found] == [one.name for one in drawn(root, [path], 7, 100)]
    assert f"{path}: return one + 1 -> return one - 1" in {one.name for one in found}
    assert len({one.text for one in found}) == len(found) > 5
    assert {one.tests for one in found} == {"tests/judging"}
    assert mutant("a.py", "one = 1\n", "one = 1  # the same\n") is None
    assert mutant("a.py", "one = 1\n", "one =\n") is None


@pytest.mark.whole
@bubblewrap
def test_a_mutant_that_no_test_notices_fails_the_check_until_it_is_known(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "mutants.json"
    record.write_text('{"seed": 7, "survived": []}')
    monkeypatch.setattr(mutation, "RECORD", record)
    options = Namespace(seed=7, count=40, since="HEAD", write=True)
    tables = [Table("mutation") for _ in range(2)]
    for table in tables:
        mutation.check(table, options, root)
    survived = json.loads(record.read_text())["survived"]

    assert [table.passed for table in tables] == [False, True]
    assert all("one + 1" in name or "one):" in name for name in survived)
    assert "runner/judging/numbers.py: return one + 1 -> return one - 1" in survived
