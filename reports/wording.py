"""How the message of a case changed from release to release: the first whole, then what differs."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from reports.phrases import excerpt, listed, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.survey import Survey
    from runner.judging.verdicts import Judged

_TEXT, _HEADLINE, _VERSIONS = 6_000, 220, 12


class Sort(StrEnum):
    """What became of a line."""

    KEPT = "kept"
    GONE = "gone"
    NEW = "new"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of a message or a traceback; its sign tells what became of it without colour."""

    sort: Sort
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """One wording, where it was seen, and how it differs from the one before."""

    releases: str
    precisions: str
    headline: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wording:
    """The wordings of a case, oldest first; `more` is how many are left out."""

    versions: tuple[Version, ...]
    more: int


def wording(survey: Survey, name: str) -> Wording:
    """Return how the failures of a case are worded, each compared with the one before it."""
    groups: dict[str, list[Judged]] = {}
    for row in _in_time(survey, name):
        if row.seen.failed is not None and row.seen.outcome.is_failure:
            groups.setdefault(_text(row), []).append(row)
    texts = list(groups)[:_VERSIONS]
    versions = tuple(
        _version(survey, groups[text], _lines(texts[number - 1] if number else "", text))
        for number, text in enumerate(texts)
    )
    return Wording(versions=versions, more=len(groups) - len(texts))


def _in_time(survey: Survey, name: str) -> list[Judged]:
    when = {environment: place for place, environment in enumerate(survey.order)}
    return sorted(survey.of_case(name), key=lambda row: when[row.seen.cell.environment])


def _text(row: Judged) -> str:
    failed = row.seen.failed
    if failed is None:
        return ""
    told = f"{failed.error_class}: {failed.message}"
    return excerpt(f"{failed.traceback.rstrip()}\n{told}".lstrip(), _TEXT)


def _version(survey: Survey, rows: Sequence[Judged], lines: tuple[Line, ...]) -> Version:
    failed = rows[0].seen.failed
    precisions = dict.fromkeys(row.seen.cell.precision.value for row in rows)
    return Version(
        releases=survey.spans(row.seen.cell.environment for row in rows),
        precisions=listed(list(precisions)),
        headline=shortened(failed.headline if failed else "", _HEADLINE),
        lines=lines,
    )


def _lines(before: str, after: str) -> tuple[Line, ...]:
    if not before:
        return tuple(Line(sort=Sort.KEPT, text=text) for text in after.splitlines())
    return tuple(_changes(before.splitlines(), after.splitlines()))


def _changes(before: list[str], after: list[str]) -> Iterator[Line]:
    compared = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, start_after, end_after in compared.get_opcodes():
        if tag != "equal":
            yield from (Line(sort=Sort.GONE, text=text) for text in before[start:end])
            yield from (Line(sort=Sort.NEW, text=text) for text in after[start_after:end_after])
