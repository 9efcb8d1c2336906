"""How many known bugs a release has: one count for its badge, its page and the first screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from repromatrix.reports.view import Survey
from repromatrix.runner.model.case import PLAIN, CaseKind
from repromatrix.runner.model.outcomes import Outcome, Reading
from repromatrix.runner.text import plural


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """What became of the cases in one column, without workarounds, in any precision."""

    bugs: tuple[str, ...]
    """The cases that fail; those of which that is intended stand apart."""
    silent: tuple[str, ...]
    """Those of the bugs that raise no error."""
    intended: tuple[str, ...]
    passing: tuple[str, ...]
    unknown: tuple[str, ...]
    """Bugs that may fail, for all that was measured."""

    @property
    def says(self) -> str:
        """The count of what fails in words, the same wherever it stands."""
        bugs = plural(len(self.bugs), "known half-precision bug")
        quiet = f", {len(self.silent)} of them silent" if self.bugs else ""
        meant = f", and {plural(len(self.intended), 'intended change')}" if self.intended else ""
        return f"{bugs}{quiet}{meant}"

    @property
    def judged(self) -> int:
        """Of how many bugs it is known whether they fail."""
        return len(self.bugs) + len(self.passing)


def statuses(survey: Survey) -> dict[str, Status]:
    """Return the status of every column in which a case applies, on devices with a result."""
    return {column: _status(survey, known) for column, known in _failing(survey).items()}


def _status(survey: Survey, known: dict[str, bool | None]) -> Status:
    blocks = {name: survey.cases[name].block for name in known}
    bugs = [name for name, block in blocks.items() if block.kind is CaseKind.BUG]
    failing = tuple(name for name in bugs if known[name])
    return Status(
        bugs=failing,
        silent=tuple(name for name in failing if blocks[name].is_silent),
        intended=tuple(name for name in known if known[name] and name not in bugs),
        passing=tuple(name for name in bugs if known[name] is False),
        unknown=tuple(name for name in bugs if known[name] is None),
    )


def _failing(survey: Survey) -> dict[str, dict[str, bool | None]]:
    """Return by column and case whether it fails in any precision; None where that is unknown."""
    found: dict[str, dict[str, bool | None]] = {}
    for name in survey.cases:
        for (workaround, device, precision), rows in survey.series(name).items():
            if workaround != PLAIN or device not in survey.measured_on:
                continue
            failing = survey.failing(name).get((workaround, device, precision), {})
            for environment, row in rows.items():
                if row.seen.outcome is not Outcome.NOT_APPLICABLE:
                    cases = found.setdefault(survey.column_of[environment], {})
                    known = {cases.get(name), failing.get(environment)} - {None}
                    cases[name] = any(known) if known else None
        for environment in unjudged(survey, name):
            cases = found[survey.column_of[environment]]
            cases[name] = cases[name] or None
    return found


def unjudged(survey: Survey, name: str) -> frozenset[str]:
    """Return where a plain cell of a case may fail for all that is known: nothing there passes.

    It was not run, inferred or not, or machines or runs deny each other, or the machine decided.
    """
    return frozenset(
        environment
        for (workaround, device, _), rows in survey.series(name).items()
        if workaround == PLAIN and device in survey.measured_on
        for environment, row in rows.items()
        if row.seen.reading is Reading.UNKNOWN
    )


class Newest(NamedTuple):
    """The newest release in one sentence."""

    release: str
    says: str


def newest(survey: Survey, known: Mapping[str, Status]) -> Newest | None:
    """Return how the newest release with a result stands; None where nothing was measured.

    `known` is the status of every column. What may still fail there is not called fixed.
    """
    judged = [name for name in survey.releases if name in known and known[name].judged]
    if not judged:
        return None
    name = judged[-1]
    failing = {*known[name].bugs, *known[name].intended}
    here = {one for one in survey.order if survey.column_of[one] == name}
    unknown = {case for case in survey.cases if here & unjudged(survey, case)} - failing
    fixed = {case for case in survey.cases if _ever_failed(survey, case)} - failing - unknown
    waiting = [case for case in survey.cases if survey.unmeasured(case)]
    counts = (("fixed", fixed), ("unknown", unknown), ("not measured", waiting))
    parts = [known[name].says, *(f"{len(cases)} {word}" for word, cases in counts if cases)]
    return Newest(release=name, says="; ".join(parts))


def _ever_failed(survey: Survey, case: str) -> bool:
    series = survey.failing(case).items()
    return any(any(found.values()) for (workaround, *_), found in series if workaround == PLAIN)
