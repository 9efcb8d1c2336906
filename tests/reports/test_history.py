"""Since when a case fails, what fixed it, and how it stands in the newest release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from one_case import (
    BLOCK,
    CASE,
    ENVIRONMENTS,
    NO_FLOAT,
    a_case,
    fake_run,
    judged,
    observed,
    paired,
    pinned,
    surveyed,
)

from repromatrix.reports.build import render
from repromatrix.reports.sections.history import FailingSpan, Milestone, history
from repromatrix.reports.sections.status import Standing, standings
from repromatrix.reports.text import Link
from repromatrix.reports.view import survey
from repromatrix.runner.judging.counts import BugState
from repromatrix.runner.model.cell import NEEDS_GPU
from repromatrix.runner.model.outcomes import Outcome, Precision

if TYPE_CHECKING:
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

PULL = Link(text="owner/name#8", href="https://github.com/owner/name/pull/8")


def test_the_commits_that_were_measured_stand_beside_the_releases() -> None:
    rows = (pinned("break", "4.49.0", "4.50.0", "a"), pinned("fix", "4.50.1", "4.51.0", "b"))

    def run(cell: Cell) -> Observation | None:
        passes = cell.environment == "4.49.0"
        return observed(cell, Outcome.PASSES) if passes else fake_run(cell)

    (span,) = history(surveyed(run, rows), CASE)
    links = [
        Link(
            text=f"{letter * 12} (2025-03-28, transformers#8)",
            href=f"https://github.com/huggingface/transformers/commit/{letter * 40}",
        )
        for letter in "ab"
    ]

    assert span.mend is not None
    assert [*span.origin.commits, *span.mend.commits] == links


def test_a_fix_on_record_that_measurement_contradicts_is_marked(tmp_path: Path) -> None:
    recorded = "https://github.com/huggingface/transformers/pull/9"
    case = a_case(BLOCK.replace(PULL.href, recorded))
    fix = pinned("fix", "4.50.1", "4.51.0")
    rows = judged(case=case)
    found = survey({case.name: case}, ENVIRONMENTS, rows, commits={fix.key: fix})
    (span,) = history(found, case)
    render({case.name: case}, ENVIRONMENTS, rows, tmp_path, commits={fix.key: fix})
    page = (tmp_path / "case" / "cache_float.html").read_text()

    assert span.mend is not None
    assert span.mend.contradicted == span.mend.pulls
    assert [pull.href for pull in span.mend.pulls] == [recorded]
    assert "</a> <small>(on record, contradicted by the measured commit)</small>, commit" in page


def failing_on(*releases: str, passing: tuple[str, ...] = ()) -> FailingSpan:
    """Return the range of bf16 where it fails on some releases; all others say nothing."""

    def run(cell: Cell) -> Observation | None:
        if cell.environment in passing:
            return observed(cell, Outcome.PASSES)
        if cell.environment in releases:
            return observed(cell, Outcome.FAILS, failed=NO_FLOAT)
        return observed(cell, Outcome.NOT_RUN)

    return history(surveyed(run), CASE)[0]


@pytest.mark.parametrize(
    ("failing", "passing", "expected"),
    [
        (("4.50.0",), ("4.49.0",), (True, "4.49.0 passes")),
        (("4.49.0",), (), (False, "the oldest one that is measured")),
        (("4.50.0",), (), (False, "older ones are unknown")),
        (
            ("4.50.1",),
            ("4.49.0",),
            (True, "after 4.49.0, by this one: those between are unknown"),
        ),
    ],
)
def test_only_a_release_with_a_pass_before_it_is_said_to_have_broken_it(
    failing: tuple[str, ...], passing: tuple[str, ...], expected: tuple[bool, str]
) -> None:
    origin = failing_on(*failing, passing=passing).origin

    assert (origin.is_known, origin.says) == expected


def test_what_is_not_fixed_has_no_mend_and_a_gap_before_a_pass_is_said() -> None:
    gap = failing_on("4.50.0", passing=("4.51.0",)).mend

    assert failing_on("4.50.0").mend is None
    assert gap is not None
    assert (gap.at.name, gap.says) == ("4.51.0", "after 4.50.0, by this one")


def test_where_the_version_of_a_package_decides_the_range_is_of_that_package() -> None:
    pairs = ["4.51.0+accelerate1.4.0", "4.51.0+accelerate1.6.0"]
    blamed = [entry.model_copy(update={"at_fault": "accelerate"}) for entry in CASE.block.fails]
    update = {"environments": tuple(pairs), "fails": tuple(blamed)}
    case = replace(CASE, block=CASE.block.model_copy(update=update))
    environments = [
        *ENVIRONMENTS,
        *paired(pairs),
    ]
    rows = list(judged())
    broken = next(row for row in rows if row.seen.outcome is Outcome.FAILS)
    cell = broken.seen.cell._replace(environment=pairs[0])
    passing = [row for row in rows if row.seen.outcome is not Outcome.FAILS]
    there = replace(broken, seen=replace(broken.seen, cell=cell))
    [span] = history(survey({case.name: case}, environments, [*passing, there]), case)
    old = Milestone(name="accelerate 1.4.0", href="package/accelerate.html")

    assert (span.first, span.last, span.note) == (old, old, "seen on 4.51.0+accelerate1.4.0")
    assert span.origin.says == "the oldest that is measured"
    assert span.mend is not None
    assert span.mend.at.name == "accelerate 1.5.2"


def standing(outcome: Outcome | None = None, **facts: object) -> Standing:
    """Return how the case stands where bf16 on the newest release came out so."""

    def run(cell: Cell) -> Observation | None:
        if outcome and (cell.environment, cell.precision) == ("4.51.0", Precision.BF16):
            return observed(cell, outcome, **facts)
        return fake_run(cell)

    beside = a_case(name="beside")
    rows = [*judged(run), *judged(case=beside)]
    return standings(survey({CASE.name: CASE, beside.name: beside}, ENVIRONMENTS, rows))[CASE.name]


def test_the_standing_of_a_case_is_that_in_the_newest_release() -> None:
    newest = "4.51.0, the newest release"
    waits = surveyed(lambda cell: observed(cell, Outcome.NOT_MEASURED, reason=NEEDS_GPU))

    assert standing() == Standing(BugState.FIXED, f"passes on {newest}", "4.51.0")
    assert standing(Outcome.FAILS, failed=NO_FLOAT) == Standing(
        BugState.OPEN, f"fails in bf16 on {newest}", "4.51.0"
    )
    assert standing(Outcome.NOT_RUN) == Standing(BugState.UNKNOWN, f"unknown on {newest}", "4.51.0")
    assert standings(waits)[CASE.name] == Standing(
        BugState.UNMEASURED, "not measured: needs a GPU", ""
    )
