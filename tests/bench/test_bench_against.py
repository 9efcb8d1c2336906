"""Two checkouts run in turns on the same cells."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

PROGRAM = """\
import pathlib, sys
if sys.argv[1] == "matrix":
    with pathlib.Path({log!r}).open("a") as log:
        log.write("{name} ")
else:
    print("case,workaround,release,precision,device,seconds")
    print("published,,4.50.0,bf16,cpu,")
    for case in {cases!r}:
        print(f"{{case}},,4.50.0,bf16,cpu,0.1")
"""


@pytest.fixture
def against(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "bench"))
    module = importlib.import_module("against")
    monkeypatch.setattr(module, "ROOT", _checkout(tmp_path, "this", "repromatrix", ["one", "two"]))
    return module


def _checkout(folder: Path, name: str, module: str, cases: list[str]) -> Path:
    """Make a checkout that notes its runs, and measured some cells."""
    package = folder / name / module
    package.mkdir(parents=True)
    text = PROGRAM.format(log=str(folder / "log"), name=name, cases=cases)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(text)
    return folder / name


def test_both_run_once_untimed_and_then_in_turns_first_and_second(
    tmp_path: Path, against: ModuleType
) -> None:
    other = _checkout(tmp_path, "other", "repromatrix", ["two", "one"])
    rows: list[tuple[Any, ...]] = []
    against.measure(lambda *row: rows.append(row), other)
    pairs = [row[1] for row in rows if row[0].startswith("pair")]

    assert (tmp_path / "log").read_text().split() == [
        *("this", "other"),
        *("other", "this", "this", "other", "other", "this", "this", "other", "other", "this"),
    ]
    assert rows[0][:3] == ("cells", 2, "cells")
    assert len(pairs) == 5
    assert rows[-2][:2] == ("median", sorted(pairs)[2])
    assert rows[-1][0] == "median of processor time"


def test_checkouts_that_run_other_cells_are_not_timed(tmp_path: Path, against: ModuleType) -> None:
    other = _checkout(tmp_path, "other", "repromatrix", ["one"])

    with pytest.raises(SystemExit, match=r"1 cells are run by one of both alone.*'two'"):
        against.measure(print, other)
    assert (tmp_path / "log").read_text().split() == ["this", "other"]
