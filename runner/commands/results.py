"""`results`: cells for programs and spreadsheets, on standard output."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.listing import as_csv, listed
from runner import project, rendering
from runner.commands.formats import check_format
from runner.errors import ExitCode
from runner.evidence import reading
from runner.judging.axes import axes
from runner.judging.ranges import ranges_along
from runner.model.outcomes import Device
from runner.planning.selection import select
from runner.terminal.speaking import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from runner.judging.verdicts import Judged
    from runner.model.observation import Observation
    from runner.places import Places
    from runner.planning.selection import Wish
    from runner.project import Project


@dataclass(frozen=True, kw_only=True, slots=True)
class Printing:
    """The options of `results` as they were typed."""

    wish: Wish
    device: Device | None
    format: str
    wide: bool
    ranges: bool


def print_cells(places: Places, printing: Printing, console: Console) -> ExitCode:
    """Print the selected cells, or the ranges in which they fail."""
    check_format(printing.format, ("csv", "json"))
    rows = reading.both(places, lambda text: console.print(text, style="yellow"))
    loaded, grid = rendering.judged_grid(project.load(places), rows)
    mine = _selected(grid, loaded, printing)
    say(_ranges(mine, loaded) if printing.ranges else _table(mine, loaded, printing))
    return ExitCode.AS_EXPECTED


def _selected(grid: Sequence[Judged], loaded: Project, printing: Printing) -> list[Judged]:
    chosen = select(printing.wish, loaded.cases, loaded.names)
    devices = Device if printing.device is None else (printing.device,)
    asked = {device: dataclasses.replace(chosen, device=device) for device in devices}
    return [
        one
        for one in grid
        if (device := one.seen.cell.device) in asked and asked[device](one.seen.cell)
    ]


def _table(mine: Sequence[Judged], loaded: Project, printing: Printing) -> str:
    simulated = [name for name, case in loaded.cases.items() if case.block.simulates]
    if printing.format == "csv":
        return as_csv(*listed(mine, loaded.names, wide=printing.wide, simulated=simulated))
    from reports.tables import tabulate  # noqa: PLC0415 - pandas costs half a second

    frame = tabulate(mine, loaded.names, wide=printing.wide, simulated=simulated)
    return f"{frame.to_json(orient='records', indent=1)}\n"


def _ranges(mine: Sequence[Judged], loaded: Project) -> str:
    lines = ["case,workaround,precision,device,range\n"]
    lines.extend(_range_lines(mine, loaded))
    return "".join(lines)


def _range_lines(mine: Sequence[Judged], loaded: Project) -> Iterator[str]:
    variants: dict[tuple[str, str, str, str], dict[str, Observation]] = {}
    for one in mine:
        cell = one.seen.cell
        key = (cell.case, cell.workaround, cell.precision.value, cell.device.value)
        variants.setdefault(key, {})[cell.environment] = one.seen
    for key, seen in variants.items():
        for axis in axes(loaded.cases[key[0]], loaded.environments):
            for found in ranges_along(axis, seen):
                yield ",".join([*key, f'"{found.text}"']) + "\n"
