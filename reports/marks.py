"""What a cell shows on the page: exactly one mark, with its glyph, its words and its sentence."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from repromatrix.reports.text import shortened, visible
from repromatrix.runner.evidence.answering import dispute
from repromatrix.runner.judging.verdicts import Judged, elsewhere
from repromatrix.runner.model.observation import LOCAL, Observation
from repromatrix.runner.model.outcomes import Exercised, Outcome, Precision, Verdict

_HEADLINE = 140
_WORD = 40


class Mark(StrEnum):
    """A verdict, split into passing and failing, and into the reasons for being unproven."""

    PASSES = "passes"
    FAILS = "fails"
    REGRESSED = "regressed"
    FIXED = "fixed"
    CHANGED = "changed"
    NOT_APPLICABLE = "not-applicable"
    NEEDS_GPU = "needs-gpu"
    UNSTABLE = "unstable"
    NOT_EXERCISED = "not-exercised"
    OUT_OF_MEMORY = "out-of-memory"
    UNBUILDABLE = "unbuildable"
    NOT_RUN = "not-run"
    NOT_DUE = "not-due"

    @property
    def glyph(self) -> str:
        """The shape that tells the mark without its colour."""
        return _LOOKS[self].glyph

    @property
    def words(self) -> str:
        """What the mark means, for the legend."""
        return _LOOKS[self].words

    @property
    def verdict(self) -> Verdict:
        """The verdict that the mark stands for."""
        match self:
            case Mark.PASSES | Mark.FAILS:
                return Verdict.AS_EXPECTED
            case Mark.REGRESSED | Mark.FIXED | Mark.CHANGED | Mark.NOT_APPLICABLE:
                return Verdict(self.value)
            case (
                Mark.NEEDS_GPU
                | Mark.UNSTABLE
                | Mark.NOT_EXERCISED
                | Mark.OUT_OF_MEMORY
                | Mark.UNBUILDABLE
                | Mark.NOT_RUN
                | Mark.NOT_DUE
            ):
                return Verdict.UNPROVEN


class _Look(NamedTuple):
    """How a mark is drawn, what it means, and how a sentence about a cell begins."""

    glyph: str
    words: str
    clause: str


_LOOKS = {
    Mark.PASSES: _Look("✓", "passes", "{happened} as expected"),
    Mark.FAILS: _Look("✕", "fails as described", "{happened} as expected"),
    Mark.REGRESSED: _Look(
        "R", "regressed: fails, expected to pass", "{happened}, expected to pass"
    ),
    Mark.FIXED: _Look("F", "unexpected pass: expected to fail", "{happened}, expected to fail"),
    Mark.CHANGED: _Look(
        "C", "changed: fails, not as described", "{happened}, but not as described"
    ),
    Mark.NOT_APPLICABLE: _Look("–", "not applicable", "{happened}"),  # noqa: RUF001 - drawn, not typed
    Mark.NEEDS_GPU: _Look("G", "not measured: needs a GPU", "not measured"),
    Mark.UNSTABLE: _Look(
        "~", "unstable: repeats or machines disagree", "unstable in {repeats} runs, last {happened}"
    ),
    Mark.NOT_EXERCISED: _Look(
        "○", "never computed in its precision", "{happened}, but never computed in {precision}"
    ),
    Mark.OUT_OF_MEMORY: _Look("M", "out of memory", "{happened}"),
    Mark.UNBUILDABLE: _Look("U", "environment not buildable", "{happened}"),
    Mark.NOT_RUN: _Look("·", "not run", "{happened}"),
    Mark.NOT_DUE: _Look("∘", "not due: no rule asks for it, nothing is known", "{happened}"),
}


def verdict_label(verdict: Verdict) -> str:
    """Return how pages name a verdict; files keep its value."""
    # "Fixed" would be taken for "fixed in" a release.
    return "unexpected pass" if verdict is Verdict.FIXED else verdict.value.replace("-", " ")


def mark_of(row: Judged) -> Mark:
    """Return the mark of a judged observation."""
    match row.verdict:
        case Verdict.AS_EXPECTED:
            return Mark.PASSES if row.seen.outcome is Outcome.PASSES else Mark.FAILS
        case Verdict.REGRESSED | Verdict.FIXED | Verdict.CHANGED | Verdict.NOT_APPLICABLE:
            return Mark(row.verdict.value)
        case Verdict.UNPROVEN:
            return _unproven(row.seen)


def _unproven(seen: Observation) -> Mark:
    if seen.unstable:
        return Mark.UNSTABLE
    match seen.outcome:
        case Outcome.NOT_MEASURED:
            return Mark.NEEDS_GPU
        case Outcome.OUT_OF_MEMORY | Outcome.UNBUILDABLE | Outcome.NOT_RUN | Outcome.NOT_DUE:
            return Mark(seen.outcome.value)
        case (
            Outcome.PASSES
            | Outcome.FAILS
            | Outcome.TIMES_OUT
            | Outcome.CRASHES
            | Outcome.DECLINES
            | Outcome.NOT_APPLICABLE
        ):
            return Mark.NOT_EXERCISED


class SeenMark(NamedTuple):
    """What a cell shows: its mark, its CSS classes, and its text, long and short."""

    mark: Mark
    style: str
    text: str
    words: str
    both: tuple[str, ...] = ()
    """What was seen here and what was published, where the one denies the other."""

    @property
    def stale(self) -> bool:
        """Whether the case or the pins have changed since."""
        return _STALE in self.style.split()

    @property
    def here(self) -> bool:
        """Whether it was measured on this machine."""
        return _HERE in self.style.split()


_STALE, _HERE = "stale", "here"


_UNSEEN = SeenMark(Mark.NOT_RUN, Mark.NOT_RUN.value, Outcome.NOT_RUN.verb, Outcome.NOT_RUN.verb)


def seen_as(row: Judged | None, precision: Precision) -> SeenMark:
    """Return what a cell shows, with its message or its reason in words."""
    if row is None:
        return _UNSEEN
    shown = _disputed(row) if row.seen.sides else _undisputed(row, precision)
    if not is_here(row):
        return shown
    return shown._replace(
        style=f"{shown.style} {_HERE}",
        text="; ".join([shown.text, *both_results(row)]),
        both=both_results(row),
    )


def is_here(row: Judged) -> bool:
    """Say whether this machine measured what a cell shows."""
    return row.seen.source == LOCAL and row.seen.outcome.was_run


def both_results(row: Judged) -> tuple[str, ...]:
    """Return what was seen here and what was published, where the one denies the other."""
    told = row.published
    if told is None:
        return ()
    return f"here: {_result(row.seen)}", f"published ({told.source}): {_result(told)}"


def _result(seen: Observation) -> str:
    error = f": {shortened(seen.failed.headline, _HEADLINE)}" if seen.failed else ""
    return f"{seen.outcome.verb}{error}"


def _undisputed(row: Judged, precision: Precision) -> SeenMark:
    seen, failed, detail = row.seen, row.seen.failed, explained(row)
    error = "" if failed is None else failed.error_class
    unexercised = seen.exercised is Exercised.NO
    happened = seen.outcome, seen.repeats, precision, detail, error
    return _seen(mark_of(row), *happened, unexercised=unexercised, stale=row.stale)


def _disputed(row: Judged) -> SeenMark:
    """Return what a cell shows about which machines disagree."""
    mark, stale = mark_of(row), "; stale" if row.stale else ""
    return SeenMark(
        mark=mark,
        style=f"{mark.value} stale" if row.stale else mark.value,
        text=visible(f"disputed between machines: {dispute(row.seen)}{stale}"),
        words=f"disputed{', stale' if row.stale else ''}",
    )


# Thousands of cells say the same few things.
@lru_cache(maxsize=8192)
def _seen(  # noqa: PLR0913, PLR0917 - all that the words depend on
    mark: Mark,
    outcome: Outcome,
    repeats: int,
    precision: Precision,
    detail: str,
    error: str,
    *,
    unexercised: bool,
    stale: bool,
) -> SeenMark:
    happened = outcome.verb
    clause = _LOOKS[mark].clause.format(happened=happened, repeats=repeats, precision=precision)
    headline = shortened(detail, _HEADLINE)
    words = shortened(error or happened, _WORD)
    if mark is Mark.NEEDS_GPU:
        words = "not measured, needs a GPU"
    return SeenMark(
        mark=mark,
        style=f"{mark.value} stale" if stale else mark.value,
        text=(f"{clause}: {headline}" if headline else clause) + ("; stale" if stale else ""),
        words=words + (", not exercised" if unexercised else "") + (", stale" if stale else ""),
    )


def explained(row: Judged) -> str:
    """Return the headline of the failure, else the reason, whatever its length."""
    failed = row.seen.failed
    if failed is None:
        return row.seen.reason
    place = f" (in {where})" if (where := elsewhere(row)) else ""
    kernel = "CPU kernel only: " if failed.is_of_cpu_kernel else ""
    return f"{kernel}{failed.headline}{place}"
