"""Two sets of evidence compared, to paste and for programs. No path of this machine is in it."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from runner.judging.difference import Change
from runner.telling import sets
from runner.telling.escaping import code, plain
from runner.telling.pasted import number, side
from runner.telling.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.judging.sets import Met
    from runner.telling.sets import Compared, Section


def markdown(answer: Compared) -> str:
    """Return the page as Markdown."""
    first, *rest = map(plain, sets.headline(answer))
    lines = [f"**{first}**", "", *(f"{line}  " for line in rest)]
    for section in sets.sections(answer):
        lines.extend(_section(answer, section))
    lines.extend(_moved(answer))
    return "\n".join([*lines, ""])


def _section(answer: Compared, section: Section) -> Iterator[str]:
    yield from ("", f"### {section.heading}", "")
    yield from ("| case | cells | before | after | note |", "| --- | --- | --- | --- | --- |")
    for name, groups in section.groups.items():
        title = f"{code(printable(name))}: {plain(sets.titled(answer, name))}"
        for group in groups:
            said = map(code, (group.cells(answer.environments), group.before, group.after))
            yield f"| {' | '.join([title, *said, plain(group.grounds)])} |"
    commands = [answer.again(group.met[0]) for those in section.groups.values() for group in those]
    if any(commands):
        yield from ("", "```sh", *filter(None, commands), "```")


def _moved(answer: Compared) -> Iterator[str]:
    found = list(sets.moved(answer))
    if found:
        yield from ("", "### Moved: passes on both sides, a measured number is another", "")
        yield from ("| cell | number | before | after |", "| --- | --- | --- | --- |")
    for cell, name, one, other in found:
        yield f"| {' | '.join(map(code, (cell, name, f'{one:.3g}', f'{other:.3g}')))} |"


def as_json(answer: Compared) -> str:
    """Return the comparison for programs: every cell but those that are the same and comparable."""
    told: dict[str, Any] = {
        "before": answer.before,
        "after": answer.after,
        "headline": list(sets.headline(answer)),
        "counts": _counts(answer.alike),
        "not-the-same-cells": _counts(answer.others),
        "cells": [{**_met(met), "again": answer.again(met)} for met in answer.met if _is_told(met)],
    }
    return json.dumps(told, indent=1) + "\n"


def _is_told(met: Met) -> bool:
    return met.change is not Change.SAME or not met.is_comparable or bool(met.moved)


def _counts(found: Iterable[Met]) -> dict[str, int]:
    counts = Counter(met.change for met in found)
    return {str(change): counts[change] for change in Change}


def _met(met: Met) -> dict[str, Any]:
    return {
        "case": met.cell.case,
        "workaround": met.cell.workaround,
        "environment": met.cell.environment,
        "precision": str(met.cell.precision),
        "device": str(met.cell.device),
        "change": str(met.change),
        "comparable": met.is_comparable,
        "grounds": [str(ground) for ground in met.grounds],
        "before": side(met.before),
        "after": side(met.after),
        "moved": {one.name: [number(one.before), number(one.after)] for one in met.moved},
    }
