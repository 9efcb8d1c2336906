"""How a case fails: its failures by signature, their messages over releases, and their traces."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from repromatrix.reports.marks import Mark, explained, mark_of
from repromatrix.reports.text import excerpt, page_of, shortened, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import PLAIN, Case, CaseKind
from repromatrix.runner.model.frames import frames as frames_of
from repromatrix.runner.model.observation import NOISE, Failed
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.text import join

_MESSAGE = 4_000
_TRACEBACK = 12_000
_HEADLINE = 220
_HALF = re.compile(r"\b(?:BFloat16|Half|bfloat16|float16|bf16|fp16)\b")


@lru_cache(maxsize=4096)
def of_any_half(text: str) -> str:
    """Return an error without which half precision it names: what else is alike is one thing."""
    return _HALF.sub("half", text)


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
    raised_in: tuple[str, ...]
    """The functions in which they happen, the commonest first."""
    places: tuple[FailurePlace, ...]


def failures(survey: Survey, name: str) -> tuple[Signed, ...]:
    """Group the failures of a case by signature, the commonest first."""
    groups: dict[str, list[Judged]] = {}
    for row in survey.of_case(name):
        if row.seen.outcome.is_failure:
            failed = row.seen.failed
            identity = failed.signature if failed is not None else row.seen.outcome.value
            groups.setdefault(identity, []).append(row)
    ordered = sorted(groups.values(), key=len, reverse=True)
    return tuple(
        _signed(survey, rows, f"failure-{number}") for number, rows in enumerate(ordered, 1)
    )


def _signed(survey: Survey, rows: list[Judged], anchor: str) -> Signed:
    seen = rows[0].seen
    failed = seen.failed
    unexplained = f"{seen.outcome.verb}: {seen.reason}" if seen.reason else seen.outcome.verb
    counts = Counter(mark_of(row) for row in rows)
    functions = Counter(row.seen.failed.place for row in rows if row.seen.failed)
    return Signed(
        anchor=anchor,
        signature=failed.signature if failed else unexplained,
        headline=shortened(failed.headline if failed else unexplained, _HEADLINE),
        message=excerpt(failed.message if failed else "", _MESSAGE),
        traceback=excerpt(failed.traceback if failed else "", _TRACEBACK),
        meanings=tuple(f"{counts[mark]:,} {mark.words}" for mark in Mark if mark in counts),
        raised_in=tuple(visible(place) for place, _ in functions.most_common() if place),
        places=places(survey, rows),
    )


def places(survey: Survey, rows: Iterable[Judged]) -> tuple[FailurePlace, ...]:
    """Return where cells are: precisions, then variants with the same releases share a line."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class AlikeCells:
    """Cells of one case that show the same mark with the same error or reason."""

    case: str
    href: str
    title: str
    sort: str
    """`error`, `silent` or `intended`."""
    mark: Mark
    error: str
    places: tuple[FailurePlace, ...]


def sort_of(case: Case) -> str:
    """Return how a case shows itself where it fails: `error`, `silent` or `intended`."""
    if case.block.kind is not CaseKind.BUG:
        return "intended"
    return "silent" if case.block.is_silent else "error"


def alike(survey: Survey, rows: Iterable[Judged]) -> Iterator[AlikeCells]:
    """Yield cells by case, mark and error; names of half precisions do not part them."""
    groups: dict[tuple[str, Mark, str], list[Judged]] = {}
    for row in rows:
        error = of_any_half(explained(row) or row.seen.outcome.value)
        groups.setdefault((row.seen.cell.case, mark_of(row), error), []).append(row)
    for (name, mark, _), cells in groups.items():
        case = survey.cases[name]
        yield AlikeCells(
            case=visible(name),
            href=page_of(name),
            title=visible(case.block.title),
            sort=sort_of(case),
            mark=mark,
            error=shortened(explained(cells[0]) or cells[0].seen.outcome.value, _HEADLINE),
            places=places(survey, cells),
        )


def _variants(names: list[str]) -> str:
    """Return variants in words: nothing for the plain case alone."""
    others = [visible(name) for name in names if name != PLAIN]
    if not others:
        return ""
    words = f"with {join(others)}"
    return f"plain and {words}" if PLAIN in names else words


_TEXT, _VERSIONS = 6_000, 12


class Sort(StrEnum):
    """What became of a line."""

    KEPT = "kept"
    GONE = "gone"
    NEW = "new"


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageLine:
    """One line of a message or a traceback; its sign tells what became of it without colour."""

    sort: Sort
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """One wording, where it was seen, and how it differs from the one before."""

    releases: str
    precisions: str
    headline: str
    lines: tuple[MessageLine, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wording:
    """The wordings of a case, oldest first; `more` is how many are left out."""

    versions: tuple[Version, ...]
    more: int


def wording(survey: Survey, name: str) -> Wording:
    """Return how the failures of a case are worded, each compared with the one before it."""
    groups: dict[str, tuple[Failed, list[Judged]]] = {}
    for row in sorted(survey.of_case(name), key=lambda row: survey.when[row.seen.cell.environment]):
        failed = row.seen.failed
        if failed is not None and row.seen.outcome.is_failure:
            whole = f"{failed.traceback.rstrip()}\n{failed.error_class}: {failed.message}"
            groups.setdefault(excerpt(whole.lstrip(), _TEXT), (failed, []))[1].append(row)
    texts = list(groups)[:_VERSIONS]
    versions = tuple(
        Version(
            releases=survey.spans(row.seen.cell.environment for row in rows),
            precisions=join([*dict.fromkeys(row.seen.cell.precision for row in rows)]),
            headline=shortened(failed.headline, _HEADLINE),
            lines=tuple(_lines(before.splitlines(), text.splitlines())),
        )
        for before, text in zip(["", *texts], texts, strict=False)
        for failed, rows in [groups[text]]
    )
    return Wording(versions=versions, more=len(groups) - len(texts))


def _lines(before: list[str], after: list[str]) -> Iterator[MessageLine]:
    """Yield the first wording whole, and of each other what differs from the one before it."""
    if not before:
        yield from (MessageLine(sort=Sort.KEPT, text=text) for text in after)
        return
    compared = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, start_after, end_after in compared.get_opcodes():
        if tag != "equal":
            gone, new = before[start:end], after[start_after:end_after]
            yield from (MessageLine(sort=Sort.GONE, text=text) for text in gone)
            yield from (MessageLine(sort=Sort.NEW, text=text) for text in new)


_DEEPEST = 4
_SPANS = 200


def signatures(survey: Survey, measured: str) -> dict[str, Any]:
    """Return every case that fails somewhere, and the rules that make a message a signature.

    `measured` says in few words on what they failed. `place` is where a case stands among all, the
    likelier to be met first: it decides ties.
    """
    likely = sorted(survey.cases, key=lambda name: (_rarity(survey, name), name))
    places = {name: place for place, name in enumerate(likely)}
    known = [
        {
            "case": visible(case.name),
            "title": visible(case.block.title),
            "href": page_of(case.name),
            "raises": sorted({visible(name) for one in case.block.fails for name in one.raises}),
            "matches": [*dict.fromkeys(text for one in case.block.fails for text in one.match)],
            "place": places[case.name],
            "traces": [_trace(survey, case, signed) for signed in failures(survey, case.name)],
        }
        for case in survey.cases.values()
    ]
    return {
        "measured": measured,
        # The page's own class of word characters is ASCII alone.
        "noise": [
            (pattern.pattern.replace(r"[\w", r"[\p{L}\p{N}_").replace(r"\w", r"[\p{L}\p{N}_]"), put)
            for pattern, put in NOISE
        ],
        "cases": [one for one in known if one["traces"] or one["matches"]],
    }


def _rarity(survey: Survey, name: str) -> tuple[int, int, int]:
    """Return what sorts the newest plain failures first, then those with more reports."""
    failing = {
        survey.column_of[environment]
        for (workaround, *_), fails in survey.failing(name).items()
        if workaround == PLAIN
        for environment, does in fails.items()
        if does
    }
    found = [place for place, release in enumerate(survey.releases) if release in failing] or [-1]
    return -found[-1], -found[0], -len(survey.cases[name].block.reports)


def _trace(survey: Survey, case: Case, signed: Signed) -> dict[str, Any]:
    """Return one way in which a case fails: its deepest frames, the last one raised, and fixes."""
    where = "; ".join(
        f"{place.precisions}{place.variants and f' {place.variants}'}: {place.releases}"
        for place in signed.places[:2]
    )
    on_top = f" (with {join(case.extras)} installed)" if case.extras else ""
    return {
        "signature": signed.signature,
        "headline": signed.headline,
        "anchor": signed.anchor,
        "frames": frames(signed.traceback)[-_DEEPEST:],
        "where": shortened(where, _SPANS) + on_top,
        "fixes": [*_fixing(survey, case, signed.signature)],
    }


def _fixing(survey: Survey, case: Case, signature: str) -> Iterator[str]:
    """Yield the workarounds that passed wherever the plain case failed with a signature."""
    failed = [
        row.seen.cell
        for row in survey.of_case(case.name)
        if row.seen.cell.workaround == PLAIN
        and row.seen.outcome.is_failure
        and row.seen.failed
        and row.seen.failed.signature == signature
    ]
    for name, workaround in case.block.workarounds.items():
        beside = (survey.rows.get(cell._replace(workaround=name)) for cell in failed)
        passes = (row is not None and row.seen.outcome is Outcome.PASSES for row in beside)
        if failed and not workaround.skips and all(passes):
            yield visible(name)


def frames(traceback: str) -> tuple[str, ...]:
    """Return the frames of a traceback as `package/module.py:function`, the deepest last.

    A path is that inside any environment. A function is named without its class, as in the
    tracebacks that Python prints.
    """
    named = []
    for frame in frames_of(traceback):
        path = frame.path.replace("\\", "/")
        _, found, inside = path.rpartition("site-packages/")
        named.append(f"{inside if found else '/'.join(path.split('/')[-2:])}:{frame.name}")
    return tuple(named)
