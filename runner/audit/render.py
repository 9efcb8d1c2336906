"""The answer of `audit` in words, and for programs; what `advise` shares with it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repromatrix.runner.audit.hits import Audit, Hit, Remedy, Upgrade
from repromatrix.runner.audit.lines import PinPlace, place_of
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import CellAnswer, Level, Spot
from repromatrix.runner.audit.settings import AuditTerms, IgnoredCase, fails_build
from repromatrix.runner.audit.torches import public, release_of
from repromatrix.runner.document import Code, Document, Line, Listing, Paragraph, Reference, Table
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.judging.counts import known_bugs
from repromatrix.runner.model.case import Case, CaseKind
from repromatrix.runner.model.environment_name import under_torch
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.model.packages import TORCH, TRANSFORMERS, UNDER_TEST
from repromatrix.runner.text import join, plural, shorten

if TYPE_CHECKING:
    from repromatrix.runner.audit.advice import Advice

_USUAL = AuditTerms()
_FEW = 6
"""Up to so many cases are shown with their errors, and so many files that were not read named."""
_REASONS = 3
"""So many reasons of the unknown are shown without `--verbose`."""
_WIDE = 96
_MORE = "`--verbose` shows the errors and workarounds; `--model` and `--precision` ask less."


# What the answers of `audit` and `advise` share


def link_of(case: Case, terms: AuditTerms) -> str:
    """Return the page of a case where the site is known, else its first report, if any."""
    return terms.page(case.name) or next(iter(case.block.reports), "")


def pins_of(audit: Audit) -> Callable[[Hit], PinPlace | None]:
    """Return what says where the package at fault is pinned.

    The file is searched once for each package: most bugs are of the same one.
    """
    place = functools.cache(functools.partial(place_of, audit.installed))

    def pinned(hit: Hit) -> PinPlace | None:
        return place(hit.at_fault)

    return pinned


def by_case(spots: Iterable[Spot]) -> dict[str, str]:
    """Return the precisions of each case, in words."""
    precisions: dict[str, list[str]] = {}
    for spot in spots:
        precisions.setdefault(spot.case, []).append(spot.precision)
    return {name: " ".join(each) for name, each in precisions.items()}


def listed(spots: Sequence[Spot], few: int = 3) -> str:
    """Return the first few cases with their precisions, and how many more there are."""
    cases = [f"{name} ({precisions})" for name, precisions in by_case(spots).items()]
    more = len(cases) - few
    return ", ".join([*cases[:few], *([f"{more} more"] if more > 0 else [])])


def evidence(answer: Audit | Advice, *more: str) -> Iterator[str]:
    """Yield the snapshot that an answer rests on, what its cells were measured on, and `more`."""
    named = str(answer.snapshot or "evidence").capitalize()
    device = answer.question.device.upper()
    builds = [f"torch {version}" for version in answer.torch]
    pythons = [f"Python {version}" for version in answer.python]
    measured = f"measured on {', '.join([device, *builds, *pythons])}"
    nothing = f"nothing is measured on {device}"
    yield f"{'; '.join([f'{named}: {measured if builds or pythons else nothing}', *more])}."


def snapshot_of(answer: Audit | Advice) -> dict[str, Any] | None:
    """Return the snapshot that an answer rests on, for a program."""
    told = answer.snapshot
    return {"name": told.name, "date": str(told.date), "age-days": told.age} if told else None


def spot_names(spots: Iterable[Spot]) -> list[str]:
    """Return `case:precision` for each."""
    return [f"{spot.case}:{spot.precision}" for spot in spots]


def shared(answer: Audit | Advice) -> Iterator[str]:
    """Yield which cases are not about the models that were asked for alone."""
    if answer.without_case:
        yield f"No case is about {join(answer.without_case)}; cases about any model answer."
    if answer.of_any_model:
        yield f"Includes {plural(answer.of_any_model, 'case')} about any model."
    cases = [
        f"{name} (measured with {join(families)})"
        for name, families in answer.by_shared_code.items()
    ]
    if cases:
        yield f"By shared code: {', '.join(cases)}."


def document(
    audit: Audit,
    terms: AuditTerms = _USUAL,
    *,
    verbose: bool = False,
    full: bool = False,
    more: str = _MORE,
) -> Document:
    """Return the answer as a document; `verbose` lists every unknown cell.

    Many cases are a row each, unless it is `full`; `more` says how to see what is left out then.
    """
    full = full or verbose
    spelled = full or len(audit.hits) <= _FEW
    return Document(
        headline=conclusion(audit),
        parts=[
            Paragraph([*audited(audit), *shared(audit), *judged_by(audit, terms)]),
            *(_each(audit, terms) if spelled else [_table(audit.hits, terms)]),
            *_upgrades(audit),
            *_unknown(audit, verbose=verbose, reasons=len(audit.unknown) if full else _REASONS),
            *([] if spelled else [Paragraph([more])]),
        ],
        data=_data(audit, terms),
    )


def audited(audit: Audit) -> Iterator[str]:
    """Yield what was audited, and on what the evidence was measured."""
    mine = audit.installed
    version = mine.version(TRANSFORMERS) or f"not pinned ({mine.loose.get(TRANSFORMERS, '')})"
    torch = "not listed"
    if mine.version(TORCH):
        torch = mine.version(TORCH)
    elif TORCH in mine.loose:
        torch = f"not pinned ({mine.loose[TORCH]})"
    yield f"{mine.what} ({mine.form}): transformers {version}, torch {torch}"
    yield from mine.notes
    if mine.passed_over:
        more = len(mine.passed_over) - _FEW
        rest = [f"{more} more"] if more > 0 else []
        yield f"Not used: {join([*mine.passed_over[:_FEW], *rest])}."
    if mine.conditional:
        yield read_for(mine)
    if mine.nameless:
        addresses = plural(mine.nameless, "address", "addresses")
        yield f"{addresses} without a package name: packages that are not listed may be installed."
    yield from evidence(audit, *_other_setting(audit))


def read_for(mine: Installed) -> str:
    """Say for which platform a file was read that holds packages for several."""
    also = [
        f"{other.package} {other.version}"
        f"{f' for {shorten(other.marker, _WIDE)}' if other.marker else ''}"
        for other in mine.others
        if other.package in UNDER_TEST
    ]
    also_holds = f"; it also holds {', '.join(also)}" if also else ""
    markers = mine.markers
    return f"Read for Python {markers['python_version']} on {markers['sys_platform']}{also_holds}."


def _other_setting(audit: Audit) -> Iterator[str]:
    """Say where answers come from another torch or Python, and how many do not."""
    mine, ours = audit.installed, audit.installed.version(TORCH)
    answers = [*(cell for hit in audit.hits for cell in hit.stands), *audit.clear]
    own = sum(is_under_torch(cell, ours) for cell in answers) if ours else 0
    if not audit.torch:
        return
    if not ours:
        yield "your version of torch is not known"
    elif own and own < len(answers):
        number = f"{own} of {plural(len(answers), 'answer')} {'was' if own == 1 else 'were'}"
        yield f"yours is torch {ours}, with which {number} measured"
    elif not own and ours not in {each for build in audit.torch for each in (build, public(build))}:
        yield f"yours is torch {ours}"
    if mine.python and mine.python not in audit.python:
        yield f"yours is Python {mine.python}"


def is_under_torch(cell: CellAnswer, ours: str) -> bool:
    """Say whether all that an answer rests on was measured under another torch: somebody's."""
    under = map(under_torch, cell.measured_in)
    return all(found and release_of(TORCH, found[1]) == release_of(TORCH, ours) for found in under)


def conclusion(audit: Audit) -> str:
    """Return the whole answer in one sentence, with the number of unknown cells."""
    cells = [cell for hit in audit.hits for cell in hit.stands]
    derived = sum(cell.level is Level.DERIVED for cell in cells)
    if cells:
        sure = f"{plural(len(cells), 'cell')}: {len(cells) - derived} measured, {derived} derived"
        intended = sum(hit.is_intended for hit in audit.hits)
        answer = f"{known_bugs(len(audit.hits) - intended, intended)} ({sure})"
    else:
        answer = "No known bugs" if audit.clear else "No evidence for these versions"
    unknown = plural(len(audit.unknown), "cell")
    measured = sum(cell.level is Level.MEASURED for cell in audit.clear)
    rest = [
        *([f"{unknown} unknown (not a pass)"] if audit.unknown else []),
        f"{len(audit.clear)} passing ({measured} measured)",
        f"{len(audit.not_applicable)} not applicable",
    ]
    names = ", ".join(sorted(audit.question.ignored))
    return f"{answer}; {', '.join(rest)}.{f' Ignored: {names}.' if names else ''}"


def judged_by(audit: Audit, terms: AuditTerms) -> Iterator[str]:
    """Yield what fails the build, and the settings."""
    if terms.fail_on:
        failing = sum(fails_build(hit, terms.fail_on) for hit in audit.hits)
        number = plural(len(audit.hits), "known bug")
        yield f"Fail the build ({', '.join(terms.fail_on)}): {failing} of {number}."
    yield from configured(terms)


def configured(terms: AuditTerms) -> Iterator[str]:
    """Yield the settings that were used, and what they leave out, or no longer do."""
    if terms.used is None:
        return
    taken = "; ".join(f"{key} {', '.join(values)}" for key, values in terms.taken.items())
    yield f"Settings: {terms.used.file}{f' ({taken})' if taken else ''}."
    for ignored in terms.used.ignored.values():
        until = f" until {ignored.until}" if ignored.until else ""
        yield f"Ignored{until}: {ignored.case} ({because(ignored)})."
    yield from expired(terms)


def expired(terms: AuditTerms) -> Iterator[str]:
    """Yield what the settings no longer leave out."""
    for key, ignored in terms.used.expired.items() if terms.used else ():
        ended = f"Ignored until {ignored.until}, and counts again: {ignored.case}"
        yield f"{ended} ({because(ignored)}); see {key}."


def because(ignored: IgnoredCase) -> str:
    """Return the reason for which a case is ignored, in one line."""
    return shorten(ignored.reason, _WIDE)


def _table(hits: Sequence[Hit], terms: AuditTerms) -> Table:
    """Return a row for each case: name, precisions, how sure, what avoids it, what it is."""
    rows = [
        (
            Reference(hit.case.name, link_of(hit.case, terms)),
            _precisions(hit.stands),
            levels_of(hit.stands),
            f"{'; '.join([*sources(hit), _brief(hit)])}{_mark(hit)}",
        )
        for hit in hits
    ]
    return Table(("case", "precisions", "level", "what avoids it"), rows)


def _brief(hit: Hit) -> str:
    newer = [f"avoided by {_newer(hit)}"] if hit.newer else []
    older = [f"avoided by {_versions(hit.older)} (older)"] if hit.older else []
    works = [f"works here: {remedy.name} ({_sure(remedy, hit)})" for remedy in hit.remedies]
    return "; ".join([*(newer or older), *works[:1]]) or "nothing measured avoids it"


def _each(audit: Audit, terms: AuditTerms) -> Iterator[Listing]:
    """Yield all that is known of each case."""
    pinned = pins_of(audit)
    for hit in audit.hits:
        block, place = hit.case.block, pinned(hit)
        met = f"can hit you with {join(block.triggers, 'or')}; you see {join(block.symptoms, 'or')}"
        rests_on = [*sources(hit), *_derivation(hit), *_changes(hit)]
        pin = [f"pinned at {place.file}:{place.line}"] if place and place.line else []
        error = Code(shorten(hit.seen.headline, _WIDE))
        cells = f": {_precisions(hit.stands)}, {levels_of(hit.stands)}{_mark(hit)}"
        lines: list[Line] = [hit.title, met, error, *pin, *rests_on, *avoiding(hit)]
        yield Listing((Reference(hit.case.name, link_of(hit.case, terms)), cells), lines)


def _mark(hit: Hit) -> str:
    kind = "" if hit.case.block.kind is CaseKind.BUG else f" ({hit.case.block.kind}, intended)"
    as_described = hit.verdict is Verdict.AS_EXPECTED
    return kind if as_described else f"{kind} (not as the case describes it)"


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


def _derivation(hit: Hit) -> Iterator[str]:
    derived = [cell for cell in hit.stands if cell.level is Level.DERIVED]
    if derived:
        low, high = derived[0].measured_in
        yield f"derived: it fails on both sides, in {low} and in {high}"
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
        for commit, precisions in _by_commit(rows).items():
            only = f", in {' '.join(precisions)}" if len(precisions) < len(hit.stands) else ""
            yield f"{word} by commit {commit.label}{only}"


def _by_commit(rows: Iterable[PinnedCommit]) -> dict[PinnedCommit, list[str]]:
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
        yield f"works here: {remedy.name} ({_sure(remedy, hit)}): {remedy.says}"
    if hit.case.block.workarounds and not hit.remedies:
        yield "none of its workarounds is known to work at these versions"


def _newer(hit: Hit) -> str:
    """Return the nearest newer versions that avoid a bug, and where it returns behind them."""
    returns = [f"returns with {_versions(hit.returns)}"] if hit.returns else []
    returns += [f"gone again from {_versions(hit.lasting)} on"] if hit.lasting else []
    note = f" ({', '.join(returns)})" if returns else ""
    return f"{_versions(hit.newer or {})}{note}"


def _versions(versions: Mapping[str, str]) -> str:
    """Return the versions that were measured together: one of them alone may not avoid a bug."""
    first, *others = (f"{name} {version}" for name, version in versions.items())
    return f"{first} with {join(others)}" if others else first


def _sure(remedy: Remedy, hit: Hit) -> str:
    """Say how sure a workaround is, and where it works if not everywhere."""
    partial = len(remedy.stands) < len(hit.stands)
    only = f", only in {_precisions(remedy.stands)}" if partial else ""
    return f"{levels_of(remedy.stands)}{only}{', disables the feature' if remedy.skips else ''}"


def _upgrades(audit: Audit) -> Iterator[Listing | Paragraph]:
    """Yield what moving to another release fixes and breaks."""
    if audit.newest is None:
        return
    if audit.nearest is not None:
        yield _upgrade("nearest newer release on which all of this passes", audit.nearest)
    else:
        yield Paragraph(["No newer release is measured to pass all of this."])
        if audit.fewest is not None and audit.fewest != audit.newest:
            yield _upgrade("nearest newer release with the fewest known bugs", audit.fewest)
    if audit.newest != audit.nearest:
        yield _upgrade("newest measured release", audit.newest)


def _upgrade(what: str, upgrade: Upgrade) -> Listing:
    companions = ", ".join(f"{name} {version}" for name, version in upgrade.packages.items())
    measured_with = f" (measured with {companions})" if companions else ""
    parts = {
        "fixes": upgrade.heals,
        "still has": upgrade.keeps,
        "breaks": upgrade.breaks,
        "adds, in features that are new": upgrade.brings,
        "fails there, unknown here": upgrade.doubts,
        "unknown whether it fixes": upgrade.loses,
    }
    lines = [
        f"{verb} {len(by_case(spots))}: {listed(spots)}" for verb, spots in parts.items() if spots
    ] or ["fixes and breaks nothing that is known"]
    if upgrade.unknown:
        lines.append(f"unknown there: {plural(len(upgrade.unknown), 'cell')}")
    return Listing(f"To transformers {upgrade.release}, the {what}{measured_with}:", lines)


def _unknown(audit: Audit, *, verbose: bool, reasons: int) -> Iterator[Listing]:
    """Yield what is unknown, by its reason; with `verbose` every cell of every reason."""
    cells: dict[str, list[Spot]] = {}
    for cell in audit.unknown:
        cells.setdefault(cell.why, []).append(Spot(cell.case, cell.precision))
    if not cells:
        return
    ordered = sorted(cells.items(), key=lambda item: -len(item[1]))
    lines = [
        f"{why}: {listed(spots, len(spots) if verbose else 2)}" for why, spots in ordered[:reasons]
    ]
    if len(ordered) > reasons:
        lines.append(f"and {plural(len(ordered) - reasons, 'more reason')}; `--verbose` lists all")
    yield Listing(f"Unknown, {plural(len(audit.unknown), 'cell')}:", lines)


# JSON: keys and values are a contract


def _data(audit: Audit, terms: AuditTerms) -> dict[str, Any]:
    """Return the answer for a program."""
    return {
        "audited": _installed(audit.installed),
        "snapshot": snapshot_of(audit),
        "measured-on": {
            "device": str(audit.question.device),
            "torch": list(audit.torch),
            "python": list(audit.python),
        },
        "precisions": list(map(str, audit.question.precisions)),
        "ignored": sorted(audit.question.ignored),
        "shared-code": dict(audit.by_shared_code),
        "settings": settings_of(terms),
        "fail-on": list(map(str, terms.fail_on)),
        "hits": [
            {**_hit(hit), "fails-build": fails_build(hit, terms.fail_on)} for hit in audit.hits
        ],
        "unknown": list(map(_cell, audit.unknown)),
        "clear": list(map(_cell, audit.clear)),
        "not-applicable": list(map(_cell, audit.not_applicable)),
        "upgrades": {
            "nearest-without-hits": _move(audit.nearest),
            "fewest-hits": _move(audit.fewest),
            "newest": _move(audit.newest),
        },
    }


def settings_of(terms: AuditTerms) -> dict[str, Any] | None:
    """Return the settings that were used, for a program."""
    used = terms.used
    if used is None:
        return None
    exceptions = {"ignored": used.ignored, "expired": used.expired}
    return {"file": used.file} | {
        word: [
            {"case": one.case, "reason": one.reason, "until": one.until and str(one.until)}
            for one in each.values()
        ]
        for word, each in exceptions.items()
    }


def _installed(mine: Installed) -> dict[str, Any]:
    return {
        "what": mine.what,
        "form": str(mine.form),
        "not-used": list(mine.passed_over),
        "transformers": mine.version(TRANSFORMERS) or None,
        "torch": mine.version(TORCH) or None,
        "python": mine.python or None,
        "whole": mine.whole,
        "addresses-without-a-name": mine.nameless,
        "read-for": {
            "python": mine.markers["python_version"],
            "platform": mine.markers["sys_platform"],
        }
        if mine.conditional
        else None,
        "also-holds": [
            {"package": other.package, "version": other.version, "marker": other.marker or None}
            for other in mine.others
            if other.package in UNDER_TEST
        ],
        "not-pinned": dict(sorted(mine.loose.items())),
        "not-installed": sorted(mine.absent),
    }


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "case": hit.case.name,
        "title": hit.title,
        "at-fault": hit.at_fault,
        "area": hit.case.block.area,
        "models": list(hit.case.block.models),
        "trigger": list(hit.case.block.triggers),
        "symptom": list(hit.case.block.symptoms),
        "reports": list(hit.case.block.reports),
        "kind": str(hit.case.block.kind),
        "verdict": str(hit.verdict),
        "by-shared-code": hit.by_shared_code,
        "error": hit.seen.failed.headline if hit.seen.failed else str(hit.seen.outcome),
        "cells": list(map(_cell, hit.stands)),
        "differs": [
            {"package": row.package, "ours": row.ours or None, "measured": list(row.measured)}
            for row in hit.differences
        ],
        "newer": dict(hit.newer) if hit.newer else None,
        "older": dict(hit.older) if hit.older else None,
        "returns": dict(hit.returns) if hit.returns else None,
        "lasting": dict(hit.lasting) if hit.lasting else None,
        "broken-by": _commits(hit.broken_by),
        "fixed-by": _commits(hit.fixed_by),
        "workarounds": [
            {
                "name": remedy.name,
                "says": remedy.says,
                "skips": remedy.skips,
                "cells": list(map(_cell, remedy.stands)),
            }
            for remedy in hit.remedies
        ],
    }


def _commits(rows: Iterable[PinnedCommit]) -> list[dict[str, Any]]:
    return [
        {
            "package": row.package,
            "commit": row.commit,
            "date": row.date,
            "title": row.title,
            "pull-request": int(row.pull_request) if row.pull_request else None,
            "precisions": precisions,
        }
        for row, precisions in _by_commit(rows).items()
    ]


def _cell(cell: CellAnswer) -> dict[str, Any]:
    return {
        "case": cell.case,
        "workaround": cell.workaround,
        "precision": str(cell.precision),
        "says": str(cell.says),
        "level": str(cell.level),
        "why": cell.why,
        "measured-in": [*cell.measured_in],
        "sources": sorted({row.source for row in cell.rests_on}),
    }


def _move(upgrade: Upgrade | None) -> dict[str, Any] | None:
    if upgrade is None:
        return None
    groups = ("heals", "keeps", "loses", "breaks", "brings", "doubts", "unknown")
    spots = {name: spot_names(getattr(upgrade, name)) for name in groups}
    return {"release": upgrade.release, "packages": dict(upgrade.packages), **spots}
