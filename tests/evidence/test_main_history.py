"""What cases did along the main branch, as it is kept and published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import factories
import pytest

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import history
from repromatrix.runner.evidence.history import (
    HistoryAnswer,
    HistoryKey,
    HistoryPoint,
    HistorySpan,
    MainHistory,
)
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

CASE = factories.case(factories.BREAKS)
KEY = HistoryKey(CASE.name, CASE.digest, Precision.BF16, Device.CPU)
POINTS = tuple(
    HistoryPoint(f"2025-03-0{day}T12:00:00Z", letter * 40, "4.50.0.dev0")
    for day, letter in enumerate("abcd", start=1)
)
PASSES = HistoryAnswer(fails=False, reason="passes")
FAILS = HistoryAnswer(fails=True, reason="ValueError: it breaks")
MUTE = HistoryAnswer(fails=None, reason="cannot be imported: ImportError: no é\udcff")


def along(*answers: HistoryAnswer | None) -> MainHistory:
    found = {
        point.commit: answer
        for point, answer in zip(POINTS, answers, strict=False)
        if answer is not None
    }
    points = tuple(point for point in POINTS if point.commit in found)
    return MainHistory(repository="somebody/transformers", points=points, answers={KEY: found})


def test_what_is_written_is_read_again_and_written_alike(tmp_path: Path) -> None:
    whole = along(PASSES, FAILS, MUTE, FAILS)
    path = tmp_path / "main.json"
    path.write_text(history.as_text(whole))

    assert history.read_history(path) == whole
    assert history.as_text(history.read_history(path)) == history.as_text(whole)
    assert history.as_text(MainHistory()).count("\n") == 7


def test_neighbouring_points_that_agree_are_one_span() -> None:
    other = FAILS._replace(reason="TypeError: another")

    assert along(PASSES, FAILS, other, MUTE).of(CASE) == {
        Precision.BF16: [
            HistorySpan(fails=False, reasons=("passes",), points=POINTS[:1]),
            HistorySpan(fails=True, reasons=(FAILS.reason, other.reason), points=POINTS[1:3]),
            HistorySpan(fails=None, reasons=(MUTE.reason,), points=POINTS[3:]),
        ]
    }


def test_what_is_kept_is_added_to_what_is_published_and_the_newer_answer_counts(
    tmp_path: Path,
) -> None:
    paths = Paths(root=tmp_path)
    paths.published.mkdir(parents=True)
    (paths.published / history.NAME).write_text(history.as_text(along(PASSES, None, PASSES)))

    history.keep(paths, along(None, FAILS))
    history.keep(paths, along(None, None, FAILS))

    assert history.known_history(paths) == along(PASSES, FAILS, FAILS)


def test_what_an_edited_case_did_is_not_what_it_does() -> None:
    edited = factories.case(factories.BREAKS, code=f"{factories.CODE}\n# edited\n")

    assert along(PASSES, FAILS).within({CASE.name: CASE}) == along(PASSES, FAILS)
    assert along(PASSES, FAILS).within({CASE.name: edited}).points == ()
    assert along(PASSES, FAILS).of(edited) == {}


@pytest.mark.parametrize("text", ["{", '{"format": 1}', '{"format": 1, "points": [["a"]]}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "main.json"
    path.write_text(text)

    with pytest.raises(RunnerError, match=r"main\.json.*damaged"):
        history.read_history(path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "main.json"
    path.write_text('{"format": 2}')

    with pytest.raises(RunnerError, match=r"format 2; this version reads 1.*Update"):
        history.read_history(path)
