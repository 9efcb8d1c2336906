"""What a case does on the main branch: from which measured commit to which it fails, by date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

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
    alike: dict[object, list[tuple[Precision, list[HistorySpan]]]] = {}
    for precision, spans in survey.main.of(case).items():
        if any(span.fails is not None for span in spans):
            same = tuple((span.fails, *span.points) for span in spans)
            alike.setdefault(same, []).append((precision, spans))
    return tuple(chain.from_iterable(_spans(survey, members) for members in alike.values()))


def _spans(
    survey: Survey, members: Sequence[tuple[Precision, list[HistorySpan]]]
) -> Iterator[MainSpan]:
    """Yield the spans of precisions that agree, with the errors of all of them."""
    precisions = precision_words([precision for precision, _ in members])
    for spans in zip(*(spans for _, spans in members), strict=True):
        span, reasons = spans[0], [reason for one in spans for reason in one.reasons]
        yield MainSpan(
            precisions=precisions,
            state=_STATES[span.fails],
            first=span.first.day,
            last=span.last.day,
            commits=(link_to_point(survey, span.first), link_to_point(survey, span.last)),
            count=len(span.points),
            reasons=() if span.fails is False else tuple(map(visible, dict.fromkeys(reasons))),
        )


def link_to_point(survey: Survey, point: HistoryPoint) -> Link:
    """Return the link to a commit where the clone's host shows it, named by hash and version."""
    repository = survey.main.repository
    path = in_path(f"{repository}/commit/{point.commit}")
    href = f"https://github.com/{path}" if repository else ""
    return Link(text=visible(f"{point.commit[:_SHORT]} ({point.version})"), href=href)
