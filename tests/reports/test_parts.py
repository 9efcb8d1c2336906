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
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.site import agreeing_with_published

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


def _by_case(rows: Sequence[Observation]) -> dict[str, str]:
    return {
        name: digest_of([row for row in rows if row.cell.case == name]) for name in small_site.CASES
    }


def _draw(
    folder: Path,
    rows: Sequence[Observation],
    known: Memory | None = None,
    local: Sequence[Observation] = (),
) -> Memory:
    every, held = [*rows, *local], (small_site.CASES, small_site.ENVIRONMENTS)
    judged = judge_all(answering_rows(every, *held).values(), *held)
    here, told = agreeing_with_published(every, judged, *held)
    others = [*rows, *(row for row in local if row.cell not in told)]
    return render(
        small_site.CASES,
        tuple(small_site.ENVIRONMENTS.values()),
        (told.get(row.seen.cell, row) for row in judged),
        folder,
        dates=small_site.DATES,
        main=small_site.along_main(),
        inputs=Inputs(common="same", cases=_by_case(every), shared=_by_case(others)),
        known=known,
        here=here,
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


def _again(row: Observation) -> Observation:
    """Return what another machine saw in a cell: that which is published."""
    ran = replace(row.provenance, hardware="another CPU", run="later")
    return replace(row, provenance=ran, source="this machine", seconds=0.5)


OF_A_CASE = [row for row in ROWS if row.cell.case == "norm_drift" and row.outcome.was_run]
LOCAL: dict[str, list[Observation]] = {
    "agrees": [_again(row) for row in OF_A_CASE],
    "denies": [_measured(row) for row in OF_A_CASE],
    "agrees and denies": [_again(OF_A_CASE[0]), *map(_measured, OF_A_CASE[1:])],
    "denies without a repeat": [replace(_measured(row), repeats=1) for row in OF_A_CASE],
    "is of another text of the case": [
        replace(row, provenance=replace(row.provenance, case_digest="other"), source="this machine")
        for row in OF_A_CASE
    ],
}


@pytest.mark.parametrize("local", LOCAL.values(), ids=LOCAL)
def test_what_this_machine_measured_is_drawn_in_parts_as_from_nothing(
    local: list[Observation], tmp_path: Path
) -> None:
    before = _draw(tmp_path / "parts", ROWS)
    between = _draw(tmp_path / "parts", ROWS, before, local)
    _draw(tmp_path / "whole", ROWS, local=local)

    assert pages(tmp_path / "parts") == pages(tmp_path / "whole")
    _draw(tmp_path / "parts", ROWS, between)
    _draw(tmp_path / "first", ROWS)
    assert pages(tmp_path / "parts") == pages(tmp_path / "first")


def test_what_was_measured_as_it_is_published_changes_its_case_and_marks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _draw(tmp_path, ROWS)
    published = pages(tmp_path)
    monkeypatch.setattr(whole_site, "standings", None)  # nothing shared is computed
    _draw(tmp_path, ROWS, before, LOCAL["agrees"])
    changed = {name for name, page in pages(tmp_path).items() if page != published[name]}
    marked = (tmp_path / "data" / "measured.js").read_text()

    assert changed == {"case/norm_drift.html", "cells.csv.gz", "data/measured.js"}
    assert marked.startswith('var measured = [["norm_drift","')


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
