"""Render the answer of `audit`: text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from repromatrix.runner.audit.hits import Audit, Avoiding, Hit, Remedy
from repromatrix.runner.audit.levels import Level, Stand
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.render_spots import by_case, listed, measured_on
from repromatrix.runner.audit.upgrades import Spot, Upgrade
from repromatrix.runner.markdown import code, plain
from repromatrix.runner.model.case import CaseKind
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.model.packages import TORCH, TRANSFORMERS, UNDER_TEST
from repromatrix.runner.text import plural, printable_lines, shorten

_SCREEN = 6
"""So many cases are told with their errors; of more there is a line each."""
_WIDE = 96
"""Of these it is told which versions a file holds for other platforms."""


def text(found: Audit, *, verbose: bool = False) -> str:
    """Return the answer for a terminal; with `verbose` also every unknown cell."""
    full = verbose or len(found.hits) <= _SCREEN
    blocks = [
        [*audited(found), conclusion(found)],
        *([_block(hit) for hit in found.hits] if full else [_lines(found.hits)]),
        list(upgrades(found)),
        [*_silence(found, verbose=verbose), *([] if full else [_MORE])],
    ]
    return printable_lines("\n\n".join("\n".join(block) for block in blocks if block) + "\n")


_MORE = "`--verbose` shows the errors and workarounds; `--model` and `--precision` ask less."


def audited(found: Audit) -> Iterator[str]:
    """Yield what was audited, and on what the evidence was measured."""
    mine, question = found.installed, found.question
    version = mine.version(TRANSFORMERS) or f"not pinned ({mine.loose.get(TRANSFORMERS, '')})"
    yield f"{mine.what} ({mine.form}): transformers {version}, {_torch(found)}"
    if mine.conditional:
        yield read_for(mine)
    if mine.nameless:
        yield _nameless(mine.nameless)
    where = measured_on(question.device, found.torch, found.python)
    yield f"Evidence: {where}{''.join(f'; {one}' for one in _otherwise(found))}."


def read_for(mine: Installed) -> str:
    """Say for which platform a file was read that holds packages for several."""
    also = [
        f"{one.package} {one.version}{f' for {shorten(one.marker, _WIDE)}' if one.marker else ''}"
        for one in mine.others
        if one.package in UNDER_TEST
    ]
    held = f"; it also holds {', '.join(also)}" if also else ""
    markers = mine.markers
    return f"Read for Python {markers['python_version']} on {markers['sys_platform']}{held}."


def _nameless(number: int) -> str:
    said = "1 address names" if number == 1 else f"{number} addresses name"
    return f"{said} no package: what is not named may be installed all the same."


def _otherwise(found: Audit) -> Iterator[str]:
    """Yield what is another torch or Python than that of the evidence."""
    mine = found.installed
    if not found.torch:
        return
    if not mine.version(TORCH):
        yield "which torch yours is, is not known"
    elif mine.version(TORCH) not in found.torch:
        yield f"yours is torch {mine.version(TORCH)}"
    if mine.python and mine.python not in found.python:
        yield f"yours is Python {mine.python}"


def _torch(found: Audit) -> str:
    mine = found.installed
    if mine.version(TORCH):
        return f"torch {mine.version(TORCH)}"
    return f"torch not pinned ({mine.loose[TORCH]})" if TORCH in mine.loose else "torch not named"


def conclusion(found: Audit) -> str:
    """Return the whole answer in one sentence; what is unknown is counted in it."""
    cleared = sum(one.level is Level.MEASURED for one in found.clear)
    unknown = f"{plural(len(found.unknown), 'cell')} unknown, which is no pass"
    rest = [
        *([unknown] if found.unknown else []),
        f"{len(found.clear)} passing ({cleared} measured)",
        f"{len(found.not_applicable)} not applicable",
    ]
    ignored = sorted(found.question.ignored)
    told = f" Ignored: {', '.join(ignored)}." if ignored else ""
    return f"{_verdict(found)}; {', '.join(rest)}.{told}"


def _verdict(found: Audit) -> str:
    cells = [one for hit in found.hits for one in hit.stands]
    if not cells:
        return "No known bug hits" if found.clear else "Nothing is known of these versions"
    derived = sum(one.level is Level.DERIVED for one in cells)
    verb = "hits" if len(found.hits) == 1 else "hit"
    sure = f"{plural(len(cells), 'cell')}: {len(cells) - derived} measured, {derived} derived"
    return f"{plural(len(found.hits), 'case')} {verb} ({sure})"


def _lines(hits: Sequence[Hit]) -> list[str]:
    """Return a line for each case: name, precisions, how sure, what avoids it, what it is."""
    names = max(len(hit.case.name) for hit in hits)
    levels = max(len(_levels(hit)) for hit in hits)
    return [
        f"  {hit.case.name:<{names}}  {_precisions(hit.stands):<14}  {_levels(hit):<{levels}}"
        f"  {_brief(hit)}{_mark(hit)}"
        for hit in hits
    ]


def _brief(hit: Hit) -> str:
    newer = [f"avoided by {_versions(hit.newer)}"] if hit.newer else []
    older = [f"avoided by {_versions(hit.older)} (older)"] if hit.older else []
    works = [f"works here: {one.name} ({_sure(one, hit)})" for one in hit.remedies if not one.skips]
    return "; ".join([*(newer or older), *works[:1]]) or "nothing measured avoids it"


def _block(hit: Hit) -> list[str]:
    name = f"{hit.case.name}  {_precisions(hit.stands)}  {_levels(hit)}{_mark(hit)}"
    lines = [
        hit.case.block.title,
        shorten(hit.seen.headline, _WIDE),
        *_grounds(hit),
        *avoiding(hit),
    ]
    return [name, *(f"  {line}" for line in lines)]


def _mark(hit: Hit) -> str:
    kind = "" if hit.case.block.kind is CaseKind.BUG else f"  ({hit.case.block.kind}, intended)"
    other = "" if hit.verdict is Verdict.AS_EXPECTED else "  (not as the case describes it)"
    return kind + other


def _precisions(stands: Sequence[Stand]) -> str:
    return " ".join(one.precision for one in stands)


def _levels(hit: Hit) -> str:
    return "/".join(dict.fromkeys(str(one.level) for one in hit.stands))


def _grounds(hit: Hit) -> Iterator[str]:
    """Say where a derived answer comes from, and what else stands otherwise there."""
    derived = [one for one in hit.stands if one.level is Level.DERIVED]
    if derived:
        low, high = (row.cell.environment for row in derived[0].rests_on)
        yield f"derived: it fails on both sides, in {low} and in {high}"
    others = [
        f"{one.package} {one.ours or '(not named)'}, measured with {' and '.join(one.measured)}"
        for one in hit.differences
        if one.package not in {TORCH, TRANSFORMERS}
    ]
    if others:
        yield f"differs: {'; '.join(others)}"


def avoiding(hit: Hit) -> Iterator[str]:
    """Yield what was measured to avoid a case: versions, then workarounds."""
    sides = [("newer", hit.newer), ("older", hit.older)]
    versions = [f"{side}: {_versions(one)}" for side, one in sides if one is not None]
    yield f"avoided by {'; '.join(versions)}" if versions else "no measured version avoids it"
    for remedy in hit.remedies:
        yield f"works here: {_remedy(remedy, hit)}"
    if hit.case.block.workarounds and not hit.remedies:
        yield "none of its workarounds is known to work at these versions"


def _versions(one: Avoiding) -> str:
    return ", ".join(f"{name} {version}" for name, version in one.changes.items())


def _remedy(remedy: Remedy, hit: Hit) -> str:
    return f"{remedy.name} ({_sure(remedy, hit)}): {remedy.says}"


def _sure(remedy: Remedy, hit: Hit) -> str:
    """Say how sure a workaround is, and where alone it works."""
    level = "/".join(dict.fromkeys(str(one.level) for one in remedy.stands))
    only = (
        f", in {_precisions(remedy.stands)} alone" if len(remedy.stands) < len(hit.stands) else ""
    )
    avoids = ", only by not doing the thing" if remedy.skips else ""
    return f"{level}{only}{avoids}"


def upgrades(found: Audit) -> Iterator[str]:
    """Yield what moving to another release heals and breaks."""
    if found.newest is None:
        return
    if found.nearest is not None:
        yield from _upgrade("nearest newer release on which all of this passes", found.nearest)
    else:
        yield "No newer release is measured to pass all of this."
        if found.fewest is not None and found.fewest != found.newest:
            yield from _upgrade("nearest newer release with the fewest known bugs", found.fewest)
    if found.newest != found.nearest:
        yield from _upgrade("newest measured release", found.newest)


def _upgrade(what: str, one: Upgrade) -> Iterator[str]:
    packages = ", ".join(f"{name} {version}" for name, version in one.packages.items())
    beside = f" (measured with {packages})" if packages else ""
    yield f"To transformers {one.release}, the {what}{beside}:"
    parts = {
        "heals": one.heals,
        "keeps": one.keeps,
        "breaks": one.breaks,
        "brings, with what only it has": one.brings,
        "fails there, unknown here": one.doubts,
        "cannot say whether it heals": one.loses,
    }
    for verb, spots in parts.items():
        if spots:
            yield f"  {verb} {len(by_case(spots))}: {listed(spots)}"
    if not any(parts.values()):
        yield "  heals nothing and breaks nothing that is known"
    if one.unknown:
        yield f"  unknown there: {plural(len(one.unknown), 'cell')}"


_REASONS = 3
"""So many reasons of the unknown are told on a screen."""


def _silence(found: Audit, *, verbose: bool, reasons: int = _REASONS) -> Iterator[str]:
    """Yield what is unknown, by its reason: with `verbose` every cell of every one."""
    cells: dict[str, list[Spot]] = {}
    for one in found.unknown:
        cells.setdefault(one.why, []).append(Spot(one.case, one.precision))
    if not cells:
        return
    yield f"Unknown, {plural(len(found.unknown), 'cell')}:"
    ordered = sorted(cells.items(), key=lambda item: -len(item[1]))
    for why, spots in ordered if verbose else ordered[:reasons]:
        yield f"  {why}: {listed(spots, len(spots) if verbose else 2)}"
    if not verbose and len(ordered) > reasons:
        yield f"  and {plural(len(ordered) - reasons, 'more reason')}; `--verbose` lists all"


def markdown(found: Audit) -> str:
    """Return the answer to paste."""
    table = ["| case | precisions | level | error | avoided by | works here |", "| --- " * 6 + "|"]
    blocks = [
        "\n".join([f"**{plain(conclusion(found))}**", "", "  \n".join(map(plain, audited(found)))]),
        *(["\n".join([*table, *map(_row, found.hits)])] if found.hits else []),
        "\n".join(map(_item, upgrades(found))),
        "\n".join(map(_item, _silence(found, verbose=False, reasons=len(found.unknown)))),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _item(line: str) -> str:
    """Return a line of a list, as deep as it stands in the text."""
    said = line.lstrip()
    return f"{line[: len(line) - len(said)]}- {plain(said)}"


def _row(hit: Hit) -> str:
    error = code(shorten(hit.seen.headline, _WIDE))
    versions = [_versions(one) for one in (hit.newer, hit.older) if one is not None]
    works = [f"{one.name} ({_sure(one, hit)})" for one in hit.remedies]
    cells = (
        f"`{hit.case.name}`: {plain(hit.case.block.title)}{_mark(hit)}",
        _precisions(hit.stands),
        _levels(hit),
        error,
        " or ".join(versions) or "nothing measured",
        ", ".join(works) or "nothing known",
    )
    return f"| {' | '.join(cells)} |"


def as_json(found: Audit) -> str:
    """Return the answer for a program."""
    return json.dumps(_object(found), indent=1, ensure_ascii=False) + "\n"


def _object(found: Audit) -> dict[str, Any]:
    mine = found.installed
    return {
        "audited": {
            "what": mine.what,
            "form": str(mine.form),
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
                {"package": one.package, "version": one.version, "marker": one.marker or None}
                for one in mine.others
                if one.package in UNDER_TEST
            ],
            "not-pinned": {name: mine.loose[name] for name in sorted(mine.loose)},
        },
        "measured-on": {
            "device": str(found.question.device),
            "torch": list(found.torch),
            "python": list(found.python),
        },
        "precisions": [str(one) for one in found.question.precisions],
        "ignored": sorted(found.question.ignored),
        "hits": [_hit(hit) for hit in found.hits],
        "unknown": [_stand(one) for one in found.unknown],
        "clear": [_stand(one) for one in found.clear],
        "not-applicable": [_stand(one) for one in found.not_applicable],
        "upgrades": {
            "nearest-without-hits": _move(found.nearest),
            "fewest-hits": _move(found.fewest),
            "newest": _move(found.newest),
        },
    }


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "case": hit.case.name,
        "title": hit.case.block.title,
        "area": hit.case.block.area,
        "models": list(hit.case.block.models),
        "reports": list(hit.case.block.reports),
        "kind": str(hit.case.block.kind),
        "verdict": str(hit.verdict),
        "error": hit.seen.failed.headline if hit.seen.failed else str(hit.seen.outcome),
        "cells": [_stand(one) for one in hit.stands],
        "differs": [
            {"package": one.package, "ours": one.ours or None, "measured": list(one.measured)}
            for one in hit.differences
        ],
        "newer": dict(hit.newer.changes) if hit.newer else None,
        "older": dict(hit.older.changes) if hit.older else None,
        "workarounds": [
            {
                "name": one.name,
                "says": one.says,
                "skips": one.skips,
                "cells": [_stand(stand) for stand in one.stands],
            }
            for one in hit.remedies
        ],
    }


def _stand(one: Stand) -> dict[str, Any]:
    return {
        "case": one.case,
        "workaround": one.workaround,
        "precision": str(one.precision),
        "says": str(one.says),
        "level": str(one.level),
        "why": one.why,
        "measured-in": [row.cell.environment for row in one.rests_on],
        "sources": sorted({row.source for row in one.rests_on}),
    }


def _move(one: Upgrade | None) -> dict[str, Any] | None:
    if one is None:
        return None
    groups = ("heals", "keeps", "loses", "breaks", "brings", "doubts", "unknown")
    spots = {
        name: [f"{spot.case}:{spot.precision}" for spot in getattr(one, name)] for name in groups
    }
    return {"release": one.release, "packages": dict(one.packages), **spots}
