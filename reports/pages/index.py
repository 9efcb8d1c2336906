"""The context of the first page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repromatrix.reports.marks import Mark, verdict_label
from repromatrix.reports.pages.findings import FindingsPage
from repromatrix.reports.pages.release import ReleasePage
from repromatrix.reports.sections.failures import AlikeCells, alike
from repromatrix.reports.sections.status import Newest, at_fault, count_of, newest
from repromatrix.reports.text import page_of, shortened, spans, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.counts import BugCount, by_scope
from repromatrix.runner.judging.verdicts import ClaimStanding
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.outcomes import Device, Precision, Verdict
from repromatrix.runner.text import join, plural


def case_list(survey: Survey) -> list[dict[str, Any]]:
    """Return the cases in the order of their names, each in words.

    `fails` is where the plain case does, precisions alike together; `unmeasured` is why nothing is
    known of it, and empty where anything is.
    """
    others = {device: survey.on(device) for device in survey.devices[1:]}
    return [
        {
            "name": visible(name),
            "title": visible(case.block.title),
            "area": visible(case.block.area),
            "href": page_of(name),
            "fails": [
                f"{join(precisions)}{others.get(device, '')}: {', '.join(ranges)}"
                for device, precisions, ranges in survey.failing_ranges(case)
            ],
            "unmeasured": survey.unmeasured(name),
        }
        for name, case in sorted(survey.cases.items())
    ]


SCRIPTS = (
    *("data/matrix.js", "data/measured.js"),
    *("query.js", "search.js", "book.js", "paste.js", "texts.js"),
    *("detail.js", "table.js", "list.js", "filters.js", "index.js"),
)
"""What the first page runs, in this order: data, then what others are made of."""

_REASON = 200
_RECENT = 3
"""How many releases the first screen tells of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The subject of the page, and the counts of results on each device."""

    sentence: str
    devices: tuple[Device, ...]
    cells: tuple[int, ...]
    tallies: list[dict[str, Any]]
    """How many cells have a verdict, on each device, and which marks they show."""
    flags: tuple[tuple[str, str, tuple[int, ...]], ...]
    """Name, meaning and numbers of what may be said of a cell beside its mark."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """The first page."""

    headline: Headline
    newest: Newest | None
    at_fault: Mapping[str, BugCount]
    """The packages at fault, that with the most open bugs first."""
    recent: tuple[ReleasePage, ...]
    """The newest releases, the newest first."""
    scripts: tuple[str, ...]
    cases: list[dict[str, Any]]
    unexpected: tuple[AlikeCells, ...]
    unmeasured: list[dict[str, Any]]
    """Why cells have no result: a mark, a reason, how many cells, and on which releases."""
    swept: FindingsPage | None
    """What the newest release changed for all architectures; None where nothing was swept."""
    contradicted: int
    """How many claims of reports measurement contradicts; the page of claims has them."""


def index(
    survey: Survey, releases: Sequence[ReleasePage], swept: FindingsPage | None = None
) -> Index:
    """Return the context of the first page; `releases` come oldest first."""
    unexpected = [row for row in survey.rows.values() if row.verdict.is_unexpected]
    return Index(
        headline=_headline(survey),
        newest=newest(survey),
        at_fault=at_fault(survey),
        recent=tuple([one for one in releases if one.is_release][: -_RECENT - 1 : -1]),
        scripts=SCRIPTS,
        cases=case_list(survey),
        unexpected=tuple(alike(survey, unexpected)),
        unmeasured=_unmeasured(survey),
        swept=swept if swept and swept.newest else None,
        contradicted=sum(
            checked.standing is ClaimStanding.CONTRADICTED
            for name in survey.cases
            for checked in survey.claims(name)
        ),
    )


def _headline(survey: Survey) -> Headline:
    devices = survey.devices
    shown = survey.shown
    counts = Counter((seen.mark, cell.device) for cell, seen in shown)
    stale = Counter(cell.device for cell, seen in shown if seen.stale)
    here = Counter(cell.device for cell, seen in shown if seen.here)
    simulated = Counter(cell.device for cell, _ in shown if cell.case in survey.simulated)

    def number(marks: Sequence[Mark]) -> tuple[int, ...]:
        return tuple(sum(counts[mark, device] for mark in marks) for device in devices)

    return Headline(
        sentence=_sentence(survey),
        devices=devices,
        cells=number([*Mark]),
        tallies=[
            {
                "verdict": verdict,
                "words": verdict_label(verdict),
                "numbers": number(marks := [mark for mark in Mark if mark.verdict is verdict]),
                "marks": [(mark, number([mark])) for mark in marks],
            }
            for verdict in Verdict
        ],
        flags=tuple(
            (name, words, tuple(numbers[device] for device in devices))
            for name, words, numbers in (
                ("stale", "the case or the pins have changed since", stale),
                ("here", "measured on this machine, no published result", here),
                ("simulated", "uses a stand-in for a real part", simulated),
            )
        ),
    )


def _sentence(survey: Survey) -> str:
    known = count_of(survey, survey.cases).known
    origins = Counter(str(case.block.found_by or "") for case in survey.cases.values())
    words = {"": "reported", "measurement": "found by measurement", "sweep": "found by the sweep"}
    told = join([f"{origins[key]} {says}" for key, says in words.items() if origins[key]])
    subject = (
        f"{plural(len(known), 'known bug')} of the Hugging Face ecosystem, {by_scope(known)}:"
        f" {plural(len(survey.cases), 'case')}, {told}"
    )
    precisions = join([precision.value for precision in Precision])
    names = [item.name for item in survey.columns if item.source is Source.RELEASE]
    span = f", {names[0]} to {names[-1]}," if len(names) > 1 else ""
    against = f"{plural(len(names), 'release')} of transformers{span}"
    return f"{subject}, tested on {against} under {precisions}."


def _unmeasured(survey: Survey) -> list[dict[str, Any]]:
    groups: dict[tuple[Mark, str], list[Cell]] = {}
    for cell, seen in survey.shown:
        if seen.mark.verdict is Verdict.UNPROVEN:
            row = survey.rows.get(cell)
            reason = shortened(row.seen.reason, _REASON) if row is not None else ""
            groups.setdefault((seen.mark, reason), []).append(cell)
    return [
        {
            "mark": mark,
            "reason": reason,
            "cells": len(groups[mark, reason]),
            "releases": spans((cell.environment for cell in groups[mark, reason]), survey.when),
        }
        for mark, reason in sorted(groups, key=lambda key: ([*Mark].index(key[0]), key[1]))
    ]
