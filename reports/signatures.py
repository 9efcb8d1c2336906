"""What a pasted error is held against: how every case fails, and what its file says of that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.failures import failures
from reports.phrases import listed, page_of, shortened, visible
from runner.model.case import PLAIN
from runner.model.outcomes import Outcome
from runner.model.signature import NOISE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.failures import Signed
    from reports.survey import Survey
    from runner.model.case import Case
    from runner.model.cell import Cell
    from runner.model.observation import Observation

_DEEPEST = 4
_SPANS = 200
_FRAME = re.compile(r'File "([^"]*)", line \d+, in ([\w<>]+)')


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One way in which a case fails; `frames` are its deepest, the last one raised."""

    signature: str
    headline: str
    anchor: str
    frames: tuple[str, ...]
    where: str
    heals: tuple[str, ...]
    """Workarounds that passed in every plain cell that failed so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A case by its failures."""

    case: str
    title: str
    href: str
    raises: tuple[str, ...]
    matches: tuple[str, ...]
    traces: tuple[Trace, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Signatures:
    """Every case that fails somewhere, and the rules that make a message a signature.

    `measured` says in few words on what they failed.
    """

    measured: str
    noise: tuple[tuple[str, str], ...]
    cases: tuple[Known, ...]


def signatures(survey: Survey, measured: str) -> Signatures:
    """Return what is known of errors; a case without failure and expectation is left out."""
    known = (_known(survey, case) for case in survey.cases.values())
    return Signatures(
        measured=measured,
        noise=tuple((_for_scripts(pattern), put) for pattern, put in NOISE),
        cases=tuple(one for one in known if one.traces or one.matches),
    )


def _for_scripts(pattern: re.Pattern[str]) -> str:
    """Return a pattern as the page reads it: its own class of word characters is ASCII alone."""
    inside = pattern.pattern.replace(r"[\w", r"[\p{L}\p{N}_")
    return inside.replace(r"\w", r"[\p{L}\p{N}_]")


def _known(survey: Survey, case: Case) -> Known:
    seen = {row.seen.cell: row.seen for row in survey.of_case(case.name)}
    return Known(
        case=visible(case.name),
        title=visible(case.block.title),
        href=page_of(case.name),
        raises=tuple(sorted({visible(one.raises) for one in case.block.fails if one.raises})),
        matches=tuple(dict.fromkeys(text for one in case.block.fails for text in one.match)),
        traces=tuple(
            _trace(case, signed, _healing(case, seen, signed.signature))
            for signed in failures(survey, case.name)
        ),
    )


def _healing(case: Case, seen: Mapping[Cell, Observation], signature: str) -> tuple[str, ...]:
    """Return the workarounds that passed wherever the plain case failed with a signature."""
    failed = [
        cell
        for cell, row in seen.items()
        if cell.workaround == PLAIN and row.failed and row.failed.signature == signature
    ]
    return tuple(
        visible(name)
        for name, workaround in case.block.workarounds.items()
        if not workaround.skips
        and failed
        and all(
            (beside := seen.get(cell._replace(workaround=name))) is not None
            and beside.outcome is Outcome.PASSES
            for cell in failed
        )
    )


def _trace(case: Case, signed: Signed, heals: tuple[str, ...]) -> Trace:
    where = "; ".join(
        f"{place.precisions}{place.variants and f' {place.variants}'}: {place.releases}"
        for place in signed.places[:2]
    )
    on_top = f" (with {listed(case.extras)} installed)" if case.extras else ""
    return Trace(
        signature=signed.signature,
        headline=signed.headline,
        anchor=signed.anchor,
        frames=frames(signed.traceback)[-_DEEPEST:],
        where=shortened(where, _SPANS) + on_top,
        heals=heals,
    )


def frames(traceback: str) -> tuple[str, ...]:
    """Return the frames of a traceback as `package/module.py:function`, the deepest last."""
    return tuple(f"{_inside(path)}:{name}" for path, name in _FRAME.findall(traceback))


def _inside(path: str) -> str:
    """Return a path as it is inside any environment."""
    plain = path.replace("\\", "/")
    _, found, rest = plain.rpartition("site-packages/")
    return rest if found else "/".join(plain.split("/")[-2:])
