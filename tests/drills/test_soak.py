"""The soak, small: how its rows add up, and one round of it on a test that fails."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from fakes import processes_of

from drills.soak import Account, Soak, SoakRow, accounted, read, tell
from drills.tally import Tally
from repromatrix.runner.errors import Interrupted
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path


FAILS = """
def test_fails():
    raise AssertionError

def test_passes():
    pass
"""


def row(code: str, what: str = "tests", *, failed: tuple[str, ...] = ()) -> SoakRow:
    return SoakRow(
        seed=1, commit=f"of-{code}", code=code, what=what, seconds=60, whole=True, failed=failed
    )


def test_rows_add_up() -> None:
    counted, ever = accounted([row("a"), row("a", "store"), row("b")])

    assert counted == ever
    assert counted == Account(seconds=180, passes=2, drills=1, commits=["of-a", "of-b"])


def test_what_passes_on_other_code_after_a_failure_starts_the_count_anew() -> None:
    failing = row("a", failed=("test_one",))
    counted, ever = accounted([row("a"), failing, row("b"), row("b", "store")])

    assert counted == Account(seconds=120, passes=1, drills=1, commits=["of-b"])
    assert (ever.passes, ever.failed) == (3, ["test_one"])


def test_a_failure_counts_until_its_code_is_another_and_passes() -> None:
    rows = [row("a", failed=("test_one",)), row("a"), row("b", failed=("test_two",)), row("a")]
    counted, _ = accounted(rows)

    assert (counted.passes, counted.failed) == (4, ["test_one", "test_two"])


def test_what_is_in_no_commit_and_what_was_cut_off_is_no_pass() -> None:
    uncommitted = SoakRow(seed=1, commit="", code="", what="tests", seconds=9, whole=True)
    cut = SoakRow(
        seed=1, commit="c", code="c", what="tests", seconds=9, whole=False, failed=("test_one",)
    )
    counted, _ = accounted([uncommitted, cut])

    assert counted == Account(seconds=9, failed=["test_one"], commits=["c"])


@pytest.mark.whole
def test_a_soak_counts_what_failed_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").symlink_to(ROOT / "tests" / "conftest.py")
    (tmp_path / "test_made_up.py").write_text(FAILS)
    own = [f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={tmp_path}"]
    record = tmp_path / "soak.jsonl"
    files = [str(tmp_path / "test_made_up.py")]
    soak = Soak(seed=7, files=files, drills=(), record=record, options=own)
    soak.go_on(5.0)
    rows = [*read(record)]

    assert len(rows) >= 2
    assert all(one.whole for one in rows)
    assert {(one.seed, one.what) for one in rows} == {(7, "tests")}
    assert {name.rpartition("/")[2] for one in rows for name in one.failed} == {
        "test_made_up.py::test_fails"
    }
    assert all(len(one.failed) == 1 for one in rows)
    assert processes_of(tmp_path) == []


def test_what_an_interruption_cut_off_is_no_part_of_the_next_soak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        time.sleep(0.5)
        raise Interrupted

    monkeypatch.setattr(Soak, "_disturb", interrupt)
    (tmp_path / "test_made_up.py").write_text("import time\n\ndef test_waits(): time.sleep(30)\n")
    own = ["--config-file=/dev/null", f"--rootdir={tmp_path}", f"--confcutdir={tmp_path}"]
    files = [str(tmp_path / "test_made_up.py")]
    soak = Soak(seed=7, files=files, drills=(), record=tmp_path / "rows", options=own)

    for _ in range(2):
        soak.go_on(30)

        assert soak.running == []
    assert [one for one in read(soak.record) if one.whole and not one.failed] == []


def test_the_table_says_how_long_and_since_when(tmp_path: Path) -> None:
    tally = Tally("soak", tmp_path / "none")
    tell(tally, *accounted([row("a"), row("a", "store", failed=("store",))]))

    ever = "ever: 1 passes and 1 drills in 0.0 hours, 1 failed"
    assert tally.table().splitlines()[2:] == [
        "| whole passes of the quick tests | 1 | tests failed | 0 | 0.0 hours, since commit of-a |",
        f"| quick drills beside them | 1 | failed | 1 | {ever} |",
    ]
    assert not tally.passed
