"""How a case fails: its failures grouped by signature, and where each was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from repromatrix.reports.marks import Mark, mark_of
from repromatrix.reports.text import excerpt, shortened, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import PLAIN
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.text import join

_MESSAGE = 4_000
_TRACEBACK = 12_000
_HEADLINE = 220


@dataclass(frozen=True, kw_only=True, slots=True)
class FailurePlace:
    """Where something was seen: variants and precisions that share their releases."""

    variants: str
    precisions: str
    device: str
    releases: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Signed:
    """The failures of one case that share a signature."""

    anchor: str
    signature: str
    headline: str
    message: str
    traceback: str
    meanings: tuple[str, ...]
    places: tuple[FailurePlace, ...]


def failures(survey: Survey, name: str) -> tuple[Signed, ...]:
    """Group the failures of a case by signature, the commonest first."""
    groups: dict[str, list[Judged]] = {}
    for row in survey.of_case(name):
        if row.seen.outcome.is_failure:
            groups.setdefault(_identity(row.seen), []).append(row)
    ordered = sorted(groups.values(), key=len, reverse=True)
    return tuple(
        _signed(survey, rows, f"failure-{number}") for number, rows in enumerate(ordered, 1)
    )


def _identity(seen: Observation) -> str:
    return seen.failed.signature if seen.failed is not None else seen.outcome.value


def _signed(survey: Survey, rows: list[Judged], anchor: str) -> Signed:
    seen = rows[0].seen
    failed = seen.failed
    unexplained = f"{seen.outcome.verb}: {seen.reason}" if seen.reason else seen.outcome.verb
    return Signed(
        anchor=anchor,
        signature=failed.signature if failed else unexplained,
        headline=shortened(failed.headline if failed else unexplained, _HEADLINE),
        message=excerpt(failed.message if failed else "", _MESSAGE),
        traceback=excerpt(failed.traceback if failed else "", _TRACEBACK),
        meanings=_meanings(rows),
        places=places(survey, rows),
    )


def _meanings(rows: list[Judged]) -> tuple[str, ...]:
    counts = Counter(mark_of(row) for row in rows)
    return tuple(f"{counts[mark]:,} {mark.words}" for mark in Mark if mark in counts)


def places(survey: Survey, rows: Iterable[Judged]) -> tuple[FailurePlace, ...]:
    """Say where cells lie; precisions, then variants that share their releases share a line."""
    found: dict[tuple[str, Device, Precision], set[str]] = {}
    for row in rows:
        _, variant, release, precision, device = row.seen.cell
        found.setdefault((variant, device, precision), set()).add(release)
    alike: dict[tuple[str, Device, str], set[Precision]] = {}
    for (variant, device, precision), names in found.items():
        alike.setdefault((variant, device, survey.spans(names)), set()).add(precision)
    merged: dict[tuple[Device, str, tuple[Precision, ...]], list[str]] = {}
    for (variant, device, releases), several in alike.items():
        precisions = tuple(one for one in Precision if one in several)
        merged.setdefault((device, releases, precisions), []).append(variant)
    return tuple(
        FailurePlace(
            variants=_variants(variants),
            precisions=join([one.value for one in precisions]),
            device=device.value,
            releases=releases,
        )
        for (device, releases, precisions), variants in merged.items()
    )


def _variants(names: list[str]) -> str:
    """Return variants in words: nothing for the plain case alone."""
    others = [visible(name) for name in names if name != PLAIN]
    if not others:
        return ""
    words = f"with {join(others)}"
    return f"plain and {words}" if PLAIN in names else words
