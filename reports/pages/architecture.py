"""What the sweep found: a page per architecture, and all of them on all releases."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from repromatrix.reports.exports.rows import ExportTable
from repromatrix.reports.text import Link, filed, in_address, shortened, visible
from repromatrix.runner.evidence.swept.changes import Kind, ProbeChange, what
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import BUILD, DTYPES, PROBES
from repromatrix.runner.evidence.swept.published import RefusedType
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.model.families import squashed

_SAYS = {probe.name: probe.holds for probe in PROBES} | {BUILD: "It is built."}
_LOOKS = {
    ProbeStatus.HOLDS: ("holds", "", "s-holds"),
    ProbeStatus.FAILS: ("fails", "✕", "s-many"),
    ProbeStatus.DIFFERS: ("differs", "≠", "s-many"),
    ProbeStatus.SKIPPED: ("does not apply", "·", "s-none"),
    ProbeStatus.UNKNOWN: ("unknown", "?", "s-doubt"),
    None: ("not run", "·", "s-none"),
}
"""The words, the glyph and the class of the colour of each status; None where it was not run."""
_LONGEST = 240
_NONE = SweepHistory()
_DARKER = (1, 3, 8)
"""From how many probes on that do not hold a cell of the overview is darker."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Neighbouring measured releases that are drawn as one cell."""

    releases: str
    width: int
    shade: str
    """The class of its colour."""
    says: str
    """What is written in it: a glyph or a number."""
    told: str
    """What it means, for those who point at it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeLine:
    """A probe that does not hold everywhere: what it did on each release, and what it said."""

    name: str
    dtype: str
    holds: str
    stretches: tuple[Stretch, ...]
    messages: tuple[tuple[str, str, str], ...]
    """Releases, message and place of what does not hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeLine:
    """What a release changed on an architecture."""

    release: str
    against: str
    kind: str
    probes: str
    says: str
    place: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchitecturePage:
    """One architecture: what holds, since when, and what changed."""

    name: str
    href: str
    class_name: str
    home: str
    first: str
    newest: str
    """The newest release on which it was run."""
    releases: tuple[str, ...]
    bad: tuple[ProbeLine, ...]
    """Probes that do not hold somewhere."""
    holding: tuple[str, ...]
    skipped: tuple[tuple[str, tuple[str, ...]], ...]
    """Probes that apply nowhere, by reason."""
    changes: tuple[ChangeLine, ...]
    live: int
    """How many probes do not hold on the newest release."""
    cases: Link | None
    """The page of the reported bugs of a family of the same name."""
    stretches: tuple[Stretch, ...]
    """How many probes do not hold, on every release that was measured."""
    classes: tuple[ArchitecturePage, ...] = ()
    """Its further classes, each as a page of its own would say it."""

    @property
    def is_bad(self) -> bool:
        """Whether something does not hold on some release."""
        return bool(self.bad)


def architectures_page(
    history: SweepHistory,
    pages: Sequence[ArchitecturePage],
    refused: Sequence[RefusedType],
    refused_classes: Sequence[RefusedType] = (),
) -> dict[str, Any]:
    """Return all architectures on all releases that were swept whole.

    `between` is on how many more those were run on which the releases on both sides differ;
    `types` is how many architectures the newest release has, and `built` how many of them were
    built on it; `classes` is how many further classes were run.
    """
    releases = history.whole
    newest = releases[-1] if releases else ""
    return {
        "pages": pages,
        "releases": releases,
        "between": len(history.releases) - len(releases),
        "probes": len(PROBES),
        "types": history.releases[newest].types if newest else 0,
        "built": history.built(newest),
        "refused": [*map(_short, refused)],
        "classes": sum(len(one.classes) for one in pages),
        "refused_classes": [*map(_short, refused_classes)],
    }


def _short(one: RefusedType) -> RefusedType:
    return one._replace(reason=shortened(one.reason, _LONGEST))


def address_of(kind: str) -> str:
    """Return the address of an architecture, or of a further class on its page."""
    architecture, _, name = kind.partition(":")
    place = f"#{in_address(name)}" if name else ""
    return f"architecture/{in_address(filed(architecture))}.html{place}"


def architectures(
    history: SweepHistory, families: Mapping[str, Link], classes: SweepHistory = _NONE
) -> tuple[ArchitecturePage, ...]:
    """Return the pages in alphabetical order; `families` are those that cases are about.

    `classes` is what was found of further classes.
    """
    known = {squashed(name): link for name, link in families.items()}
    return tuple(
        _page(
            history,
            kind,
            known.get(squashed(kind)),
            [_page(classes, name, None) for name in sorted(classes.classes_of(kind))],
        )
        for kind in sorted(history.architectures)
    )


def _page(
    history: SweepHistory,
    kind: str,
    cases: Link | None,
    classes: Sequence[ArchitecturePage] = (),
) -> ArchitecturePage:
    one = history.architectures[kind]
    releases = history.measured(kind)
    ran = [key for key in history.keys(kind) if history.ran_on(key)]
    # Of what holds on every release nothing is kept.
    lines = {key: history.line(key) for key in ran if key in history.outcomes}
    bad = {key: line for key, line in lines.items() if any(r.status.is_bad for _, r in line)}
    counts = Counter(name for line in bad.values() for name, r in line if r.status.is_bad)
    nowhere = {
        key: line[-1][1].why
        for key, line in lines.items()
        if all(record.status is ProbeStatus.SKIPPED for _, record in line)
    }
    shown = {
        key: line
        for key, line in lines.items()
        if key in bad or any(record.status is ProbeStatus.UNKNOWN for _, record in line)
    }
    return ArchitecturePage(
        name=visible(kind),
        href=address_of(kind),
        class_name=visible(one.class_name),
        home=visible(one.home),
        first=releases[0],
        newest=releases[-1],
        releases=releases,
        bad=tuple(_line(key, line, releases) for key, line in shown.items()),
        holding=tuple(
            key.probe
            for key in ran
            if key not in shown and key not in nowhere and key.probe != BUILD
        ),
        skipped=tuple(_by_reason(nowhere)),
        changes=tuple(_changes(history.changes_of(kind), history)),
        live=counts[releases[-1]],
        cases=cases,
        stretches=tuple(_counts(history.whole, releases, counts)),
        classes=tuple(classes),
    )


def _by_reason(nowhere: Mapping[ProbeKey, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    reasons: dict[str, list[str]] = {}
    for key, why in nowhere.items():
        reasons.setdefault(shortened(why, _LONGEST), []).append(key.probe)
    for why, probes in reasons.items():
        yield why, tuple(probes)


def _line(
    key: ProbeKey, line: Sequence[tuple[str, ProbeRecord]], releases: Sequence[str]
) -> ProbeLine:
    by_release = dict(line)
    stretches: list[Stretch] = []
    messages: list[tuple[str, str, str]] = []
    status_on = {name: record.status for name, record in line}
    for status, some in groupby(releases, key=status_on.get):
        names = [*some]
        words, glyph, shade = _LOOKS[status]
        # One cell, but each part of it with its own numbers.
        parts = [(_span([*each]), record) for record, each in groupby(names, key=by_release.get)]
        said = [
            (span, shortened(record.headline, _LONGEST), visible(record.place))
            for span, record in parts
            if record and status is not ProbeStatus.HOLDS
        ]
        told = "; ".join(f"{what} ({span})" if said[1:] else what for span, what, _ in said)
        stretches.append(
            Stretch(
                releases=_span(names),
                width=len(names),
                shade=shade,
                says=glyph,
                told=f"{words}: {told}" if told else words,
            )
        )
        messages += [(f"{span}: {words}", what, place) for span, what, place in said if what]
    return ProbeLine(
        name=key.probe,
        dtype=DTYPES[key.probe],
        holds=_SAYS[key.probe],
        stretches=tuple(stretches),
        messages=tuple(messages),
    )


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _counts(
    whole: Sequence[str], measured: Collection[str], bad: Mapping[str, int]
) -> Iterator[Stretch]:
    """Yield how many probes do not hold, release by release of those swept whole."""
    counts = [(name, bad.get(name, 0) if name in measured else None) for name in whole]
    for number, some in groupby(counts, key=lambda pair: pair[1]):
        names = [name for name, _ in some]
        yield Stretch(
            releases=_span(names),
            width=len(names),
            shade=(
                "s-none"
                if number is None
                else ("s-holds", "s-few", "s-several", "s-many")[bisect(_DARKER, number)]
            ),
            says=str(number or ""),
            told="not there or not run" if number is None else f"{number} do not hold",
        )


def _changes(
    found: Iterable[tuple[str, str, ProbeChange]], history: SweepHistory
) -> Iterator[ChangeLine]:
    """Yield what changed, the newest first; probes with the same message are one line."""
    groups: dict[tuple[str, str, str, str, str], list[str]] = {}
    sizes: dict[tuple[str, str, str, str, str], float] = {}
    for against, release, change in found:
        says = shortened(what(change), _LONGEST)
        key = (release, against, change.kind.value, says, visible(change.telling.place))
        if change.kind is Kind.NUMBERS:
            key = (release, against, change.kind.value, "", "")
            sizes[key] = max(change.size, sizes.get(key, 0.0))
        groups.setdefault(key, []).append(change.after.key.probe)
    for key in sorted(groups, key=lambda key: -history.order[key[0]]):
        release, against, kind, says, place = key
        yield ChangeLine(
            release=release,
            against=against,
            kind="other numbers" if kind == Kind.NUMBERS.value else kind,
            probes=", ".join(groups[key]),
            says=f"relative difference up to {sizes[key]:.2g}" if key in sizes else says,
            place=place,
        )


def outcomes_sheet(history: SweepHistory) -> ExportTable:
    """Return what does not hold of all architectures as a table; what is not in it holds."""
    return ExportTable(
        path="architectures",
        columns=("architecture", "probe", "first", "last", "status", "message", "place"),
        rows=tuple(
            (
                *key,
                run.first,
                run.last,
                run.record.status.value,
                run.record.headline,
                run.record.place,
            )
            for key, runs in history.outcomes.items()
            for run in runs
        ),
    )
