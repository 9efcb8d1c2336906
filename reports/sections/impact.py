"""What a failure costs that raises nothing: measured where it fails and where it passes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from repromatrix.reports.view import Survey
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.impact import Impact
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.text import join


@dataclass(frozen=True, kw_only=True, slots=True)
class ImpactLine:
    """One quantity of the plain case on one device, precisions alike together."""

    precisions: str
    device: str
    what: str
    failing: str
    passing: str
    """Empty where the plain case passes on no release in these precisions."""


def impact(survey: Survey, case: Case) -> tuple[ImpactLine, ...]:
    """Return what the failures of a case cost, a line for each quantity that it measures."""
    alike: dict[tuple[Impact, str, str, str], list[str]] = {}
    for (workaround, device, precision), series in survey.series(case.name).items():
        rows = [row for row in series.values() if row.seen.outcome.is_evidence]
        described = (row for row in rows if row.verdict is Verdict.AS_EXPECTED)
        failing = [row for row in described if row.seen.reading.fails and workaround == PLAIN]
        passing = [row for row in rows if row.seen.reading.fails is False]
        for one in Impact if failing else ():
            if told := _range(one, failing):
                key = one, device.value, told, _range(one, passing)
                alike.setdefault(key, []).append(precision.value)
    return tuple(
        ImpactLine(
            precisions=join(precisions),
            device=device,
            what=one.words,
            failing=failing,
            passing=passing,
        )
        for (one, device, failing, passing), precisions in alike.items()
    )


def _range(one: Impact, rows: Iterable[Judged]) -> str:
    values = [row.seen.measured[one] for row in rows if one in row.seen.measured]
    if not values:
        return ""
    values.sort(key=lambda value: math.inf if math.isnan(value) else value)
    return one.told(values[0], values[-1])
