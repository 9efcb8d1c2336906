"""The figures and files of a case's page, by the values that reach the templates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from one_case import CASE, NO_FLOAT, changed, fake_run, surveyed

from repromatrix.reports.figures.releases import Plot, PlotLevel, Stroke, Tick, ticks
from repromatrix.reports.pages.case import case_page
from repromatrix.reports.sections.failures import MessageLine, Sort, Version, Wording
from repromatrix.reports.sections.numbers import Part, shares
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from one_case import Fake

    from repromatrix.runner.model.observation import Observation


def test_lines_of_releases_are_named_where_there_is_room() -> None:
    names = ["4.49.0", "4.50.0", "4.50.1", "4.51.0", "4.51.1", "main"]

    assert ticks(names) == (Tick(x=190, label="4.49"), Tick(x=240, label="main"))


def test_a_number_is_a_line_along_the_releases_with_a_gap_where_it_is_missing() -> None:
    values = {"4.50.0": 0.0, "4.51.0": 1.0}
    expected = Plot(
        name="error",
        variant="",
        device=Device.CPU,
        width=270,
        height=144,
        ticks=(Tick(x=190, label="4.49"),),
        levels=(PlotLevel(y=124, label="0"), PlotLevel(y=24, label="1")),
        strokes=(
            Stroke(
                precision=Precision.FP32,
                path="M200 124H208M220 24H228",
                says="0 to 1, on 2 releases, 4.50.0 to 4.51.0",
            ),
        ),
        by_factors=False,
    )

    assert expected == case_page(surveyed(_measuring(values)), CASE).plots[0]


def test_numbers_that_differ_by_orders_are_drawn_by_factors_and_none_on_the_floor() -> None:
    plot = case_page(surveyed(_measuring({"4.50.0": 0.0, "4.50.1": 1e-3, "4.51.0": 10.0})), CASE)

    assert plot.plots[0].by_factors
    assert plot.plots[0].strokes[0].path == "M200 124H208L210 114H218L220 24H228"


def test_what_is_no_number_is_drawn_above_all_numbers() -> None:
    plot = case_page(surveyed(_measuring({"4.50.0": 1.0, "4.50.1": math.nan})), CASE).plots[0]

    assert plot.levels == (PlotLevel(y=74, label="1"), PlotLevel(y=12, label="not finite"))
    assert plot.strokes[0].path == "M200 74H208L210 12H218"


def _measuring(values: dict[str, float]) -> Fake:
    def run(cell: Cell) -> Observation | None:
        seen = fake_run(cell)
        if seen is None or cell.workaround or cell.precision is not Precision.FP32:
            return replace(seen, measured={}) if seen else None
        known = cell.environment in values
        return replace(seen, measured={"error": values[cell.environment]} if known else {})

    return run


def test_counts_share_a_bar() -> None:
    assert shares({"a": 3, "b": 0, "c": 1}) == (
        Part(name="a", x=0.0, width=180.0, pattern=0),
        Part(name="c", x=180.0, width=60.0, pattern=2),
    )
    assert shares({}) == ()


def test_a_message_is_whole_at_first_and_then_only_what_differs() -> None:
    later = replace(NO_FLOAT, message="'HybridCache' has no 'float'")
    cell = Cell("cache_float", "", "4.50.1", Precision.BF16, Device.CPU)
    found = case_page(surveyed(changed(cell, lambda seen: replace(seen, failed=later))), CASE)
    before, after = f"AttributeError: {NO_FLOAT.message}", f"AttributeError: {later.message}"
    expected = Wording(
        versions=(
            Version(
                releases="4.50.0",
                precisions="bf16",
                headline=before,
                lines=(
                    MessageLine(sort=Sort.KEPT, text="Traceback: deep"),
                    MessageLine(sort=Sort.KEPT, text=before),
                ),
            ),
            Version(
                releases="4.50.1",
                precisions="bf16",
                headline=after,
                lines=(
                    MessageLine(sort=Sort.GONE, text=before),
                    MessageLine(sort=Sort.NEW, text=after),
                ),
            ),
        ),
        more=0,
    )

    assert expected == found.wording


def test_of_a_case_that_never_fails_nothing_is_asked_and_nothing_downloaded() -> None:
    def passes(cell: Cell) -> Observation | None:
        seen = fake_run(cell)
        failed = seen is not None and seen.outcome is Outcome.FAILS
        return replace(seen, outcome=Outcome.PASSES, failed=None) if failed and seen else seen

    page = case_page(surveyed(passes), CASE)

    assert (page.commands, page.pinned, page.wording.versions) == ((), None, ())
