"""What pages show of the main branch: by date, beside the releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from one_case import CASE, ENVIRONMENTS, a_case, judged

from repromatrix.reports.build import render
from repromatrix.reports.figures.main_line import MainSpan, main_timeline
from repromatrix.reports.figures.releases import State
from repromatrix.reports.pages.main import main_page, main_sheet
from repromatrix.reports.sections.main_line import main_spans
from repromatrix.reports.text import Link
from repromatrix.reports.view import survey
from repromatrix.runner.evidence.history import HistoryAnswer, HistoryKey, HistoryPoint, MainHistory
from repromatrix.runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.reports.view import Survey

DATES = {"4.49.0": "2025-02-17", "4.50.0": "2025-03-21", "4.51.0": "2025-04-05"}
POINTS = tuple(
    HistoryPoint(f"{day}T12:00:00Z", letter * 40, "4.51.0.dev0")
    for day, letter in (("2025-03-01", "a"), ("2025-03-25", "b"), ("2025-04-20", "c"))
)
FAILS = HistoryAnswer(fails=True, reason="ValueError: it breaks")
PASSES = HistoryAnswer(fails=False, reason="passes")
MUTE = HistoryAnswer(fails=None, reason="cannot be imported")


def main(**answers: tuple[HistoryAnswer, ...]) -> MainHistory:
    commits = [point.commit for point in POINTS]
    return MainHistory(
        repository="somebody/transformers",
        points=POINTS,
        answers={
            HistoryKey(CASE.name, CASE.digest, Precision(name), Device.CPU): dict(
                zip(commits, said, strict=True)
            )
            for name, said in answers.items()
        },
    )


def told(history: MainHistory) -> Survey:
    cases = {CASE.name: CASE}
    return survey(cases, ENVIRONMENTS, judged(), dates=DATES, main=history)


def link(letter: str) -> Link:
    return Link(
        text=f"{letter * 12} (4.51.0.dev0)",
        href=f"https://github.com/somebody/transformers/commit/{letter * 40}",
    )


def test_precisions_that_agree_share_their_spans_and_what_never_answered_has_none() -> None:
    other = FAILS._replace(reason="ValueError: it breaks in fp16")
    history = main(bf16=(FAILS, FAILS, PASSES), fp16=(FAILS, other, PASSES), fp32=(MUTE,) * 3)

    assert main_spans(told(history), CASE) == (
        MainSpan(
            precisions="bf16 and fp16",
            state=State.FAILS,
            first="2025-03-01",
            last="2025-03-25",
            commits=(link("a"), link("b")),
            count=2,
            reasons=("ValueError: it breaks", "ValueError: it breaks in fp16"),
        ),
        MainSpan(
            precisions="bf16 and fp16",
            state=State.PASSES,
            first="2025-04-20",
            last="2025-04-20",
            commits=(link("c"), link("c")),
            count=1,
            reasons=(),
        ),
    )


def test_the_figure_has_bands_of_main_and_of_releases_on_one_scale_of_days() -> None:
    found = told(main(bf16=(FAILS, FAILS, PASSES)))

    figure = main_timeline(found, CASE, main_spans(found, CASE))

    assert figure is not None
    labels = [band.label for band in figure.bands]
    assert labels[0] == "main, bf16"
    assert all(label.startswith("releases, ") for label in labels[1:])
    failing, passing = figure.bands[0].bars
    assert failing.x < failing.x + failing.width < passing.x  # nothing is known between the two
    assert [tick.label for tick in figure.ticks] == ["4.50", "4.51"]
    ends = [bar.x + bar.width for band in figure.bands for bar in band.bars]
    assert max(ends) <= figure.width
    assert "main, bf16: fails 2025-03-01 to 2025-03-25, passes" in figure.text


def test_the_page_of_main_lists_what_fails_somewhere_and_every_commit() -> None:
    found = told(main(bf16=(FAILS, MUTE, PASSES), fp32=(PASSES,) * 3))
    page = main_page(found, {CASE.name: main_spans(found, CASE)})

    assert [member["case"].text for member in page.cases] == [CASE.name]
    points = [tuple(value for key, value in one.items() if key != "commit") for one in page.points]
    assert points == [("2025-04-20", 0, 2, 0), ("2025-03-25", 0, 1, 1), ("2025-03-01", 1, 1, 0)]
    assert len(main_sheet(page).rows) == len(page.cases[0]["spans"])


def test_the_pages_are_drawn_with_and_without_a_measured_main(tmp_path: Path) -> None:
    cases = {CASE.name: CASE}
    history = main(bf16=(FAILS, FAILS, PASSES))
    render(cases, ENVIRONMENTS, judged(), tmp_path / "with", dates=DATES, main=history)
    render(cases, ENVIRONMENTS, judged(), tmp_path / "without", dates=DATES)

    case = f"case/{CASE.name}.html"
    assert 'id="main-branch"' in (tmp_path / "with" / case).read_text()
    assert 'id="main-branch"' not in (tmp_path / "without" / case).read_text()
    assert "3 commits of the first-parent line" in (tmp_path / "with" / "main.html").read_text()
    assert "No commit of the main branch" in (tmp_path / "without" / "main.html").read_text()


def test_an_edited_case_shows_nothing_of_what_it_was() -> None:
    edited = a_case(docstring="Another one.")
    found = survey({CASE.name: edited}, ENVIRONMENTS, (), main=main(bf16=(FAILS, FAILS, PASSES)))

    assert main_spans(found, edited) == ()
    assert main_timeline(found, edited, ()) is None
