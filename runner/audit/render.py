"""The answer of `audit` in words, and for programs; what `advise` shares with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from repromatrix.runner.audit.hits import MOVES, Audit, Concern, Hit, Upgrade
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import CellAnswer, Level, Spot
from repromatrix.runner.audit.render_hits import (
    asked_names,
    brief,
    by_commit,
    each,
    is_under_torch,
)
from repromatrix.runner.audit.settings import AuditTerms, fails_build
from repromatrix.runner.audit.torches import public
from repromatrix.runner.document import Document, Listing, Paragraph, Part
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.judging.counts import known_bugs
from repromatrix.runner.model.families import squashed
from repromatrix.runner.model.packages import MOVED, TORCH, TRANSFORMERS, UNDER_TEST
from repromatrix.runner.text import first_few, join, plural, shorten

_USUAL = AuditTerms()
_FEW = 6
"""Up to so many files that were not read are named."""
_SPELLED = 3
"""Up to so many cases are shown with their errors."""
_REASONS = 3
"""So many reasons of the unknown are shown without `--verbose`."""
_WIDE = 96
_MORE = (
    "`--model` and `--feature` put first what concerns you; `--all` lists every known bug, and"
    " `--verbose` adds errors, workarounds and what is unknown."
)


# What the answers of `audit` and `advise` share


def by_case(spots: Iterable[Spot]) -> dict[str, str]:
    """Return the precisions of each case, in words."""
    precisions: dict[str, list[str]] = {}
    for spot in spots:
        precisions.setdefault(spot.case, []).append(spot.precision)
    return {name: " ".join(each) for name, each in precisions.items()}


def listed(spots: Sequence[Spot], few: int = 3) -> str:
    """Return the first few cases with their precisions, and how many more there are."""
    cases = [f"{name} ({precisions})" for name, precisions in by_case(spots).items()]
    return ", ".join(first_few(cases, few))


def evidence(answer: Audit) -> Iterator[str]:
    """Yield the snapshot that an answer rests on, and what its cells were measured on."""
    named = str(answer.snapshot or "evidence").capitalize()
    device = answer.question.device.upper()
    builds = [f"torch {version}" for version in answer.torch]
    pythons = [f"Python {version}" for version in answer.python]
    measured = f"measured on {', '.join([device, *builds, *pythons])}"
    yield f"{named}: {measured if builds or pythons else f'nothing is measured on {device}'}."


def snapshot_of(answer: Audit) -> dict[str, Any] | None:
    """Return the snapshot that an answer rests on, for a program."""
    told = answer.snapshot
    return {"name": told.name, "date": str(told.date), "age-days": told.age} if told else None


def spot_names(spots: Iterable[Spot]) -> list[str]:
    """Return `case:precision` for each."""
    return [f"{spot.case}:{spot.precision}" for spot in spots]


def spots_of(upgrade: Upgrade) -> dict[str, Any]:
    """Return what an upgrade changes, for a program."""
    return {name: spot_names(getattr(upgrade, name)) for name in (*MOVES, "unknown")}


def shared(answer: Audit) -> Iterator[str]:
    """Yield which cases are not about the models that were asked for alone."""
    models = answer.question.models
    about = {squashed(name) for case in answer.cases for name in case.block.answers_for}
    if without := sorted(model for model in models if squashed(model) not in about):
        yield f"No case is about {join(without)}; cases about any model answer."
    any_model = sum(case.block.is_about_any_model for case in answer.cases)
    if models and any_model:
        yield f"Includes {plural(any_model, 'case')} about any model."
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

    Many cases are a line each, and counted where they do not concern who asks, unless it is `full`;
    `more` says how to see them.
    """
    full = full or verbose
    setting = Paragraph([*audited(audit), *shared(audit), *judged_by(audit, terms)])
    is_brief = not full and len(audit.hits) > _SPELLED
    reasons = len(audit.unknown) if full else _REASONS
    parts: list[Part] = [
        *(brief(audit, terms, more) if is_brief else []),
        setting,
        *([] if is_brief else each(audit, terms)),
        Paragraph([*_upgrades(audit, names=not is_brief)]),
        *_unknown(audit, verbose=verbose, reasons=reasons),
    ]
    return Document(headline=conclusion(audit), parts=parts, data=_data(audit, terms))


def audited(audit: Audit) -> Iterator[str]:
    """Yield what was audited, and on what the evidence was measured."""
    mine = audit.installed
    whys = {name: f"not pinned ({why})" for name, why in mine.loose.items()}
    known = {**whys, **mine.pins}
    both = [f"{name} {known.get(name, 'not listed')}" for name in (TRANSFORMERS, TORCH)]
    yield f"{mine.what} ({mine.form}): {', '.join(both)}"
    yield from mine.notes
    if mine.passed_over:
        yield f"Not used: {join(first_few(mine.passed_over, _FEW))}."
    if mine.conditional:
        yield read_for(mine)
    if mine.nameless:
        addresses = plural(mine.nameless, "address", "addresses")
        yield f"{addresses} without a package name: packages that are not listed may be installed."
    yield from evidence(audit)


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


def _assumed(audit: Audit) -> Iterator[str]:
    """Yield the torch and the Python that are assumed in place of ours."""
    mine, ours = audit.installed, audit.installed.version(TORCH)
    answers = [*(cell for hit in audit.hits for cell in hit.stands), *audit.clear]
    own = sum(is_under_torch(cell, ours) for cell in answers) if ours else 0
    torches = dict.fromkeys(map(public, audit.torch))
    if not torches:
        return
    others = join([torch for torch in torches if torch != public(ours)])
    if not ours:
        yield f"torch {others}"
    elif own and own < len(answers):
        yield f"torch {others} for your {ours} in {len(answers) - own} of {len(answers)} answers"
    elif not own and public(ours) not in torches:
        yield f"torch {others} for your {ours}"
    if mine.python and mine.python not in audit.python:
        yield f"Python {join(audit.python)} for your {mine.python}"
    ranges = [f"{name}{mine.ranges[name]}" for name in MOVED if name in mine.ranges]
    if ranges:
        yield f"a measured version of {join(ranges)}"


def conclusion(audit: Audit) -> str:
    """Return the whole answer: what is known, how much is unknown, and what was assumed."""
    cells = [cell for hit in audit.hits for cell in hit.stands]
    derived = sum(cell.level is Level.DERIVED for cell in cells)
    if cells:
        sure = f"{plural(len(cells), 'cell')}: {len(cells) - derived} measured, {derived} derived"
        intended = sum(hit.is_intended for hit in audit.hits)
        asked = sum(hit.concern is Concern.ASKED for hit in audit.hits)
        names = asked_names(audit.question)
        about = f"{asked or 'none'} about {names}; " if names else ""
        answer = f"{known_bugs(len(audit.hits) - intended, intended)} ({about}{sure})"
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
    told = {"Assumed": "; ".join(_assumed(audit)), "Ignored": names}
    more = [f" {word}: {text}." for word, text in told.items() if text]
    return f"{answer}; {', '.join(rest)}.{''.join(more)}"


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
        yield f"Ignored{until}: {ignored.case} ({shorten(ignored.reason, _WIDE)})."
    yield from expired(terms)


def expired(terms: AuditTerms) -> Iterator[str]:
    """Yield what the settings no longer leave out."""
    for key, ignored in terms.used.expired.items() if terms.used else ():
        ended = f"Ignored until {ignored.until}, and counts again: {ignored.case}"
        yield f"{ended} ({shorten(ignored.reason, _WIDE)}); see {key}."


def _upgrades(audit: Audit, *, names: bool) -> Iterator[str]:
    """Yield what moving to other releases changes, with `names` of the first few cases."""
    fewest = None if audit.nearest else audit.fewest
    told = {"all of this passes": audit.nearest, "the fewest known bugs": fewest}
    newest = None if audit.newest in told.values() else audit.newest
    for what, upgrade in (told | {"the newest": newest}).items():
        if upgrade is not None:
            packages = [f"{name} {version}" for name, version in upgrade.packages.items()]
            beside = f" with {join(packages)}" if packages else ""
            moves = ", ".join(_moves(upgrade, names=names)) or "nothing that is known"
            yield f"To transformers {upgrade.release}{beside}, {what}: {moves}."


def _moves(upgrade: Upgrade, *, names: bool) -> Iterator[str]:
    groups = {
        "fixes": upgrade.heals,
        "keeps": upgrade.keeps,
        "breaks": upgrade.breaks,
        "adds": (*upgrade.brings, *upgrade.doubts),
        "may fix": upgrade.loses,
    }
    for verb, spots in groups.items():
        if spots:
            yield f"{verb} {len(by_case(spots))}{f' ({listed(spots)})' if names else ''}"


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
        "shared-code": audit.by_shared_code,
        "settings": settings_of(terms),
        "fail-on": list(map(str, terms.fail_on)),
        "features": sorted(audit.question.features),
        "hits": [
            {**_hit(hit), "rank": rank, "fails-build": fails_build(hit, terms.fail_on)}
            for rank, hit in enumerate(audit.hits, 1)
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
        "feature": sorted(hit.features),
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
        "fails-until": dict(hit.fails_until) if hit.fails_until else None,
        "older": dict(hit.older) if hit.older else None,
        "returns": dict(hit.returns) if hit.returns else None,
        "lasting": dict(hit.lasting) if hit.lasting else None,
        "broken-by": _commits(hit.broken_by),
        "fixed-by": _commits(hit.fixed_by),
        "workarounds": [
            {
                "name": remedy.name,
                "says": remedy.says,
                "snippet": remedy.snippet,
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
        for row, precisions in by_commit(rows).items()
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
    own = {"release": upgrade.release, "packages": dict(upgrade.packages)}
    return own | spots_of(upgrade)
