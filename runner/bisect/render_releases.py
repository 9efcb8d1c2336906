"""The answer of `bisect` in words, and for programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from repromatrix.runner.bisect.oracle import why_unknown
from repromatrix.runner.bisect.releases import Finding
from repromatrix.runner.bisect.search import (
    Answer,
    Edge,
    Result,
    SearchOutcome,
    SearchQuestion,
    Transition,
)
from repromatrix.runner.document import Code, Document, Line, Listing, Paragraph, Part, Table
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.observation import LOCAL, UNPUBLISHED, Observation
from repromatrix.runner.model.packages import DECIDING, TRANSFORMERS
from repromatrix.runner.paths import as_typed
from repromatrix.runner.text import join, plural

_FEW = 3
_HELD = re.compile(r", has [^;]+")
_SHOWN = 12


def first_line(finding: Finding) -> str:
    """Return the answer in one sentence."""
    match finding.step:
        case SearchQuestion(low=low, high=high, at_most=left):
            if low == high:
                return f"Not decided yet: {label(finding, low)} is left to run."
            span = f"{label(finding, low)} to {label(finding, high)}"
            return f"Not decided yet: {span} are left to search; at most {plural(left, 'run')}."
        case Result(found=Transition() as change):
            words = short(finding, change)
            sides = [(label(finding, at), finding.at(at)) for at in (change.before, change.at)]
            both = ", ".join(f"{name} {row.outcome.verb}" for name, row in sides)
            how = next(row.headline for _, row in sides if row.outcome.is_failure)
            return f"{words[0].upper()}{words[1:]}: {both}. {how}."
        case Result(ending=ending):
            return _without_change(finding, ending)


def further(finding: Finding) -> Iterator[str]:
    """Yield what else the reader should know, a sentence each."""
    if finding.silent and finding.ends():
        yield f"Could not be judged: {_reasons(finding, finding.silent)}."
    yield from _also(finding)
    again = isinstance(finding.step, Result) and finding.step.again
    if again and not finding.search.sought.every:
        yield "The answer changes more than once; `--all` runs every release."
    if finding.found and finding.ends_pass and len(finding.answers) < len(finding.search.axis):
        yield f"Both ends pass; {_asked(finding)}."
    if finding.search.left_out:
        yield f"Skipped: {_apart(finding.search.left_out)}."
    if finding.contested:
        names = join([label(finding, place) for place in finding.contested])
        sides = [side for row in finding.contested.values() for side in row.sides]
        yield f"Results disagree about {names}: {_sources(sides)}."


def _also(finding: Finding) -> Iterator[str]:
    """Yield the changes that the answers show beside the one that was looked for."""
    others = [short(finding, change) for change in finding.changes if change != finding.found]
    if others:
        yield f"Also seen: {', then '.join(others)}."


def short(
    finding: Finding, change: Transition, broken: str = "broken", fixed: str = "fixed"
) -> str:
    """Return a change in few words, a gap said as one."""
    verb = broken if change.edge is Edge.RISE else fixed
    before, at = label(finding, change.before), label(finding, change.at)
    exact = change.at == change.before + 1
    return f"{verb} in {at}" if exact else f"{verb} after {before}, by {at}"


def label(finding: Finding, place: int) -> str:
    """Return how a point is called."""
    return finding.search.axis[place].label


def _without_change(finding: Finding, ending: SearchOutcome) -> str:
    ends = finding.ends()
    if ends is None:
        return f"Undecided: nothing could be judged. {_reasons(finding, [*finding.answers])}."
    first, last = (label(finding, place) for place in ends)
    if ending is SearchOutcome.NEVER:
        return _never(finding, first, last)
    if finding.search.sought.edge is Edge.FALL:
        row = finding.at(ends[1])
        return f"Not fixed: {last} {row.outcome.verb}. {row.headline}."
    how = finding.at(ends[0]).headline
    if finding.silent:
        return f"Fails in {first}, the first that could be judged. {how}."
    if finding.search.older:
        older = f"older ones cannot run it: {_apart(finding.search.older)}"
        return f"Fails since its first release, {first}; {older}. {how}."
    return f"Fails already in {first}, the oldest release that is measured. {how}."


def _never(finding: Finding, first: str, last: str) -> str:
    good = sum(1 for answer in finding.answers.values() if answer is Answer.NO)
    count = len(finding.search.axis)
    ends = first if first == last else f"{first} to {last}, wherever it was measured"
    judged = " where it could be judged" if finding.silent else ""
    line = f"Not reproduced{judged}: passes in {ends}"
    if len(finding.answers) == count:
        return f"{line} ({good} of {count})."
    every = "`--all` runs every release, to find a bug that came and went between them."
    return f"{line} ({_asked(finding)}). {every}"


def _asked(finding: Finding) -> str:
    """Say how many points gave the answer: `asked 14 of 76 releases`."""
    points = "release" if finding.search.runs else "version"
    return f"asked {len(finding.answers)} of {plural(len(finding.search.axis), points)}"


def _apart(points: Mapping[str, str]) -> str:
    """Name points by their reason, the first few of each: what is needed, not what each has."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in points.items():
        by_reason.setdefault(_HELD.sub("", reason), []).append(name)
    return "; ".join(
        f"{', '.join(names) if len(names) <= _FEW else f'{names[0]} to {names[-1]}'}"
        f" ({points[names[0]] if len(names) == 1 else reason})"
        for reason, names in by_reason.items()
    )


def _reasons(finding: Finding, points: Sequence[int]) -> str:
    rows = {place: finding.known.get(finding.search.cell(place)) for place in points}
    return "; ".join(
        f"{label(finding, place)} {why_unknown(row) if row else 'could not be run'}"
        for place, row in rows.items()
    )


def document(
    findings: Sequence[Finding], command: Sequence[str], environments: Mapping[str, Environment]
) -> Document:
    """Return the answers to a command as a document; of many cases only what changed."""
    groups = _alike(findings)
    brief = len({one.search.question.case.name for one in findings}) > 1
    parts: list[Part] = []
    if brief:
        lines = [
            Listing(_title(group), [first_line(group[0]), *_also(group[0])]) for group in groups
        ]
        parts = [Listing("", lines)]
    else:
        for one, *others in groups:
            steps = _next_steps(environments, one)
            told = [first_line(one), *further(one), *steps, cost(one)]
            parts += [Listing(_title([one, *others]), told), _results(one)]
    return Document(
        parts=[*parts, Paragraph([*([_total(findings)] if brief else []), _measured(findings)])],
        data=[_object(one) for one in findings],
        repeat=as_typed("bisect", shlex.join(command)),
    )


def _total(findings: Sequence[Finding]) -> str:
    environments = {name for finding in findings for name in finding.ran}
    if not environments:
        return "0 runs needed."
    answers = plural(sum(len(finding.ran) for finding in findings), "answer")
    searches = plural(len(findings), "search", "searches")
    return f"{searches}, {plural(len(environments), 'environment')} run for {answers}."


def _alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        search = finding.search
        lines = (first_line(finding), *further(finding), cost(finding))
        alike = (search.question.case.name, search.question.workaround, search.axis, lines)
        groups.setdefault(alike, []).append(finding)
    return list(groups.values())


def _title(group: Sequence[Finding]) -> Line:
    """Return what was searched: case, precisions, workaround, and whether along a pair."""
    search = group[0].search
    case, workaround = search.question.case, search.question.workaround
    variant = f" with {workaround}" if workaround else ""
    along = "" if search.runs else ", along its pairs"
    precisions = " and ".join(str(one.search.question.precision) for one in group)
    return Code(case.name), f"{variant}, {precisions}{along}: {case.block.title}"


def cost(finding: Finding) -> str:
    """Say how many runs the answer needed, and where the rest is known from."""
    runs, search = plural(len(finding.ran), "run"), finding.search
    if isinstance(finding.step, SearchQuestion):
        if not search.runs:
            question = search.question
            names = ",".join(cell.environment for cell in search.cells if cell not in finding.known)
            return (
                "Pairs are answered from evidence alone. To measure them: nox -s matrix --"
                f" --case {question.case.name} --release {names} --precision {question.precision}"
                f" --workaround {question.workaround or 'none'}"
            )
        return f"{runs} so far, at most {finding.step.at_most} more."
    if finding.ran:
        return f"{runs}: {', '.join(finding.ran)}."
    if not finding.known:
        return f"{runs} needed: no release can be run."
    return f"{runs} needed: known from {_sources(finding.known.values())}."


def _sources(rows: Iterable[Observation]) -> str:
    """Name the sources of rows: `this machine's evidence and merged evidence`."""
    sources = dict.fromkeys(row.source for row in rows)
    words = {LOCAL: "this machine's evidence", **{name: name for name in UNPUBLISHED - {LOCAL}}}
    return join([words.get(source, f"the snapshot of {source}") for source in sources])


def _next_steps(environments: Mapping[str, Environment], finding: Finding) -> Iterator[str]:
    """Yield the packages that also changed, and the command that finds which one it is."""
    if finding.found is None or finding.silent:
        return
    search = finding.search
    before, at = (
        environments[search.axis[place].environment]
        for place in (finding.found.before, finding.found.at)
    )
    moved = [
        f"{name} {before.version(name)} to {at.version(name)}"
        for name in DECIDING
        if name != TRANSFORMERS and before.version(name) != at.version(name)
    ]
    if moved and search.runs:
        yield f"Packages that also changed: {', '.join(moved)}."
        good, bad = (before, at) if finding.found.edge is Edge.RISE else (at, before)
        yield f"Find the package: {search.question.blame(good.name, bad.name)}"


def _measured(findings: Sequence[Finding]) -> str:
    devices = sorted({str(one.search.question.device) for one in findings})
    rows = [row for one in findings for row in one.known.values() if row.outcome.was_run]
    torch = sorted({row.provenance.torch_build for row in rows} - {""})
    python = sorted({".".join(row.provenance.python.split(".")[:2]) for row in rows} - {""})
    facts = [", ".join(devices).upper(), *(f"torch {one}" for one in torch)]
    return f"Measured on {', '.join([*facts, *(f'Python {one}' for one in python)])}."


def _results(finding: Finding) -> Table:
    point = "release" if finding.search.runs else "version"
    rows: list[tuple[Line, ...]] = []
    for place in _telling(finding):
        seen = finding.at(place)
        error = Code(seen.headline) if seen.failed else ""
        rows.append((label(finding, place), str(seen.outcome), error, seen.source))
    summary = f"Results of {plural(len(rows), point)}"
    return Table((point, "outcome", "error", "known from"), rows, fold=summary)


def _telling(finding: Finding) -> list[int]:
    """Return the points that show the answer: both ends, and the sides of every change."""
    asked = list(finding.answers)
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
        "case": search.question.case.name,
        "precision": str(search.question.precision),
        "workaround": search.question.workaround,
        "device": str(search.question.device),
        "looked-for": search.sought.edge.word,
        "answer": first_line(finding),
        "ending": "open" if isinstance(step, SearchQuestion) else str(step.ending),
        "before": label(finding, found.before) if found else None,
        "at": label(finding, found.at) if found else None,
        "not-judged": [label(finding, place) for place in finding.silent],
        # These words are a contract with programs; the other formats say it plainly.
        "changes": [short(finding, change, "broke", "healed") for change in finding.changes],
        "older": list(search.older),
        "points": [_point(finding, place) for place, _ in sorted(finding.answers.items())],
        "ran": list(finding.ran),
        "left-at-most": step.at_most if isinstance(step, SearchQuestion) else 0,
        "exit": int(finding.code),
    }


def _point(finding: Finding, place: int) -> dict[str, Any]:
    seen = finding.at(place)
    return {
        "release": label(finding, place),
        "environment": seen.cell.environment,
        "answer": finding.answers[place].word,
        "outcome": str(seen.outcome),
        "error": seen.failed.headline if seen.failed else "",
        "source": seen.source,
    }
