"""One file to download: a case that asks for exactly the packages of a cell that fails."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.marks import Mark, mark_of
from reports.phrases import in_address, shortened, visible
from runner.model.case import PLAIN

if TYPE_CHECKING:
    from reports.survey import Survey
    from runner.model.case import Case
    from runner.model.cell import Cell, Environment


_NAME = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinned:
    """The file, from the first page, the cell that it repeats, and how."""

    path: str
    href: str
    cell: str
    command: str
    text: str


def pinned(survey: Survey, case: Case) -> Pinned | None:
    """Return the file for the newest cell that fails and has a lock; None where there is none."""
    cell = _failing(survey, case)
    if cell is None:
        return None
    name = f"{case.name}-{cell.environment}.py"
    environment = survey.by_name[cell.environment]
    return Pinned(
        path=f"download/{name}",
        href=f"download/{in_address(name)}",
        cell=visible(f"{cell.precision} on {cell.environment}{survey.on(cell.device)}"),
        command=shlex.join(["uv", "run", name, cell.precision.value]),
        text=_header(case, environment, cell) + case.script.code.lstrip("\n"),
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


def _header(case: Case, environment: Environment, cell: Cell) -> str:
    pins = (f"#   {json.dumps(f'{name}=={pin}')},\n" for name, pin in _sorted(environment))
    minor = ".".join(environment.python.split(".")[:2])
    where, held = (shortened(name, _NAME) for name in (case.where, environment.name))
    return (
        "# /// script\n"
        f'# requires-python = "=={minor}.*"\n'
        f"# dependencies = [\n{''.join(pins)}# ]\n"
        "# ///\n"
        f"# {where} of repromatrix with every pin of {held}: fails in {cell.precision}.\n"
    )


def _sorted(environment: Environment) -> list[tuple[str, str]]:
    return sorted(environment.pins.items())
