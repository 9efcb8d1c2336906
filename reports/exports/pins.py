"""What a page makes files from: a case that asks for exactly the packages of one environment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repromatrix.reports.marks import Mark, mark_of
from repromatrix.reports.text import for_variant, shortened, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell, Environment
from repromatrix.runner.model.observation import Observation

_NAME = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinned:
    """The file of the newest cell that fails: its environment, the cell, and how to run it."""

    environment: str
    cell: str
    command: str


def pinned(survey: Survey, case: Case, made_of: Mapping[str, Any] | None) -> Pinned | None:
    """Return the file for the newest cell that fails and has a lock; None where there is none."""
    cell = _failing(survey, case)
    if cell is None or made_of is None:
        return None
    name = f"{case.stem}-{cell.environment}.py"
    return Pinned(
        environment=visible(cell.environment),
        cell=visible(f"{cell.precision} on {cell.environment}{survey.on(cell.device)}"),
        command=for_variant(case.name) + shlex.join(["uv", "run", name, cell.precision.value]),
    )


def _failing(survey: Survey, case: Case) -> Cell | None:
    rows = [
        row
        for row in survey.of_case(case.name)
        if row.seen.cell.workaround == PLAIN
        and row.seen.outcome.is_failure
        and survey.by_name[row.seen.cell.environment].source.has_lock
    ]
    described = [row for row in rows if mark_of(row) is Mark.FAILS]
    chosen = described or rows
    return chosen[-1].seen.cell if chosen else None


def sources(survey: Survey, case: Case) -> dict[str, Any] | None:
    """Return what the file of every cell that was run is made from; None where none was.

    Environments come newest first; `told` are lines of comment, and those of which they are true.
    """
    told: dict[str, list[str]] = {}
    rows: dict[str, list[Observation]] = {}
    for row in survey.of_case(case.name):
        name = row.seen.cell.environment
        has_lock = survey.by_name[name].source.has_lock
        if row.seen.cell.workaround == PLAIN and row.seen.outcome.was_run and has_lock:
            rows.setdefault(name, []).append(row.seen)
    for name in reversed(rows):
        told.setdefault(_measured(rows[name]), []).append(name)
    if not rows:
        return None
    return {
        "name": case.stem,
        "where": shortened(case.where, _NAME),
        "code": case.script.code.lstrip("\n"),
        "environments": [*reversed(rows)],
        "told": [*told.items()],
    }


def pins(survey: Survey) -> dict[str, Any]:
    """Return every pin once, and of each environment that has a lock its Python and its pins."""
    locked = [one for one in survey.environments if one.source.has_lock]
    packages = {pin: None for one in locked for pin in _pins(one)}
    number = {pin: place for place, pin in enumerate(packages)}
    return {
        "packages": [*packages],
        "environments": {
            one.name: (".".join(one.python.split(".")[:2]), [number[pin] for pin in _pins(one)])
            for one in locked
        },
    }


def _measured(rows: Sequence[Observation]) -> str:
    """Return, as lines of comment, on what an environment was measured and what came out."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        ran = row.provenance
        on = row.cell.device.value, ran.torch_build, ran.python
        found.setdefault(on, []).append(f"{row.cell.precision} {row.outcome.replace('-', ' ')}")
    return "".join(
        f"# Measured there on {device}, torch {shortened(torch, _NAME)}, "
        f"Python {shortened(python, _NAME)}: {', '.join(said)}.\n"
        "# Which build of that torch is installed here, the index decides.\n"
        for (device, torch, python), said in found.items()
    )


def _pins(environment: Environment) -> list[str]:
    return [f"{name}=={pin}" for name, pin in sorted(environment.pins.items())]
