"""A comparison to paste into a pull request, and for programs. No path of this machine is in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runner.telling.difference import HEADINGS, grouped, headline
from runner.telling.escaping import code, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.judging.difference import Change, Pair
    from runner.model.observation import Observation
    from runner.telling.difference import Answer


def markdown(answer: Answer) -> str:
    """Return the page as Markdown."""
    first, *rest = map(plain, headline(answer))
    lines = [f"**{first}**", "", *(f"{line}  " for line in rest)]
    for change in HEADINGS:
        lines.extend(_section(answer, change))
    lines.extend(_moved(answer))
    return "\n".join([*lines, ""])


def _section(answer: Answer, change: Change) -> Iterator[str]:
    groups = grouped(answer, change)
    if not groups:
        return
    yield from ("", f"### {HEADINGS[change]}", "")
    yield from ("| case | cells | before | after |", "| --- | --- | --- | --- |")
    for name, found in groups.items():
        title = f"{code(name)}: {plain(answer.cases[name].block.title)}"
        for group in found:
            said = map(code, (group.cells, group.before, group.after))
            yield f"| {' | '.join([title, *said])} |"
    yield from ("", "```sh")
    for found in groups.values():
        yield from (answer.again(group.pairs[0]) for group in found)
    yield "```"


def _moved(answer: Answer) -> Iterator[str]:
    if not answer.moved:
        return
    yield from ("", "### Moved: passes on both sides, a measured number is another", "")
    yield from ("| case | cell | number | before | after |", "| --- | --- | --- | --- | --- |")
    for pair in answer.moved:
        variant = f"{pair.key.workaround or 'plain'} {pair.key.precision}"
        for one in pair.moved:
            said = (pair.key.case, variant, one.name, f"{one.before:.3g}", f"{one.after:.3g}")
            yield f"| {' | '.join(map(code, said))} |"


def as_json(answer: Answer) -> str:
    """Return the comparison for programs: every cell, also those that are the same."""
    told: dict[str, Any] = {
        "before": answer.before,
        "after": answer.after,
        "headline": list(headline(answer)),
        "counts": {str(change): number for change, number in answer.counts.items()},
        "cells": [{**_pair(pair), "again": answer.again(pair)} for pair in answer.pairs],
    }
    return json.dumps(told, indent=1) + "\n"


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "case": pair.key.case,
        "workaround": pair.key.workaround,
        "precision": str(pair.key.precision),
        "device": str(pair.key.device),
        "change": str(pair.change),
        "before": side(pair.before),
        "after": side(pair.after),
        "moved": {one.name: [number(one.before), number(one.after)] for one in pair.moved},
    }


def number(value: float) -> float | str:
    """Return a number as JSON has it; it has neither infinity nor what is no number."""
    return value if abs(value) < float("inf") else str(value)


def side(seen: Observation | None) -> dict[str, Any] | None:
    """Return what a side says of a cell, for programs."""
    if seen is None:
        return None
    return {
        "environment": seen.cell.environment,
        "outcome": str(seen.outcome),
        "error": seen.failed.headline if seen.failed else "",
        "reason": seen.reason,
        "unstable": seen.unstable,
        "source": seen.source,
        "packages": dict(seen.provenance.packages),
    }
