"""Two checkouts run in turns on the same cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import against
from checks.table import Table

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


@pytest.fixture(autouse=True)
def this(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "ROOT", _checkout(tmp_path, "this", ["one", "two"]))


def _checkout(folder: Path, name: str, cases: list[str]) -> Path:
    """Make a checkout that notes its runs, and measured some cells."""
    package = folder / name / "repromatrix"
    package.mkdir(parents=True)
    text = PROGRAM.format(log=str(folder / "log"), name=name, cases=cases)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(text)
    return folder / name


def test_both_run_once_untimed_and_then_in_turns_first_and_second(tmp_path: Path) -> None:
    other = _checkout(tmp_path, "other", ["two", "one"])
    table = Table("against")
    against.compare(table, other)
    pairs = [figure for what, figure, _ in table.figures if what.startswith("pair")]

    assert (tmp_path / "log").read_text().split() == [
        *("this", "other"),
        *("other", "this", "this", "other", "other", "this", "this", "other", "other", "this"),
    ]
    assert table.figures[0][:2] == ("cells", "2 cells")
    assert len(pairs) == 5
    assert table.figures[-2][:2] == ("median", sorted(pairs, key=lambda one: float(one[:4]))[2])
    assert table.figures[-1][0] == "median of processor time"


def test_checkouts_that_run_other_cells_are_not_timed(tmp_path: Path) -> None:
    other = _checkout(tmp_path, "other", ["one"])

    with pytest.raises(SystemExit, match=r"1 cells are run by one of both alone.*'two'"):
        against.compare(Table("against"), other)
    assert (tmp_path / "log").read_text().split() == ["this", "other"]
