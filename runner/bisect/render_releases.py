"""Render the answer of `bisect`: text, Markdown and JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from repromatrix.runner.bisect.releases import Finding, SeparateCase
from repromatrix.runner.bisect.search import Answer, Edge, SearchOutcome, SearchQuestion, Transition
from repromatrix.runner.evidence.conflicts import dispute
from repromatrix.runner.markdown import code, plain, sentence
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.observation import LOCAL, UNPUBLISHED, Observation
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.model.packages import DECIDING, TRANSFORMERS

_FEW = 3


def first_line(finding: Finding) -> str:
    """Return the answer in one sentence."""
    match finding.step:
        case SearchQuestion():
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
    if isinstance(finding.step, SearchQuestion) or not finding.step.again:
        pass
    elif not finding.search.sought.every:
        yield "It changes more than once; `--all` asks every release."
    if finding.search.left_out:
        yield f"Left out: {_apart(finding.search.left_out)}."
    if finding.contested:
        names = ", ".join(label(finding, place) for place in finding.contested)
        yield f"Published evidence and this machine's disagree about {names}."


def short(finding: Finding, change: Transition) -> str:
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


def _change(finding: Finding, change: Transition) -> str:
    said = short(finding, change)
    sides = [(label(finding, place), finding.at(place)) for place in (change.before, change.at)]
    both = ", ".join(f"{name} {outcome(seen)}" for name, seen in sides)
    how = next(seen.headline for _, seen in sides if seen.outcome.is_failure)
    return f"{said[0].upper()}{said[1:]}: {both}. {how}."


def _without_change(finding: Finding, ending: SearchOutcome) -> str:
    ends = finding.ends()
    if ends is None:
        every = range(len(finding.search.axis))
        asked = [place for place in every if finding.search.cell(place) in finding.known]
        return f"Undecided: nothing answers. {_reasons(finding, asked)}."
    first, last = (label(finding, place) for place in ends)
    if ending is SearchOutcome.NEVER:
        return _never(finding, first, last)
    if finding.search.sought.edge is Edge.FALL:
        seen = finding.at(ends[1])
        return f"Not healed: {last} {outcome(seen)}. {seen.headline}."
    how = finding.at(ends[0]).headline
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


def _apart(points: Sequence[SeparateCase]) -> str:
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
        return f"fails otherwise ({seen.headline})"
    return f"{outcome(seen)}{f' ({seen.reason})' if seen.reason else ''}"


def _so_far(finding: Finding) -> str:
    assert isinstance(finding.step, SearchQuestion)  # noqa: S101 - the caller has matched it
    low, high = (label(finding, place) for place in (finding.step.low, finding.step.high))
    if low == high:
        return f"Not decided yet: {low} is left to be asked."
    left = finding.step.at_most
    return f"Not decided yet: it lies in {low} to {high}; at most {left} runs are left."


_SHOWN = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """All answers of one call, what it was, and what the environments hold."""

    findings: Sequence[Finding]
    command: Sequence[str]
    environments: Mapping[str, Environment]


def text(page: Page) -> str:
    """Return the answers for a terminal; of many cases a line or two each."""
    groups = _alike(page.findings)
    brief = len({one.search.case.name for one in page.findings}) > 1
    blocks = [_brief(group) if brief else _block(page, group) for group in groups]
    total = [_total(page)] if brief else []
    return ("\n" if brief else "\n\n").join([*blocks, *total, _measured(page)]) + "\n"


def markdown(page: Page) -> str:
    """Return the answers to paste into an issue: what was found, and where it was seen."""
    blocks = [_markdown_of(page, group) for group in _alike(page.findings)]
    repeat = f"Repeat it: `nox -s bisect -- {shlex.join(map(_portable, page.command))}`"
    return "\n\n".join([*blocks, _measured(page), repeat]) + "\n"


def _portable(word: str) -> str:
    """Return a word of a command to paste: a script lies elsewhere on another machine."""
    path = PurePath(word)
    return f"path/to/{path.name}" if path.suffix == ".py" and len(path.parts) > 1 else word


def as_json(page: Page) -> str:
    """Return the answers for a program: a list with an object per search."""
    return json.dumps([_object(one) for one in page.findings], indent=1, ensure_ascii=False) + "\n"


def _alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Put findings together that differ in their precision alone and say the same."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for one in findings:
        search, wanted = one.search, one.search.wanted
        said = (first_line(one), *further(one), cost(one))
        groups.setdefault((search.case.name, wanted.workaround, search.axis, said), []).append(one)
    return list(groups.values())


def title(group: Sequence[Finding]) -> str:
    """Return what was searched: case, precisions, workaround, and whether along a pair."""
    search = group[0].search
    variant = f" with {search.wanted.workaround}" if search.wanted.workaround else ""
    along = "" if search.runs else ", along its pairs"
    precisions = " and ".join(str(one.search.wanted.precision) for one in group)
    return f"{search.case.name}{variant}, {precisions}{along}"


def _block(page: Page, group: Sequence[Finding]) -> str:
    finding = group[0]
    lines = [first_line(finding), *further(finding), *_next_steps(page, finding), cost(finding)]
    return "\n".join([title(group), *(f"  {line}" for line in lines)])


def _brief(group: Sequence[Finding]) -> str:
    return f"{title(group)}\n  {first_line(group[0])}"


def _total(page: Page) -> str:
    ran = {name for one in page.findings for name in one.ran}
    alone = sum(len(one.ran) for one in page.findings)
    if not ran:
        return "\n0 runs needed."
    return f"\n{len(page.findings)} searches, {len(ran)} environments run for {alone} answers."


def cost(finding: Finding) -> str:
    """Say how many runs the answer needed, and where the rest is known from."""
    runs = len(finding.ran)
    if isinstance(finding.step, SearchQuestion):
        if not finding.search.runs:
            return f"Pairs are answered from evidence alone. Run: {_missing(finding)}"
        return f"{runs} runs so far; at most {finding.step.at_most} are left."
    if not runs:
        return f"0 runs needed: {_sources(finding)}."
    where = ", ".join(finding.ran)
    return f"{runs} {'run' if runs == 1 else 'runs'}: {where}."


def _missing(finding: Finding) -> str:
    """Return the command that measures what the answer lacks."""
    search = finding.search
    cells = [search.cell(place) for place in range(len(search.axis))]
    names = ",".join(cell.environment for cell in cells if cell not in finding.known)
    variant = search.wanted.workaround or "none"
    return (
        f"nox -s matrix -- --case {search.case.name} --release {names}"
        f" --precision {search.wanted.precision} --workaround {variant}"
    )


def _sources(finding: Finding) -> str:
    found = dict.fromkeys(_evidence(row.source) for row in finding.known.values())
    return "known from " + " and ".join(found) if found else "nothing can be asked"


def _evidence(source: str) -> str:
    if source == LOCAL:
        return "this machine's evidence"
    return source if source in UNPUBLISHED else f"the publication of {source}"


def _next_steps(page: Page, finding: Finding) -> Iterator[str]:
    """Say what else changed between both sides, and the commands that go on from here."""
    if finding.found is None or finding.silent:
        return
    search = finding.search
    before, at = (
        page.environments[search.axis[place].environment]
        for place in (finding.found.before, finding.found.at)
    )
    moved = [
        f"{name} {before.version(name)} to {at.version(name)}"
        for name in DECIDING
        if name != TRANSFORMERS and before.version(name) != at.version(name)
    ]
    if moved and search.runs:
        good, bad = (before, at) if finding.found.edge is Edge.RISE else (at, before)
        cell = search.cell(0)
        variant = f" --workaround {cell.workaround}" if cell.workaround else ""
        yield f"Between them also changed: {', '.join(moved)}."
        where = search.case.where
        name = cell.case if where.startswith("cases/") else where
        yield (
            f"Whose it is: nox -s blame -- {name} --precision {cell.precision}{variant}"
            f" --good {good.name} --bad {bad.name}"
        )


def _measured(page: Page) -> str:
    devices = sorted({str(one.search.wanted.device) for one in page.findings})
    rows = [row for one in page.findings for row in one.known.values() if row.outcome.was_run]
    torch = sorted({row.provenance.torch_build for row in rows} - {""})
    python = sorted({".".join(row.provenance.python.split(".")[:2]) for row in rows} - {""})
    facts = [", ".join(devices).upper(), *(f"torch {one}" for one in torch)]
    return f"Measured on {', '.join([*facts, *(f'Python {one}' for one in python)])}."


def _markdown_of(page: Page, group: Sequence[Finding]) -> str:
    finding = group[0]
    search = finding.search
    about = f"{title(group).partition(', ')[2]}: {plain(search.case.block.title)}"
    lines = [
        f"**`{search.case.name}`**, {about}",
        "",
        sentence(first_line(finding)),
        *map(sentence, further(finding)),
        "",
        f"| {'release' if search.runs else 'version'} | outcome | error | known from |",
        "| --- | --- | --- | --- |",
        *(_row(finding, place) for place in _telling(finding)),
        "",
        *map(sentence, _next_steps(page, finding)),
        cost(finding),
    ]
    return "\n".join(lines)


def _row(finding: Finding, place: int) -> str:
    seen = finding.at(place)
    error = code(seen.headline) if seen.failed else ""
    return f"| {label(finding, place)} | {seen.outcome} | {error} | {seen.source} |"


def _telling(finding: Finding) -> list[int]:
    """Return the points that show the answer: both ends, and the sides of every change."""
    asked = [
        place
        for place in range(len(finding.search.axis))
        if finding.search.cell(place) in finding.known
    ]
    if len(asked) <= _SHOWN:
        return asked
    shown = {asked[0], asked[-1], *finding.silent[:_SHOWN]}
    for change in finding.changes:
        shown |= {change.before, change.at}
    return sorted(shown & set(asked))


def _object(finding: Finding) -> dict[str, Any]:
    search, step = finding.search, finding.step
    found = finding.found
    return {
        "case": search.case.name,
        "precision": str(search.wanted.precision),
        "workaround": search.wanted.workaround,
        "device": str(search.wanted.device),
        "looked-for": "break" if search.sought.edge is Edge.RISE else "fix",
        "answer": first_line(finding),
        "ending": "open" if isinstance(step, SearchQuestion) else str(step.ending),
        "before": label(finding, found.before) if found else None,
        "at": label(finding, found.at) if found else None,
        "not-judged": [label(finding, place) for place in finding.silent],
        "changes": [short(finding, change) for change in finding.changes],
        "older": [one.label for one in search.older],
        "points": [_point(finding, place) for place, _ in sorted(finding.answers.items())],
        "ran": list(finding.ran),
        "left-at-most": step.at_most if isinstance(step, SearchQuestion) else 0,
        "exit": int(finding.code),
    }


def _point(finding: Finding, place: int) -> dict[str, Any]:
    seen = finding.at(place)
    said = {Answer.YES: "bad", Answer.NO: "good", Answer.UNKNOWN: "unknown"}
    return {
        "release": label(finding, place),
        "environment": seen.cell.environment,
        "answer": said[finding.answers[place]],
        "outcome": str(seen.outcome),
        "error": seen.failed.headline if seen.failed else "",
        "source": seen.source,
    }
