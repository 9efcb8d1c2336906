"""What differs between two sides, in words: one page, cell by cell, with what repeats each."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.judging.difference import Change, Pair, Word, is_described, word
from runner.model.observation import UNPUBLISHED
from runner.model.outcomes import Exercised

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.model.case import Case
    from runner.model.observation import Observation

_LONG = 300
HEADINGS = {
    Change.BROKE: "Broke",
    Change.FIXED: "Fixed",
    Change.CHANGED: "Changed",
    Change.NEW: "New: applicable on the second side only",
    Change.GONE: "Gone: applicable on the first side only",
    Change.UNKNOWN: "Unknown: no answer on a side",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A comparison with all that its page says."""

    before: str
    """The first side, in words."""
    after: str
    pairs: tuple[Pair, ...]
    cases: Mapping[str, Case]
    run: str
    """The run that answered: what it measured itself was not known."""
    sides: tuple[str, str]
    """What is typed for the two sides."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What is typed for a case that is a file of the user's."""

    @property
    def counts(self) -> dict[Change, int]:
        """Return how many cells became what."""
        found = Counter(pair.change for pair in self.pairs)
        return {change: found[change] for change in Change}

    @property
    def moved(self) -> tuple[Pair, ...]:
        """The cells that pass on both sides with other numbers."""
        return tuple(pair for pair in self.pairs if pair.moved)

    def again(self, pair: Pair) -> str:
        """Return the command that measures a cell again on both sides."""
        key = pair.key
        case = self.files.get(key.case, key.case)
        command = ["nox", "-s", "diff", "--", *self.sides, "--case", case]
        variant = ["--workaround", key.workaround or "none"]
        device = [] if key.device == "cpu" else ["--device", key.device]
        return shlex.join([*command, "--precision", key.precision, *variant, *device, "--rerun"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The cells of a case that share what happened on both sides."""

    pairs: tuple[Pair, ...]
    before: str
    after: str

    @property
    def cells(self) -> str:
        """Name the cells: `plain bf16, fp16; cache-off bf16`."""
        named: dict[str, list[str]] = {}
        for pair in self.pairs:
            named.setdefault(pair.key.workaround or "plain", []).append(pair.key.precision)
        return "; ".join(f"{name} {', '.join(told)}" for name, told in named.items())


def headline(answer: Answer) -> tuple[str, ...]:
    """Return the first lines: what was compared, what came of it, on what, and from where."""
    counts = answer.counts
    told = ", ".join(f"{counts[one]} {one}" for one in Change)
    cases = len({pair.key.case for pair in answer.pairs})
    first = _known(answer, [pair.before for pair in answer.pairs])
    second = _known(answer, [pair.after for pair in answer.pairs])
    cells, all_cases = _many(len(answer.pairs), "cell"), _many(cases, "case")
    return (
        f"{answer.before} against {answer.after}.",
        f"Of {cells} of {all_cases}: {told}.",
        f"{_ground(answer)}.",
        f"First side: {first}. Second side: {second}.",
    )


def grouped(answer: Answer, change: Change) -> dict[str, tuple[Group, ...]]:
    """Return the cells that became something, by case, those alike together."""
    found: dict[str, dict[tuple[str, str], list[Pair]]] = {}
    for pair in answer.pairs:
        if pair.change is change:
            case = answer.cases[pair.key.case]
            said = (happened(case, pair.before), happened(case, pair.after))
            found.setdefault(pair.key.case, {}).setdefault(said, []).append(pair)
    return {
        name: tuple(
            Group(pairs=tuple(pairs), before=said[0], after=said[1])
            for said, pairs in groups.items()
        )
        for name, groups in found.items()
    }


def happened(case: Case | None, seen: Observation | None) -> str:
    """Return what a side says of a cell, with its error, and whether it is the case's bug."""
    if seen is None:
        return "not asked"
    detail = seen.failed.headline if seen.failed else seen.reason
    text = f"{seen.outcome}: {detail[:_LONG]}" if detail else str(seen.outcome)
    if seen.unstable:
        return f"unstable: {text}"
    if seen.exercised is Exercised.NO:
        return f"{text} (never computed in its precision)"
    if word(seen) is Word.BAD and case is not None and case.block.fails:
        return f"{text} ({'as' if is_described(case, seen) else 'not as'} the case describes)"
    return text


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _ground(answer: Answer) -> str:
    rows = [row for pair in answer.pairs for row in (pair.before, pair.after)]
    ran = [row for row in rows if row and row.outcome.was_run]
    devices = _listed({row.cell.device.upper() for row in ran})
    hardware = _listed({row.provenance.hardware for row in ran})
    torch = _listed({row.provenance.torch_build for row in ran})
    python = _listed({row.provenance.python for row in ran})
    return f"Measured on: {devices} ({hardware}), torch {torch}, Python {python}"


def _listed(found: set[str]) -> str:
    return " and ".join(sorted(found - {""})) or "nothing"


def _known(answer: Answer, rows: Sequence[Observation | None]) -> str:
    measured = [row for row in rows if row and row.outcome.was_run]
    fresh = sum(row.provenance.run == answer.run for row in measured)
    known = Counter(row.source for row in measured if row.provenance.run != answer.run)
    named = ", ".join(
        f"{number} {source if source in UNPUBLISHED else f'published as {source}'}"
        for source, number in sorted(known.items())
    )
    return f"{known.total()} known{f' ({named})' if named else ''}, {fresh} run"


def text(answer: Answer) -> str:
    """Return the page for a terminal."""
    lines = list(headline(answer))
    for change, heading in HEADINGS.items():
        groups = grouped(answer, change)
        lines.extend(["", heading] if groups else [])
        for name, found in groups.items():
            lines.append(f"  {name}: {answer.cases[name].block.title}")
            for group in found:
                lines.extend(_text_of(answer, group))
    lines.extend(_text_of_moved(answer))
    return "\n".join([*lines, ""])


def _text_of(answer: Answer, group: Group) -> Iterator[str]:
    yield f"    {group.cells}"
    yield f"      before  {group.before}"
    yield f"      after   {group.after}"
    yield f"      again   {answer.again(group.pairs[0])}"


def _text_of_moved(answer: Answer) -> Iterator[str]:
    if answer.moved:
        yield from ("", "Moved: passes on both sides, a measured number is another")
    for pair in answer.moved:
        for one in pair.moved:
            yield f"  {_cell(pair)}: {one.name} {one.before:.3g} before, {one.after:.3g} after"


def _cell(pair: Pair) -> str:
    variant = f"[{pair.key.workaround}]" if pair.key.workaround else ""
    return f"{pair.key.case}{variant} {pair.key.precision}"
