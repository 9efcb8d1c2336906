"""The commands that search for what broke a case, healed it, or whether it concerns a reader."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from repromatrix.reports.view import Survey
from repromatrix.runner.judging.axes import axes
from repromatrix.runner.judging.ranges import Range, ranges_along
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.outcomes import Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class SuggestedCommand:
    """A question and the command that answers it."""

    asks: str
    text: str


def commands(survey: Survey, case: Case) -> tuple[SuggestedCommand, ...]:
    """Return what to ask next about a case that fails somewhere; nothing where it never does."""
    found = _newest(survey, case)
    return tuple(_commands(case.name, *found)) if found else ()


def _newest(survey: Survey, case: Case) -> tuple[Precision, Range] | None:
    """Return the newest range of releases on which the plain case fails, and its precision."""
    releases = axes(case, survey.by_name)[0]
    found = [
        (precision, one)
        for (variant, _, precision), rows in survey.series(case.name).items()
        if variant == PLAIN
        for one in ranges_along(releases, {name: row.seen for name, row in rows.items()})
    ]
    when = {name: place for place, name in enumerate(survey.releases)}
    return max(found, key=lambda item: when.get(item[1].releases[-1], -1), default=None)


def _commands(name: str, precision: Precision, failing: Range) -> Iterator[SuggestedCommand]:
    search = ["nox", "-s", "bisect", "--", name, "--precision", precision.value]
    yield SuggestedCommand(asks="Which release broke it?", text=shlex.join(search))
    if failing.until:
        yield SuggestedCommand(asks="Which release healed it?", text=shlex.join([*search, "--fix"]))
    for good, bad in _sides(failing):
        ends = ["--precision", precision.value, "--good", good, "--bad", bad]
        text = shlex.join(["nox", "-s", "blame", "--", name, *ends])
        yield SuggestedCommand(asks="Which package makes the difference?", text=text)
    audit = ["nox", "-s", "audit", "--", "requirements.txt", "--precision", precision.value]
    yield SuggestedCommand(
        asks="Does my project have it?", text=shlex.join([*audit, "--case", name])
    )


def _sides(failing: Range) -> Iterator[tuple[str, str]]:
    """Yield a release that passes and its neighbour that fails, where there is one."""
    if failing.until:
        yield failing.until, failing.releases[-1]
    elif failing.after:
        yield failing.after, failing.releases[0]
