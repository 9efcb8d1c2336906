"""Render the answer of `audit` for CI: SARIF for code scanning, workflow commands of GitHub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from repromatrix.runner.audit.hits import Audit, Hit, Remedy
from repromatrix.runner.audit.lines import PinPlace
from repromatrix.runner.audit.render import conclusion, evidence, expired, snapshot_of
from repromatrix.runner.audit.render_hits import avoiding, levels_of, link_of, pins_of, sources
from repromatrix.runner.audit.settings import AuditTerms, fails_build
from repromatrix.runner.model.case import Case
from repromatrix.runner.text import first_sentence, join, plural, printable_lines, shorten

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
_ANNOTATIONS = 10
"""So many errors, and so many warnings, of one step does GitHub show."""
_WIDE = 200


def _message(hit: Hit, terms: AuditTerms) -> str:
    link = link_of(hit.case, terms)
    lines = [
        hit.title,
        shorten(hit.seen.headline, _WIDE),
        *sources(hit),
        *avoiding(hit),
        *([link] if link else []),
    ]
    return printable_lines("\n".join(lines))


def _cells(hit: Hit) -> str:
    return f"{', '.join(cell.precision for cell in hit.stands)}, {levels_of(hit.stands)}"


# Workflow commands of GitHub


def github(audit: Audit, terms: AuditTerms) -> str:
    """Return an annotation per known bug on the line of the lock, and the conclusion.

    What fails the build is an error, the rest a warning. Where GitHub would leave some out, the
    last one of its kind names them all.
    """
    errors = [hit for hit in audit.hits if fails_build(hit, terms.fail_on)]
    warnings = [hit for hit in audit.hits if hit not in errors]
    pinned = pins_of(audit)
    lines = [
        *_annotations("error", errors, pinned, terms),
        *_annotations("warning", warnings, pinned, terms),
        *(workflow_command("notice", text, "Settings") for text in expired(terms)),
        printable_lines(conclusion(audit)),
        *evidence(audit),
    ]
    return "\n".join(lines) + "\n"


def _annotations(
    level: str, hits: Sequence[Hit], pinned: Callable[[str], PinPlace | None], terms: AuditTerms
) -> Iterator[str]:
    shown = hits if len(hits) <= _ANNOTATIONS else hits[: _ANNOTATIONS - 1]
    for hit in shown:
        title = f"{hit.case.name} ({_cells(hit)})"
        yield workflow_command(level, _message(hit, terms), title, pinned(hit.at_fault))
    rest = hits[len(shown) :]
    if rest:
        title = plural(len(rest), "more known bug")
        names = "\n".join(f"{hit.case.name} ({_cells(hit)})" for hit in rest)
        yield workflow_command(level, names, title, pinned(rest[0].at_fault))


def workflow_command(level: str, message: str, title: str, place: PinPlace | None = None) -> str:
    """Return the line by which a step annotates a line of a file, with everything escaped."""
    named = {"file": place.file, "line": str(place.line or 1)} if place else {}
    properties = ",".join(
        f"{key}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}"
        for key, value in {**named, "title": title}.items()
    )
    return f"::{level} {properties}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


# SARIF: https://docs.oasis-open.org/sarif/sarif/v2.1.0/


def sarif(audit: Audit, terms: AuditTerms) -> str:
    """Return a log of SARIF 2.1.0: a rule for each case that fails, a result for each failure."""
    driver: dict[str, Any] = {
        "name": "repromatrix",
        "rules": [_rule(hit.case, terms, hit.remedies) for hit in audit.hits],
    }
    pinned = pins_of(audit)
    results = [
        _result(number, hit, pinned(hit.at_fault), audit.installed.what, terms)
        for number, hit in enumerate(audit.hits)
    ]
    notes = [{"level": "note", "message": {"text": text}} for text in expired(terms)]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolConfigurationNotifications": notes}],
        "results": results,
        "columnKind": "unicodeCodePoints",
        **({"properties": {"snapshot": told}} if (told := snapshot_of(audit)) else {}),
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=False) + "\n"


def _rule(case: Case, terms: AuditTerms, remedies: Sequence[Remedy] = ()) -> dict[str, Any]:
    block, link = case.block, link_of(case, terms)
    met = f"It can hit you with {join(block.triggers, 'or')}; you see {join(block.symptoms, 'or')}."
    what = case.docstring or block.title
    listed = {
        "Workarounds": [f"{remedy.name}: {remedy.says}" for remedy in remedies],
        "Reports": block.reports,
    }
    lists = [
        "\n".join([f"{word}:", *(f"- {line}" for line in lines)])
        for word, lines in listed.items()
        if lines
    ]
    # An area may have the name of a trigger, and SARIF has each tag once.
    tags = dict.fromkeys([block.area, *map(str, block.triggers), *map(str, block.symptoms)])
    help_text = "\n\n".join([what, met, *lists])
    return {
        "id": case.name,
        "shortDescription": {"text": block.title},
        "fullDescription": {"text": first_sentence(what)[0]},
        "help": {"text": help_text, "markdown": help_text},
        **({"helpUri": link} if link else {}),
        "properties": {"tags": [*tags], "kind": str(block.kind)},
    }


def _result(
    number: int, hit: Hit, place: PinPlace | None, what: str, terms: AuditTerms
) -> dict[str, Any]:
    identity = f"{hit.case.name}\0{place.file if place else ''}"
    return {
        "ruleId": hit.case.name,
        "ruleIndex": number,
        "level": "error" if fails_build(hit, terms.fail_on) else "warning",
        "message": {"text": f"{hit.case.name} ({_cells(hit)}): {_message(hit, terms)}"},
        "locations": [_location(place, what)],
        # The same bug stays the same alert where the lock moves, or its version.
        "partialFingerprints": {
            "primaryLocationLineHash": hashlib.sha256(identity.encode()).hexdigest()[:32]
        },
        "properties": {
            "cells": {str(cell.precision): str(cell.level) for cell in hit.stands},
            "verdict": str(hit.verdict),
            "rank": number + 1,
            "feature": sorted(hit.features),
        },
    }


def _location(place: PinPlace | None, what: str) -> dict[str, Any]:
    if place is None:
        return {"logicalLocations": [{"fullyQualifiedName": what}]}
    path = Path(place.file)
    is_inside = not path.is_absolute()
    where = {"uri": quote(place.file), "uriBaseId": _ROOT} if is_inside else {"uri": path.as_uri()}
    region = {"startLine": place.line or 1}
    return {"physicalLocation": {"artifactLocation": where, "region": region}}
