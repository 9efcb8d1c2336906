"""Expectations derived from evidence: the `fails` entries that describe what was measured. Pure.

An entry that is right wherever it was measured is left as its author wrote it. The others, and
those that describe failures which no entry covers, are derived anew.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runner.judging.expectations import covers, described
from runner.judging.fragments import fragment
from runner.judging.intervals import spans
from runner.judging.ranges import fails
from runner.model.outcomes import Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runner.judging.verdicts import Judged
    from runner.model.case import Case, Failure
    from runner.model.cell import Environment
    from runner.model.outcomes import Device


class How(NamedTuple):
    """How a cell fails, as an entry says it."""

    outcome: Outcome
    raises: str
    match: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One `fails` entry, derived; `replaces` is the number of the entry that it comes from."""

    when: tuple[str, ...]
    precisions: tuple[Precision, ...]
    devices: tuple[Device, ...]
    workarounds: tuple[str, ...]
    how: How
    replaces: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What the block should say: entries kept as they are, by number, and derived ones."""

    kept: tuple[int, ...]
    derived: tuple[Entry, ...]
    unexplained: tuple[str, ...] = ()
    """Failures that no interval of one package, or of two, describes."""


def propose(
    case: Case, judged: Iterable[Judged], environments: Mapping[str, Environment]
) -> Proposal:
    """Derive the entries of a case from its judged cells; what proves nothing is left out."""
    rows = [one for one in judged if fails(one.seen) is not None]
    pooled = _pooled(case, rows)
    kept = tuple(number for number in range(len(case.block.fails)) if number not in pooled)
    held = [case.block.fails[number] for number in kept]
    failing = [one for one in rows if fails(one.seen) and one.entry not in held]
    found = _Derivation(case, rows, failing, environments)
    derived = _merged(found.entries())
    return Proposal(
        kept=kept, derived=_numbered(derived, case, pooled), unexplained=tuple(found.unexplained)
    )


def _pooled(case: Case, rows: Sequence[Judged]) -> set[int]:
    """Return the entries that are wrong somewhere, or that describe what no entry covers."""
    surprises = [one for one in rows if one.verdict.is_surprise]
    wrong = [one.entry for one in surprises if one.entry]
    uncovered = [one for one in surprises if fails(one.seen)]
    return {
        number
        for number, entry in enumerate(case.block.fails)
        if entry in wrong or any(_extends(entry, one) for one in uncovered)
    }


def _extends(entry: Failure, one: Judged) -> bool:
    """Say whether an entry would describe a failure if only its requirements held there."""
    return covers(entry, one.seen.cell) and described(entry, one.seen)


class _Derivation:
    """Failing cells, grouped by how they fail, to entries with intervals."""

    def __init__(
        self,
        case: Case,
        rows: Sequence[Judged],
        failing: Sequence[Judged],
        environments: Mapping[str, Environment],
    ) -> None:
        self.case = case
        self.rows = rows
        self.environments = environments
        self.unexplained: list[str] = []
        self.groups: dict[tuple[str, Precision, Device, How], set[str]] = defaultdict(set)
        for one in failing:
            cell = one.seen.cell
            key = (cell.workaround, cell.precision, cell.device, _how(case, one))
            self.groups[key].add(cell.environment)

    def entries(self) -> list[Entry]:
        return [entry for key, names in self.groups.items() for entry in self._entries(key, names)]

    def _entries(self, key: tuple[str, Precision, Device, How], names: set[str]) -> Iterable[Entry]:
        workaround, precision, device, how = key
        measured = {
            one.seen.cell.environment: self.environments[one.seen.cell.environment]
            for one in self.rows
            if one.seen.cell
            == one.seen.cell._replace(workaround=workaround, precision=precision, device=device)
        }
        found = spans(measured, names, self.case.block.environments)
        if not found:
            variant = f" with {workaround}" if workaround else ""
            self.unexplained.append(f"{precision}{variant}: {how.raises or how.outcome}")
        for when in found:
            yield Entry(
                when=when,
                precisions=(precision,),
                devices=(device,),
                workarounds=(workaround,),
                how=how,
            )


def _how(case: Case, one: Judged) -> How:
    """Take the words of an entry that describes the failure already, else its most telling part."""
    seen = one.seen
    if seen.outcome is not Outcome.FAILS or seen.failed is None:
        return How(seen.outcome, "", ())
    known = next((entry for entry in case.block.fails if described(entry, seen)), None)
    if known is not None:
        return How(seen.outcome, known.raises or "", known.match)
    return How(seen.outcome, seen.failed.error_class, (fragment(seen.failed.message),))


def _merged(found: Iterable[Entry]) -> list[Entry]:
    """Join entries that differ in one respect: precision, then device, then variant.

    The texts of two precisions or devices are the same failure in other words.
    """
    found = _grouped(found, lambda one: (one.when, one.devices, one.workarounds, one.how[:2]))
    found = _grouped(found, lambda one: (one.when, one.precisions, one.workarounds, one.how[:2]))
    return _grouped(found, lambda one: (one.when, one.precisions, one.devices, one.how))


def _grouped(found: Iterable[Entry], key: Callable[[Entry], object]) -> list[Entry]:
    groups: dict[object, list[Entry]] = defaultdict(list)
    for one in found:
        groups[key(one)].append(one)
    return [_joined(group) for group in groups.values()]


def _joined(group: Sequence[Entry]) -> Entry:
    first = group[0]
    precisions = {precision for one in group for precision in one.precisions}
    texts = dict.fromkeys(text for one in group for text in one.how.match)
    return Entry(
        when=first.when,
        precisions=tuple(precision for precision in Precision if precision in precisions),
        devices=tuple(dict.fromkeys(device for one in group for device in one.devices)),
        workarounds=tuple(dict.fromkeys(name for one in group for name in one.workarounds)),
        how=first.how._replace(match=tuple(texts)),
    )


def _numbered(derived: Sequence[Entry], case: Case, pooled: set[int]) -> tuple[Entry, ...]:
    """Let each pooled entry live on in the derived one that it resembles most."""
    left = list(derived)
    numbered: dict[int, Entry] = {}
    for number in sorted(pooled):
        entry = case.block.fails[number]
        likest = max(left, key=lambda one: _likeness(one, entry), default=None)
        if likest is not None and _likeness(likest, entry) > 0:
            left.remove(likest)
            numbered[number] = dataclasses.replace(likest, replaces=number)
    return (*numbered.values(), *left)


def _likeness(one: Entry, entry: Failure) -> int:
    if one.how.raises != (entry.raises or "") or one.how.outcome is not entry.outcome:
        return 0
    same = [set(one.how.match) & set(entry.match), set(one.workarounds) & set(entry.workarounds)]
    return (
        1 + 4 * bool(same[0]) + 2 * bool(same[1]) + len(set(one.precisions) & set(entry.precisions))
    )
