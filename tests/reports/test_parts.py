"""A site that is drawn again only as far as its data changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import small_site
from rendered import pages

from repromatrix.reports import site as whole_site
from repromatrix.reports.build import render
from repromatrix.reports.pages.case import case_page
from repromatrix.reports.parts import Inputs, Memory, SitePart, digest_of, draw_both, draw_parts
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from repromatrix.reports.pages.case import CasePage
    from repromatrix.reports.parts import Files
    from repromatrix.reports.sections.status import Standing
    from repromatrix.reports.view import Survey
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.observation import Observation

ROWS = tuple(replace(row.seen, source="2026-11-21") for row in small_site.judged())


def _inputs(rows: Sequence[Observation]) -> Inputs:
    return Inputs(
        common="same",
        cases={
            name: digest_of([row for row in rows if row.cell.case == name])
            for name in small_site.CASES
        },
    )


def _draw(folder: Path, rows: Sequence[Observation], known: Memory | None = None) -> Memory:
    return render(
        small_site.CASES,
        tuple(small_site.ENVIRONMENTS.values()),
        judge_all(rows, small_site.CASES, small_site.ENVIRONMENTS),
        folder,
        areas=small_site.AREAS,
        dates=small_site.DATES,
        main=small_site.along_main(),
        inputs=_inputs(rows),
        known=known,
    )


def _measured(row: Observation) -> Observation:
    """Return what this machine saw in a cell: that which the published row denies."""
    passes = row.outcome is Outcome.PASSES
    outcome = Outcome.FAILS if passes else Outcome.PASSES
    return replace(
        row,
        outcome=outcome,
        failed=small_site.DRIFT if passes else None,
        source="this machine",
        repeats=3,
    )


CHANGES: dict[str, Callable[[Observation], bool]] = {
    "one cell": lambda row: row.cell == ROWS[0].cell,
    "a release of a case": lambda row: row.cell[0:3:2] == ("norm_drift", "5.0.1"),
    "the newest release": lambda row: row.cell.environment == "5.0.1",
    "main": lambda row: row.cell[0:3:2] == ("cache_float", "main"),
    "a case": lambda row: row.cell.case == "merge_quiet",
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_site_that_is_drawn_in_parts_is_the_one_that_is_drawn_whole(
    changes: Callable[[Observation], bool], tmp_path: Path
) -> None:
    rows = tuple(_measured(row) if changes(row) else row for row in ROWS)
    before = _draw(tmp_path / "parts", ROWS)
    between = _draw(tmp_path / "parts", rows, before)
    _draw(tmp_path / "whole", rows)

    assert pages(tmp_path / "parts") == pages(tmp_path / "whole")
    _draw(tmp_path / "parts", ROWS, between)
    _draw(tmp_path / "first", ROWS)
    assert pages(tmp_path / "parts") == pages(tmp_path / "first")


def test_only_the_page_of_the_case_that_changed_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    made = case_page

    def noted(survey: Survey, case: Case, standing: Standing) -> CasePage:
        computed.append(case.name)
        return made(survey, case, standing)

    before = _draw(tmp_path, ROWS)
    monkeypatch.setattr(whole_site, "case_page", noted)
    rows = (_measured(ROWS[0]), *ROWS[1:])
    _draw(tmp_path, rows, before)

    assert computed == [ROWS[0].cell.case]


def test_a_page_that_somebody_changed_is_drawn_again(tmp_path: Path) -> None:
    before = _draw(tmp_path, ROWS)
    expected = pages(tmp_path)
    (tmp_path / "case" / "norm_drift.html").write_text("other")
    (tmp_path / "case" / "cache_float.html").unlink()
    _draw(tmp_path, ROWS, before)

    assert pages(tmp_path) == expected


def test_what_a_fork_cannot_draw_is_told_as_if_it_were_drawn_here(tmp_path: Path) -> None:
    def fails() -> Files:
        yield "half", b"half"
        message = "no space left"
        raise OSError(message)

    with pytest.raises(OSError, match="no space left"):
        draw_both([], [SitePart("failing", "", fails)], tmp_path, Memory())


def test_both_lists_of_parts_are_drawn(tmp_path: Path) -> None:
    def one() -> Files:
        yield "a/one", b"1"

    def other() -> Files:
        yield "b/other", b"2"

    parts = [SitePart("one", "k", one)], [SitePart("other", "k", other)]
    drawn = draw_both(*parts, tmp_path, Memory())

    assert pages(tmp_path) == {"a/one": b"1", "b/other": b"2"}
    assert drawn == draw_parts([*parts[0], *parts[1]], tmp_path, Memory(parts=drawn))


def test_a_file_is_written_as_soon_as_it_is_drawn_and_none_is_held_in_memory(
    tmp_path: Path,
) -> None:
    def drawn() -> Files:
        yield "case/one.html", b"one"
        assert (tmp_path / "case" / "one.html").read_bytes() == b"one"
        yield "index.html", b"first"

    draw_parts([SitePart("all", "", drawn)], tmp_path, Memory())

    assert pages(tmp_path) == {"case/one.html": b"one", "index.html": b"first"}
