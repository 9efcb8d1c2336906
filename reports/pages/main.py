"""The story of the main branch: when each case broke and was fixed there, beside the releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from repromatrix.reports.exports.rows import ExportTable
from repromatrix.reports.figures.main_line import MainSpan
from repromatrix.reports.figures.releases import State
from repromatrix.reports.sections.main_line import link_to_point
from repromatrix.reports.text import Link, page_of, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.model.outcomes import Device


@dataclass(frozen=True, kw_only=True, slots=True)
class MainPage:
    """The page."""

    repository: str
    cases: list[dict[str, Any]]
    """Those that fail at some commit: their spans there in the precisions that fail, and ranges."""
    quiet: int
    """How many cases were judged and fail nowhere."""
    points: list[dict[str, Any]]
    """Of each measured commit, newest first, how many cells fail, pass, and were not judged."""


def main_page(survey: Survey, told: Mapping[str, tuple[MainSpan, ...]]) -> MainPage:
    """Return the context of the page; `told` are the spans of each case."""
    bad = {
        name: {span.precisions for span in spans if span.state is State.FAILS}
        for name, spans in told.items()
    }
    failing = {name: spans for name, spans in told.items() if bad[name]}
    return MainPage(
        repository=visible(survey.main.repository),
        cases=[
            {
                "case": Link(text=visible(name), href=page_of(name)),
                "title": visible(survey.cases[name].block.title),
                "spans": [span for span in spans if span.precisions in bad[name]],
                "ranges": [
                    f"{', '.join(precisions)}: {'; '.join(texts)}"
                    for device, precisions, texts in survey.failing_ranges(survey.cases[name])
                    if device is Device.CPU
                ],
            }
            for name, spans in failing.items()
        ],
        quiet=sum(bool(spans) for spans in told.values()) - len(failing),
        points=[*_points(survey)],
    )


def _points(survey: Survey) -> Iterator[dict[str, Any]]:
    for point in reversed(survey.main.points):
        said = [
            answers[point.commit].fails
            for answers in survey.main.answers.values()
            if point.commit in answers
        ]
        yield {
            "day": point.day,
            "commit": link_to_point(survey, point),
            "fails": said.count(True),
            "passes": said.count(False),
            "unjudged": said.count(None),
        }


def main_sheet(page: MainPage) -> ExportTable:
    """Return every span as a table."""
    columns = ("case", "precisions", "does", "since", "until", "first", "last", "commits", "errors")
    rows = (
        (
            member["case"].text,
            span.precisions,
            span.state.value,
            span.first,
            span.last,
            *(link.text for link in span.commits),
            span.count,
            "; ".join(span.reasons),
        )
        for member in page.cases
        for span in member["spans"]
    )
    return ExportTable(path="main", columns=columns, rows=tuple(rows))
