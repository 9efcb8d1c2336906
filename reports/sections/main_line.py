"""What a case does on the main branch: from which measured commit to which it fails, by date."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from repromatrix.reports.figures.main_line import MainSpan
from repromatrix.reports.figures.releases import State, precision_words
from repromatrix.reports.text import Link, in_path, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.evidence.history import HistoryPoint, HistorySpan
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.outcomes import Precision

_SHORT = 12
_STATES = {True: State.FAILS, False: State.PASSES, None: State.UNKNOWN}


def main_spans(survey: Survey, case: Case) -> tuple[MainSpan, ...]:
    """Return the spans of a case by precisions that agree; none where no commit was judged.

    Precisions agree where they do the same at the same commits, whatever their errors say.
    """
    alike: dict[tuple[MainSpan, ...], list[tuple[Precision, list[HistorySpan]]]] = {}
    for precision, spans in survey.main.of(case).items():
        if any(span.fails is not None for span in spans):
            told = tuple(_span(survey, span) for span in spans)
            alike.setdefault(told, []).append((precision, spans))
    return tuple(
        replace(
            span,
            precisions=precision_words([precision for precision, _ in members]),
            reasons=_reasons(spans[place] for _, spans in members),
        )
        for told, members in alike.items()
        for place, span in enumerate(told)
    )


def _reasons(spans: Iterable[HistorySpan]) -> tuple[str, ...]:
    found = (reason for span in spans if span.fails is not False for reason in span.reasons)
    return tuple(map(visible, dict.fromkeys(found)))


def _span(survey: Survey, span: HistorySpan) -> MainSpan:
    return MainSpan(
        precisions="",
        state=_STATES[span.fails],
        first=span.first.day,
        last=span.last.day,
        commits=(link_to_point(survey, span.first), link_to_point(survey, span.last)),
        count=len(span.points),
        reasons=(),
    )


def link_to_point(survey: Survey, point: HistoryPoint) -> Link:
    """Return the link to a commit where the clone's host shows it, named by hash and version."""
    repository = survey.main.repository
    path = in_path(f"{repository}/commit/{point.commit}")
    href = f"https://github.com/{path}" if repository else ""
    return Link(text=visible(f"{point.commit[:_SHORT]} ({point.version})"), href=href)
