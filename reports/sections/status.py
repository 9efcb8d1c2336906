"""How many known bugs a release has: one count for its badge, its page and the first screen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from repromatrix.reports.view import Survey, once_of_a_survey
from repromatrix.runner.model.case import PLAIN, Case, CaseKind
from repromatrix.runner.model.outcomes import Outcome, Precision, Reading
from repromatrix.runner.text import join, plural


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """What became of the cases in one column, without workarounds, in any precision."""

    bugs: tuple[str, ...]
    """The cases that fail; those of which that is intended stand apart."""
    silent: tuple[str, ...]
    """Those of the bugs that raise no error."""
    in_fp32: tuple[str, ...]
    """Those of the bugs that fail in fp32 as well."""
    intended: tuple[str, ...]
    passing: tuple[str, ...]
    unknown: tuple[str, ...]
    """Bugs that may fail, for all that was measured."""

    @property
    def says(self) -> str:
        """The count of what fails in words, the same wherever it stands."""
        bugs = plural(len(self.bugs), "known bug")
        quiet = f", {len(self.silent)} of them silent" if self.bugs else ""
        whole = f", {len(self.in_fp32)} in fp32 as well" if self.in_fp32 else ""
        meant = f", and {plural(len(self.intended), 'intended change')}" if self.intended else ""
        return f"{bugs}{quiet}{whole}{meant}"

    @property
    def judged(self) -> int:
        """Of how many bugs it is known whether they fail."""
        return len(self.bugs) + len(self.passing)


@once_of_a_survey
def statuses(survey: Survey) -> dict[str, Status]:
    """Return the status of every column in which a case applies, on devices with a result."""
    found, whole = _failing(survey)
    return {column: _status(survey, known, whole[column]) for column, known in found.items()}


def _status(survey: Survey, known: Mapping[str, bool | None], whole: AbstractSet[str]) -> Status:
    blocks = {name: survey.cases[name].block for name in known}
    bugs = [name for name, block in blocks.items() if block.kind is CaseKind.BUG]
    failing = tuple(name for name in bugs if known[name])
    return Status(
        bugs=failing,
        silent=tuple(name for name in failing if blocks[name].is_silent),
        in_fp32=tuple(name for name in failing if name in whole),
        intended=tuple(name for name in known if known[name] and name not in bugs),
        passing=tuple(name for name in bugs if known[name] is False),
        unknown=tuple(name for name in bugs if known[name] is None),
    )


def _failing(
    survey: Survey,
) -> tuple[dict[str, dict[str, bool | None]], defaultdict[str, set[str]]]:
    """Return by column whether each case fails (None: unknown), and which fail in fp32."""
    found: dict[str, dict[str, bool | None]] = {}
    whole: defaultdict[str, set[str]] = defaultdict(set)
    for name in survey.cases:
        for key, rows in survey.series(name).items():
            workaround, device, precision = key
            if workaround != PLAIN or device not in survey.measured_on:
                continue
            failing = survey.failing(name)[key]
            for environment, row in rows.items():
                if row.seen.outcome is not Outcome.NOT_APPLICABLE:
                    column, fails = survey.column_of[environment], failing.get(environment)
                    cases = found.setdefault(column, {})
                    before = cases.get(name)
                    cases[name] = before if fails is None else before or fails
                    if fails and precision is Precision.FP32:
                        whole[column].add(name)
        for environment in unjudged(survey, name):
            cases = found.get(survey.column_of[environment], {})
            if name in cases:
                cases[name] = cases[name] or None
    return found, whole


def unjudged(survey: Survey, name: str) -> frozenset[str]:
    """Return where a plain cell of a case may fail for all that is known: nothing there passes.

    It was not run or is not due, or machines or runs deny each other, or the machine decided.
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


class CaseState(StrEnum):
    """How a case stands in the newest release; what matters most to a reader comes first."""

    OPEN = "open"
    UNKNOWN = "unknown"
    UNMEASURED = "not measured"
    FIXED = "fixed"
    PASSING = "passing"
    """It never failed."""


class Standing(NamedTuple):
    """The state of a case, and the same in words."""

    state: CaseState
    says: str


def tally(standings: Iterable[Standing]) -> str:
    """Return how many cases stand how: `3 cases: 1 open, 2 fixed`; `1 case, fixed`."""
    counts = Counter(one.state for one in standings)
    cases = plural(counts.total(), "case")
    if len(counts) == 1:
        [state] = counts
        return f"{cases}, {'all ' if counts[state] > 1 else ''}{state}"
    parts = [f"{counts[state]} {state}" for state in CaseState if counts[state]]
    return ": ".join(filter(None, [cases, ", ".join(parts)]))


@once_of_a_survey
def standings(survey: Survey) -> dict[str, Standing]:
    """Return how each case stands in the newest release with a result, or its newest stack."""
    found = newest(survey, statuses(survey))
    release = found.release if found else ""
    return {name: _standing(survey, case, release) for name, case in survey.cases.items()}


def _standing(survey: Survey, case: Case, release: str) -> Standing:
    if says := survey.unmeasured(case.name):
        return Standing(CaseState.UNMEASURED, says)
    columns = [one.name for one in survey.only_in(case)] or [release]
    known = _known_in(survey, case, survey.standing(case, columns[-1]))
    where = columns[-1] if survey.only_in(case) else f"{release}, the newest release"
    ever = _ever_failed(survey, case.name)
    if failing := [one.value for one in Precision if known.get(one) is True]:
        return Standing(CaseState.OPEN, f"fails in {join(failing)} on {where}")
    if None in known.values():
        return Standing(CaseState.UNKNOWN, f"unknown on {where}")
    state = CaseState.FIXED if ever else CaseState.PASSING
    if not known:
        return Standing(state, f"does not apply to {where}")
    return Standing(state, f"passes on {where}" if ever else "no measured release fails")


def _known_in(survey: Survey, case: Case, environment: str) -> dict[Precision, bool | None]:
    """Return by precision whether a plain case fails; None where it may for all that is known."""
    found: dict[Precision, bool | None] = {}
    for (workaround, device, precision), rows in survey.series(case.name).items():
        row = rows.get(environment)
        if workaround != PLAIN or device not in survey.measured_on or row is None:
            continue
        match row.seen.reading:
            case Reading.GOOD | Reading.BAD:
                found[precision] = found.get(precision) or row.seen.reading.fails
            case Reading.UNKNOWN:
                found.setdefault(precision, None)
            case Reading.SILENT | Reading.ABSENT:
                pass
    return found
