"""How many known bugs a release has: one count for its badge, its page and the first screen."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from repromatrix.reports.view import Survey, once_of_a_survey
from repromatrix.runner.judging.counts import DEVICES, Bug, BugCount, BugState, count
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.text import join


@once_of_a_survey
def statuses(survey: Survey) -> dict[str, BugCount]:
    """Return what the bugs do in every column in which one can be met."""
    found = {column: in_column(survey, column) for column in columns(survey)}
    return {
        name: known for name, known in found.items() if known.intended or any(known.of.values())
    }


@once_of_a_survey
def columns(survey: Survey) -> dict[str, frozenset[str]]:
    """Return the environments that stand in each column."""
    found: dict[str, set[str]] = {}
    for name, column in survey.column_of.items():
        found.setdefault(column, set()).add(name)
    return {column: frozenset(names) for column, names in found.items()}


def in_column(survey: Survey, column: str, devices: Collection[Device] = DEVICES) -> BugCount:
    """Count the bugs by what they do in a column; those that nobody asked there are left out."""
    names = columns(survey)[column]
    known = ((bug, bug.state(names, devices)) for bug in every_bug(survey))
    return count((bug, state) for bug, state in known if state is not BugState.UNMEASURED)


def every_bug(survey: Survey) -> Iterable[Bug]:
    """Yield the bugs of all cases."""
    return (bug for name in survey.cases for bug in survey.bugs(name))


def by_device(survey: Survey, column: str) -> str:
    """Return how many of a column's bugs fail on each device; empty where there is one alone."""
    names = {Device.CPU: "a CPU", Device.CUDA: "a GPU"}
    found = [(names[one], in_column(survey, column, (one,))) for one in survey.devices]
    parts = [f"{len(on.open)} of {on.judged} on {name}" for name, on in found if on.judged]
    return f"{join(parts)} fail" if len(parts) > 1 else ""


class Newest(NamedTuple):
    """The newest release in one sentence."""

    release: str
    says: str
    devices: str
    """The same by device, where there are several."""


def newest(survey: Survey) -> Newest | None:
    """Return how the newest release with a result stands; None where nothing was measured."""
    release = newest_release(survey)
    if not release:
        return None
    here, every = statuses(survey)[release], count_of(survey, survey.cases)
    elsewhere = len(every.open) - len(here.open)
    beside = [f"{elsewhere} more open in downstream stacks"] if elsewhere else []
    states = (BugState.FIXED, BugState.UNKNOWN, BugState.UNMEASURED)
    parts = [f"{len(every.of[state])} {state}" for state in states if every.of[state]]
    says = "; ".join([here.says, *beside, *parts])
    return Newest(release=release, says=says, devices=by_device(survey, release))


@once_of_a_survey
def newest_release(survey: Survey) -> str:
    """Return the newest release with a result; empty where nothing was measured."""
    known = statuses(survey)
    judged = [name for name in survey.releases if name in known and known[name].judged]
    return judged[-1] if judged else ""


NEWEST = ", the newest release"


class Standing(NamedTuple):
    """The state of a case, which is that of its worst bug, and the same in words."""

    state: BugState
    says: str
    column: str
    """The release, or the stack, in which it stands so."""


@once_of_a_survey
def states(survey: Survey) -> dict[str, tuple[tuple[Bug, BugState], ...]]:
    """Return what became of the bugs of each case: in the newest release, or its newest stack."""
    release = newest_release(survey)
    found = {}
    for name, case in survey.cases.items():
        names = {survey.standing(case, _column(survey, case, release))}
        found[name] = tuple((bug, bug.newest(names)) for bug in survey.bugs(name))
    return found


def _column(survey: Survey, case: Case, release: str) -> str:
    only = survey.only_in(case)
    return only[-1].name if only else release


def count_of(survey: Survey, names: Iterable[str]) -> BugCount:
    """Count the bugs of some cases by what became of them."""
    known = states(survey)
    return count(state for name in names for state in known[name])


@once_of_a_survey
def at_fault(survey: Survey) -> dict[str, BugCount]:
    """Count the bugs by the package at fault, that with the most open ones first."""
    found: dict[str, list[tuple[Bug, BugState]]] = {}
    for bug, state in (each for known in states(survey).values() for each in known):
        found.setdefault(bug.package, []).append((bug, state))
    counts = {package: count(known) for package, known in sorted(found.items())}
    return dict(sorted(counts.items(), key=lambda item: -len(item[1].open)))


@once_of_a_survey
def standings(survey: Survey) -> dict[str, Standing]:
    """Return how each case stands in the newest release with a result, or its newest stack."""
    release = newest_release(survey)
    return {name: _standing(survey, case, release) for name, case in survey.cases.items()}


def _standing(survey: Survey, case: Case, release: str) -> Standing:
    column = _column(survey, case, release)
    found = states(survey)[case.name]
    state = next(state for state in BugState if any(state is each for _, each in found))
    if says := survey.unmeasured(case.name):
        return Standing(BugState.UNMEASURED, says, column)
    names = {survey.standing(case, column)}
    where = column if survey.only_in(case) else f"{release}{NEWEST}"
    match state:
        case BugState.OPEN:
            failing = {one for bug, _ in found for one in bug.failing(names)}
            precisions = join([one.value for one in Precision if one in failing])
            says = f"fails in {precisions} on {where}"
        case BugState.UNKNOWN | BugState.UNMEASURED:
            says = f"{state} on {where}"
        case _ if not any(bug.state(names) for bug, _ in found):
            says = f"does not apply to {where}"
        case BugState.FIXED | BugState.PASSING:
            says = f"passes on {where}" if state is BugState.FIXED else "no measured release fails"
    return Standing(state, says, column)
