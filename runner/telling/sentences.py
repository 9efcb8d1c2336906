"""What a search found, said in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.judging.agreement import dispute
from runner.model.outcomes import Outcome
from runner.searching.oracle import Answer
from runner.searching.transitions import Edge, Ending, Question
from runner.telling.wording import headline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.bisecting.finding import Finding
    from runner.bisecting.search import Apart
    from runner.model.observation import Observation
    from runner.searching.transitions import Change

_FEW = 3


def first_line(finding: Finding) -> str:
    """Return the answer in one sentence."""
    match finding.step:
        case Question():
            return _so_far(finding)
        case _ if finding.found is not None:
            return _change(finding, finding.found)
        case _:
            return _without_change(finding, finding.step.ending)


def further(finding: Finding) -> Iterator[str]:
    """Yield what else the reader should know, a sentence each."""
    if finding.silent and finding.ends():
        yield f"Could not be judged: {_reasons(finding, finding.silent)}."
    others = [one for one in finding.changes if one != finding.found]
    if others:
        yield f"Also seen: {', then '.join(short(finding, one) for one in others)}."
    if isinstance(finding.step, Question) or not finding.step.again:
        pass
    elif not finding.search.sought.every:
        yield "It changes more than once; `--all` asks every release."
    if finding.search.left_out:
        yield f"Left out: {_apart(finding.search.left_out)}."
    if finding.contested:
        names = ", ".join(label(finding, place) for place in finding.contested)
        yield f"Published evidence and this machine's disagree about {names}."


def short(finding: Finding, change: Change) -> str:
    """Return a change in few words, a gap said as one."""
    verb = {Edge.RISE: "broke", Edge.FALL: "healed"}[change.edge]
    before, at = label(finding, change.before), label(finding, change.at)
    return (
        f"{verb} in {at}" if change.at == change.before + 1 else f"{verb} after {before}, by {at}"
    )


def label(finding: Finding, place: int) -> str:
    """Return how a point is called."""
    return finding.search.axis[place].label


def outcome(seen: Observation) -> str:
    """Return what happened, as a verb: `passes`, `fails`, `times out`, `is unbuildable`."""
    match seen.outcome:
        case Outcome.PASSES | Outcome.FAILS:
            return str(seen.outcome)
        case Outcome.CRASHES | Outcome.TIMES_OUT | Outcome.DECLINES:
            return str(seen.outcome).replace("-", " ")
        case _:
            return f"is {seen.outcome}"


def _change(finding: Finding, change: Change) -> str:
    said = short(finding, change)
    sides = [(label(finding, place), finding.at(place)) for place in (change.before, change.at)]
    both = ", ".join(f"{name} {outcome(seen)}" for name, seen in sides)
    how = next(headline(seen) for _, seen in sides if seen.outcome.is_failure)
    return f"{said[0].upper()}{said[1:]}: {both}. {how}."


def _without_change(finding: Finding, ending: Ending) -> str:
    ends = finding.ends()
    if ends is None:
        every = range(len(finding.search.axis))
        asked = [place for place in every if finding.search.cell(place) in finding.known]
        return f"Undecided: nothing answers. {_reasons(finding, asked)}."
    first, last = (label(finding, place) for place in ends)
    if ending is Ending.NEVER:
        return _never(finding, first, last)
    if finding.search.sought.edge is Edge.FALL:
        seen = finding.at(ends[1])
        return f"Not healed: {last} {outcome(seen)}. {headline(seen)}."
    how = headline(finding.at(ends[0]))
    if finding.silent:
        return f"Fails in {first}, the first that could be judged. {how}."
    if finding.search.older:
        return f"Fails since its first release, {first}; {_older(finding)}. {how}."
    return f"Fails already in {first}, the oldest release that is measured. {how}."


def _never(finding: Finding, first: str, last: str) -> str:
    said = sum(1 for one in finding.answers.values() if one is Answer.NO)
    ends = first if first == last else f"{first} and {last}, and wherever else it was asked"
    judged = " where it could be judged" if finding.silent else ""
    of = len(finding.search.axis)
    return f"Did not reproduce{judged}: passes in {ends} ({said} of {of}).{_came_and_went(finding)}"


def _came_and_went(finding: Finding) -> str:
    if len(finding.answers) == len(finding.search.axis):
        return ""
    return " One that came and went between them is found by `--all`, which asks every release."


def _older(finding: Finding) -> str:
    return f"older ones cannot run it: {_apart(finding.search.older)}"


def _apart(points: Sequence[Apart]) -> str:
    """Name points by their reason, the first few of each."""
    by_reason: dict[str, list[str]] = {}
    for point in points:
        by_reason.setdefault(point.reason, []).append(point.label)
    return "; ".join(f"{_few(labels)} ({reason})" for reason, labels in by_reason.items())


def _few(labels: Sequence[str]) -> str:
    if len(labels) <= _FEW:
        return ", ".join(labels)
    return f"{labels[0]} to {labels[-1]}"


def _reasons(finding: Finding, places: Sequence[int]) -> str:
    return "; ".join(f"{label(finding, place)} {_why(finding, place)}" for place in places)


def _why(finding: Finding, place: int) -> str:
    """Say why a point does not answer."""
    seen = finding.known.get(finding.search.cell(place))
    if seen is None:
        return "could not be run"
    if seen.unstable:
        return f"is disputed: {dispute(seen)}" if seen.sides else "is unstable"
    if seen.outcome is Outcome.PASSES:
        return "passes without having computed in its precision"
    if seen.outcome.is_failure:
        return f"fails otherwise ({headline(seen)})"
    return f"{outcome(seen)}{f' ({seen.reason})' if seen.reason else ''}"


def _so_far(finding: Finding) -> str:
    assert isinstance(finding.step, Question)  # noqa: S101 - the caller has matched it
    low, high = (label(finding, place) for place in (finding.step.low, finding.step.high))
    if low == high:
        return f"Not decided yet: {low} is left to be asked."
    left = finding.step.at_most
    return f"Not decided yet: it lies in {low} to {high}; at most {left} runs are left."
