"""The answer of `audit` for programs: JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runner.answering.levels import TORCH, TRANSFORMERS
from runner.telling.audit import TOLD

if TYPE_CHECKING:
    from runner.answering.audit import Audit, Hit
    from runner.answering.levels import Stand
    from runner.answering.upgrading import Upgrade


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
                if one.package in TOLD
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
