"""Derive the `fails` entries that describe what was measured. Pure."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.version import Version

from repromatrix.runner.judging.places import apart, distinct, grouped, statements, told
from repromatrix.runner.judging.ranges import fails, segments
from repromatrix.runner.judging.verdicts import Judged, covers, described, meets, worded
from repromatrix.runner.model.case import Case, Failure, variant_of
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import NOISE
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.model.requirements import settled
from repromatrix.runner.text import join

_LONGEST = 120
_JOIN = "\x00"


def fragment(message: str) -> str:
    """Return the longest piece of a line that holds no size, address, path or number.

    It is a plain substring of the message, as `match` wants it. A line that only announces the
    next one (it ends in a colon) is passed over where there is a next one.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines[:-1] if not line.endswith(":")] + lines[-1:]
    text = line = telling[0] if telling else ""
    for pattern, _ in NOISE:
        text = pattern.sub(_JOIN, text)
    longest = max(text.split(_JOIN), key=len).strip(" :,;([") or line
    return longest[:_LONGEST].rstrip()


_RELEASE = "transformers"
When = tuple[str, ...]


def spans(
    measured: Mapping[str, Environment], failing: Collection[str], pairs: Iterable[str]
) -> tuple[When, ...]:
    """Return requirements, one tuple per interval, that hold exactly in the failing environments.

    `measured` are the environments with an answer; the others neither open nor close an interval.
    Where pairs tell the versions of another package apart, that package is named; transformers
    is added where it alone does not decide. Nothing is returned where intervals cannot say it.
    """
    others = sorted({package for name in pairs for package, _ in taken_apart(name).changed})

    def together(package: str) -> Iterator[When]:
        """Yield intervals of another package, and of releases within each of them."""
        known = sorted({one.version(package) for one in measured.values()} - {""}, key=Version)
        wanted = {measured[name].version(package) for name in failing}
        for text in _intervals(package, known, wanted):
            within = [one for one in measured.values() if meets(one, [Requirement(text)])]
            yield from ((text, release) for release in _along(_RELEASE, within, failing))

    alone = (_along(package, measured.values(), failing) for package in [*others, _RELEASE])
    for whens in (
        *(tuple((text,) for text in texts) for texts in alone),
        *(tuple(together(package)) for package in others),
    ):
        parsed = [[Requirement(text) for text in when] for when in whens]
        held = {name for name, one in measured.items() if any(meets(one, when) for when in parsed)}
        if whens and held == set(failing):
            return whens
    return ()


def _along(
    package: str, measured: Iterable[Environment], failing: Collection[str]
) -> tuple[str, ...]:
    versions: dict[str, set[bool]] = {}
    for one in measured:
        versions.setdefault(one.version(package), set()).add(one.name in failing)
    if "" in versions or any(len(said) > 1 for said in versions.values()):
        return ()
    wanted = {version for version, said in versions.items() if True in said}
    return _intervals(package, sorted(versions, key=Version), wanted)


def _intervals(package: str, known: Sequence[str], wanted: Collection[str]) -> tuple[str, ...]:
    """Join neighbours: an interval ends where the next known version is not wanted."""
    found = segments(known, lambda version: version in wanted)
    ends = [*(f",<{settled(each.points[0]).public}" for each in found[1:]), ""]
    return tuple(
        f"{package}>={settled(each.points[0]).public}{end}"
        for each, end in zip(found, ends, strict=True)
        if each.answer
    )


class How(NamedTuple):
    """How a cell fails, as an entry says it."""

    outcome: Outcome
    raises: tuple[str, ...]
    match: tuple[str, ...]
    where: tuple[str, ...] = ()

    @property
    def alike(self) -> tuple[Outcome, tuple[str, ...], tuple[str, ...]]:
        """What the same failure has in every precision and on every device."""
        return self.outcome, self.raises, self.where


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedEntry:
    """One `fails` entry, derived; `replaces` is the number of the entry that it comes from."""

    when: tuple[str, ...]
    precisions: tuple[Precision, ...]
    devices: tuple[Device, ...]
    workarounds: tuple[str, ...]
    variants: tuple[str, ...]
    how: How
    replaces: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What the block should say: entries kept as they are, by number, and derived ones."""

    kept: tuple[int, ...]
    derived: tuple[ProposedEntry, ...]
    placed: Mapping[int, tuple[str, ...]]
    """Entries that are kept but for the places in which they happen."""
    unexplained: tuple[str, ...] = ()
    """Failures that no interval of one package, or of two, describes."""


def propose(
    case: Case, judged: Iterable[Judged], environments: Mapping[str, Environment]
) -> Proposal:
    """Derive the entries of a case from its judged cells; what proves nothing is left out.

    An entry whose cells fail in several places is split, as `places.grouped` tells them apart.
    """
    rows = [one for one in judged if fails(one.seen) is not None]
    entries_of = dict(enumerate(case.block.fails))
    unexpected = [row for row in rows if row.verdict.is_unexpected]
    uncovered = [row for row in unexpected if fails(row.seen)]
    pooled = {
        number
        for number, entry in entries_of.items()
        if any(row.entry == entry for row in unexpected)
        # It would describe the failure if only its requirements held there.
        or any(covers(entry, row.seen.cell) and described(entry, row.seen) for row in uncovered)
        or len(apart(entry, rows)) > 1
    }
    places = {number: told(entry, rows) for number, entry in entries_of.items()}
    kept = tuple(number for number in range(len(case.block.fails)) if number not in pooled)
    held = [case.block.fails[number] for number in kept]
    failing = [row for row in rows if fails(row.seen) and row.entry not in held]
    entries, unexplained = _derived(case, rows, failing, environments)
    derived = _numbered(_merged(entries), case, pooled)
    placed = {
        number: places[number] for number in kept if places[number] != entries_of[number].where
    }
    return Proposal(
        kept=tuple(number for number in kept if number not in placed),
        derived=derived,
        placed=placed,
        unexplained=tuple(unexplained),
    )


def _derived(
    case: Case,
    rows: Sequence[Judged],
    failing: Sequence[Judged],
    environments: Mapping[str, Environment],
) -> tuple[list[ProposedEntry], list[str]]:
    """Return entries with intervals for cells that fail alike, and what no interval describes."""
    groups: dict[tuple[str, str, Precision, Device, How], dict[str, str]] = defaultdict(dict)
    for row, how in _hows(case, failing):
        cell = row.seen.cell
        key = (cell.case, cell.workaround, cell.precision, cell.device, how)
        groups[key][cell.environment] = row.seen.failed.place if row.seen.failed else ""
    entries: list[ProposedEntry] = []
    unexplained: list[str] = []
    for (name, workaround, precision, device, how), names in groups.items():
        cells = (row.seen.cell for row in rows)
        measured = {
            cell.environment: environments[cell.environment]
            for cell in cells
            if cell[:2] == (name, workaround) and cell[3:] == (precision, device)
        }
        found = spans(measured, names, case.block.environments)
        if not found:
            with_ = f" with {workaround}" if workaround else ""
            with_ += f" of {variant_of(name)}" if variant_of(name) else ""
            unexplained.append(f"{precision}{with_}: {join(how.raises, 'or') or how.outcome}")
        for when in found:
            asked = [Requirement(text) for text in when]
            places = (place for there, place in names.items() if meets(environments[there], asked))
            entry = ProposedEntry(
                when=when,
                precisions=(precision,),
                devices=(device,),
                workarounds=(workaround,),
                variants=tuple(filter(None, [variant_of(name)])),
                how=how._replace(where=distinct(filter(None, places))),
            )
            entries.append(entry)
    return entries, unexplained


def _hows(case: Case, failing: Sequence[Judged]) -> list[tuple[Judged, How]]:
    """Return how each cell fails; where it does is the group of places that are one to an entry."""
    words = [(row, _words(case, row)) for row in failing]
    alike: dict[How, list[Judged]] = defaultdict(list)
    for row, how in words:
        alike[how] += [row] if how.match else []
    groups = {
        how: grouped(
            statements(rows),
            [entry.where for entry in case.block.fails if entry.match == how.match],
        )
        for how, rows in alike.items()
    }
    return [
        (row, _in_place(how, _group(row, groups[how]), groups[how], alike[how]))
        for row, how in words
    ]


def _in_place(
    how: How, group: tuple[str, ...], groups: Sequence[tuple[str, ...]], rows: Sequence[Judged]
) -> How:
    """Return how cells fail in a group of places: without the texts that are of another group."""
    if len(groups) < 2:  # noqa: PLR2004
        return how._replace(where=group)
    said = [(row.seen.failed.message, _group(row, groups)) for row in rows if row.seen.failed]
    in_groups = {text: {there for message, there in said if text in message} for text in how.match}
    kept = (text for text in how.match if not in_groups[text] or group in in_groups[text])
    return how._replace(match=tuple(kept), where=group)


def _group(row: Judged, groups: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the group of a cell's place; a cell of which none is known goes with the first."""
    place = row.seen.failed.place if row.seen.failed else ""
    return next((group for group in groups if place in group), groups[0] if groups else ())


def _words(case: Case, one: Judged) -> How:
    """Take the words of an entry that describes the failure already, else its most telling part.

    An entry that has the words for another place comes next.
    """
    seen, entries = one.seen, case.block.fails
    if seen.outcome is not Outcome.FAILS or seen.failed is None:
        return How(seen.outcome, (), ())
    describing = [entry for entry in entries if described(entry, seen)]
    known = next(iter([*describing, *(entry for entry in entries if worded(entry, seen))]), None)
    if known is not None:
        return How(seen.outcome, known.raises, known.match)
    return How(seen.outcome, (seen.failed.error_class,), (fragment(seen.failed.message),))


def _merged(entries: Iterable[ProposedEntry]) -> list[ProposedEntry]:
    """Join entries that differ in one respect: precision, device, workaround, then variant.

    The texts of two precisions or devices, in one place, are the same failure in other words.
    """
    respects: tuple[Callable[[ProposedEntry], object], ...] = (
        lambda one: (one.when, one.devices, one.workarounds, one.variants, *one.how.alike),
        lambda one: (one.when, one.precisions, one.workarounds, one.variants, *one.how.alike),
        lambda one: (one.when, one.precisions, one.devices, one.variants, one.how),
        lambda one: (one.when, one.precisions, one.devices, one.workarounds, one.how),
    )
    for others in respects:
        groups: dict[object, list[ProposedEntry]] = defaultdict(list)
        for entry in entries:
            groups[others(entry)].append(entry)
        entries = [_joined(group) for group in groups.values()]
    return list(entries)


def _joined(group: Sequence[ProposedEntry]) -> ProposedEntry:
    first = group[0]
    precisions = {precision for one in group for precision in one.precisions}
    texts = dict.fromkeys(text for one in group for text in one.how.match)
    return ProposedEntry(
        when=first.when,
        precisions=tuple(precision for precision in Precision if precision in precisions),
        devices=tuple(dict.fromkeys(device for one in group for device in one.devices)),
        workarounds=tuple(dict.fromkeys(name for one in group for name in one.workarounds)),
        variants=tuple(dict.fromkeys(name for one in group for name in one.variants)),
        how=first.how._replace(match=tuple(texts)),
    )


def _numbered(
    derived: Sequence[ProposedEntry], case: Case, pooled: set[int]
) -> tuple[ProposedEntry, ...]:
    """Let each pooled entry live on in the derived one that it resembles most."""
    left = list(derived)
    numbered: dict[int, ProposedEntry] = {}
    for number in sorted(pooled):
        entry = case.block.fails[number]
        alike = [
            one
            for one in left
            if one.how.raises == entry.raises and one.how.outcome is entry.outcome
        ]
        likest = max(alike, key=lambda one: _likeness(one, entry), default=None)
        if likest is not None:
            left.remove(likest)
            numbered[number] = dataclasses.replace(likest, replaces=number)
    return (*numbered.values(), *left)


def _likeness(one: ProposedEntry, entry: Failure) -> int:
    return (
        8 * bool(_ends(map(Requirement, one.when)) & _ends(entry.when))
        + 8 * bool(set(one.how.where) & set(entry.where))
        + 4 * bool(set(one.how.match) & set(entry.match))
        + 2 * bool(set(one.workarounds) & set(entry.workarounds))
        + len(set(one.precisions) & set(entry.precisions))
    )


def _ends(when: Iterable[Requirement]) -> set[tuple[str, Version]]:
    """Return where intervals end: what fixed an entry stays with the part that it fixed."""
    return {
        (requirement.name, Version(specifier.version))
        for requirement in when
        for specifier in requirement.specifier
        if specifier.operator == "<"
    }
