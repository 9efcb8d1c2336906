"""Known bugs in words: a line each, by whom they concern, or all that is known of each."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from repromatrix.runner.audit.hits import Audit, Concern, Hit
from repromatrix.runner.audit.lines import PinPlace, place_of
from repromatrix.runner.audit.questions import AuditQuestion, CellAnswer, Level
from repromatrix.runner.audit.settings import AuditTerms
from repromatrix.runner.audit.torches import release_of
from repromatrix.runner.document import Code, Line, Listing, Paragraph, Reference
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.environment_name import under_torch
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.model.packages import TORCH, TRANSFORMERS
from repromatrix.runner.text import first_few, join, shorten

_FEW = 6
"""Up to so many families, or names, are listed."""
_SCREEN = 20
"""Up to so many hits are a line each."""
_WIDE = 96
_ERRORS = "With an error that you would see, whatever the model"


def link_of(case: Case, terms: AuditTerms) -> str:
    """Return the page of a case where the site is known, else its first report, if any."""
    return terms.page(case.name) or next(iter(case.block.reports), "")


def pins_of(audit: Audit) -> Callable[[str], PinPlace | None]:
    """Return what says where a package is pinned; most bugs are of the same, and that is kept."""
    return functools.cache(functools.partial(place_of, audit.installed))


# A line each, by whom they concern


def brief(audit: Audit, terms: AuditTerms, more: str) -> Iterator[Listing | Paragraph]:
    """Yield the hits that concern who asks, by title, and the silent ones of any model.

    Of many hits the rest is counted, and `more` says how to see it, unless everything is asked for.
    """
    everything = terms.everything or len(audit.hits) <= _SCREEN
    those = {each: [hit for hit in audit.hits if hit.concern is each] for each in Concern}
    families, special = those[Concern.FAMILIES], those[Concern.FEATURES]
    errors = [hit for hit in those[Concern.ANYONE] if not hit.is_silent]
    listed = {
        f"About {asked_names(audit.question)}": those[Concern.ASKED],
        "Silent, whatever the model": [hit for hit in those[Concern.ANYONE] if hit.is_silent],
    }
    if everything:
        listed |= {_ERRORS: errors, "Only of some models": families, "Only with a feature": special}
    for title, hits in listed.items():
        yield Listing(f"{title}:", [*_lines(hits, audit.question)])
    if everything:
        return
    models = _counted(name for hit in families for name in hit.case.block.families)
    rest = {
        _ERRORS: [str(len(errors))] if errors else [],
        "Only with": _counted(" and ".join(hit.unused) for hit in special),
        f"Only of some models ({len(families)} bugs)": first_few(models, _FEW, "more models"),
    }
    counts = [f"{title}: {'; '.join(each)}." for title, each in rest.items() if each]
    yield Paragraph([*counts, *([more] if counts else [])])


def _counted(names: Iterable[str]) -> list[str]:
    """Return how often each name occurs, in words, the most frequent first."""
    return [f"{name}: {number}" for name, number in Counter(sorted(names)).most_common()]


def asked_names(question: AuditQuestion) -> str:
    """Return the models and features that were named, in words."""
    return join(first_few(sorted(question.models | question.features), _FEW))


def _lines(hits: Sequence[Hit], question: AuditQuestion) -> Iterator[Line]:
    """Yield a line for each bug; variants of a case of which the same is known share one."""

    def words(hit: Hit) -> tuple[str, str, str]:
        title = hit.title.removesuffix(f" [{hit.case.variant}]")
        return hit.case.stem, title, "; ".join(_notes(hit, question))

    for (stem, title, notes), same in groupby(hits, key=words):
        first, *others = same
        yield f"{title} ({notes}; {stem if others else first.case.name})"


def _notes(hit: Hit, question: AuditQuestion) -> Iterator[str]:
    """Yield when a bug hits, how sure that is, and the first thing that avoids it."""
    if len(hit.stands) < len(question.precisions):
        yield _precisions(hit.stands)
    if hit.unused and hit.concern is not Concern.FAMILIES:
        yield f"only with {join(hit.unused)}"
    if hit.by_shared_code:
        yield "by shared code"
    if any(cell.level is Level.DERIVED for cell in hit.stands):
        yield levels_of(hit.stands)
    yield from _marks(hit)
    if hit.newer:
        back = f", back in {_versions(hit.returns)}" if hit.returns else ""
        yield f"avoided by {_versions(hit.newer)}{back}"
    elif hit.remedies:
        yield f"workaround: {hit.remedies[0].name}"
    else:
        yield f"avoided by {_versions(hit.older)}" if hit.older else "nothing measured avoids it"


# All that is known of each


def each(audit: Audit, terms: AuditTerms) -> Iterator[Listing]:
    """Yield all that is known of each case."""
    pinned = pins_of(audit)
    for hit in audit.hits:
        block, place = hit.case.block, pinned(hit.at_fault)
        met = f"can hit you with {join(block.triggers, 'or')}; you see {join(block.symptoms, 'or')}"
        only = [f"only with {join(hit.unused)}"] if hit.unused else []
        rests_on = [*only, *sources(hit), *_derivation(hit), *_changes(hit)]
        pin = [f"pinned at {place.file}:{place.line}"] if place and place.line else []
        error = Code(shorten(hit.seen.headline, _WIDE))
        marks = "".join(f" ({mark})" for mark in _marks(hit))
        cells = f": {_precisions(hit.stands)}, {levels_of(hit.stands)}{marks}"
        lines: list[Line] = [hit.title, met, error, *pin, *rests_on, *avoiding(hit)]
        yield Listing((Reference(hit.case.name, link_of(hit.case, terms)), cells), lines)


def _marks(hit: Hit) -> Iterator[str]:
    if hit.is_intended:
        yield f"{hit.case.block.kind}, intended"
    if hit.verdict is not Verdict.AS_EXPECTED:
        yield "not as the case describes it"


def _precisions(cells: Sequence[CellAnswer]) -> str:
    return " ".join(cell.precision for cell in cells)


def levels_of(cells: Sequence[CellAnswer]) -> str:
    """Return how sure answers are, each level once."""
    return "/".join(dict.fromkeys(str(cell.level) for cell in cells))


def sources(hit: Hit) -> Iterator[str]:
    """Yield why a case belongs to an answer about models that it is not about alone."""
    if hit.of_any_model:
        yield "of any model"
    if hit.by_shared_code:
        yield f"by shared code (measured with {join(hit.case.block.families)})"


def is_under_torch(cell: CellAnswer, ours: str) -> bool:
    """Say whether all that an answer rests on was measured under another torch: somebody's."""
    under = map(under_torch, cell.measured_in)
    return all(found and release_of(TORCH, found[1]) == release_of(TORCH, ours) for found in under)


def _derivation(hit: Hit) -> Iterator[str]:
    derived = [cell for cell in hit.stands if cell.level is Level.DERIVED]
    if derived:
        low, high = derived[0].measured_in
        yield f"derived: it fails in {low}, in {high}, and in all that was measured between"
    elif found := under_torch(hit.seen.cell.environment):
        differing = (each.ours for each in hit.differences if each.package == TORCH)
        ours = next(differing, "") or found[1]
        is_ours = all(is_under_torch(cell, ours) for cell in hit.stands)
        yield f"measured in {hit.seen.cell.environment}{': with your torch' if is_ours else ''}"
    others = [
        f"{difference.package} {difference.ours or '(not listed)'},"
        f" measured with {' and '.join(difference.measured)}"
        for difference in hit.differences
        if difference.package not in {TORCH, TRANSFORMERS}
    ]
    if others:
        yield f"differs: {'; '.join(others)}"


def _changes(hit: Hit) -> Iterator[str]:
    """Yield the commits that broke and that fixed a case, where they were measured."""
    for word, rows in (("broken", hit.broken_by), ("fixed", hit.fixed_by)):
        for commit, precisions in by_commit(rows).items():
            only = f", in {' '.join(precisions)}" if len(precisions) < len(hit.stands) else ""
            yield f"{word} by commit {commit.label}{only}"


def by_commit(rows: Iterable[PinnedCommit]) -> dict[PinnedCommit, list[str]]:
    """Return each commit once, by its first row, with the precisions in which it was measured."""
    first: dict[str, PinnedCommit] = {}
    precisions: dict[PinnedCommit, list[str]] = {}
    for row in rows:
        precisions.setdefault(first.setdefault(row.commit, row), []).append(row.precision)
    return precisions


def avoiding(hit: Hit) -> Iterator[str]:
    """Yield what was measured to avoid a case: versions, then workarounds."""
    versions = [f"newer: {_newer(hit)}"] if hit.newer else []
    versions += [f"older: {_versions(hit.older)}"] if hit.older else []
    yield f"avoided by {'; '.join(versions)}" if versions else "no measured version avoids it"
    for remedy in hit.remedies:
        partial = len(remedy.stands) < len(hit.stands)
        only = f", only in {_precisions(remedy.stands)}" if partial else ""
        skips = ", disables the feature" if remedy.skips else ""
        sure = f"{levels_of(remedy.stands)}{only}{skips}"
        yield f"works here: {remedy.name} ({sure}): {remedy.says}"
    if hit.idle:
        yield f"does not help here: {join(hit.idle)}"
    if len(hit.idle) < len(hit.case.block.workarounds) and not hit.remedies:
        yield "none of its workarounds is known to work at these versions"


def _newer(hit: Hit) -> str:
    """Return the nearest newer versions that avoid a bug, and where it returns behind them.

    All releases of transformers are measured; of other packages it says between which it is fixed.
    """
    newer, until = hit.newer or {}, hit.fails_until or {}
    is_far = any(
        until.get(name, newer[name]) != newer[name] for name in newer.keys() - {TRANSFORMERS}
    )
    far = [f"fails up to {_versions(until)}, nothing measured in between"] if is_far else []
    returns = [f"returns with {_versions(hit.returns)}"] if hit.returns else []
    returns += [f"gone again from {_versions(hit.lasting)} on"] if hit.lasting else []
    notes = [*far, *([", ".join(returns)] if returns else [])]
    note = f" ({'; '.join(notes)})" if notes else ""
    return f"{_versions(newer)}{note}"


def _versions(versions: Mapping[str, str]) -> str:
    """Return the versions that were measured together: one of them alone may not avoid a bug."""
    first, *others = (f"{name} {version}" for name, version in versions.items())
    return f"{first} with {join(others)}" if others else first
