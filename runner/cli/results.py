"""`results`: cells for programs and spreadsheets, on standard output."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.reports.exports.rows import as_csv, listed
from repromatrix.runner import project, site
from repromatrix.runner.cli.options import CellOptions, command, told
from repromatrix.runner.cli.output_formats import check_format
from repromatrix.runner.cli.stdout import say
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence import answers
from repromatrix.runner.judging.axes import axes
from repromatrix.runner.judging.ranges import ranges_along
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import select
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultsOptions(CellOptions):
    """The options of `results`."""

    only_device: Annotated[
        Device | None, typer.Option("--device", help="Only cells of this device.")
    ] = None
    format: Annotated[str, typer.Option("--format", help="Output format: csv or json.")] = "csv"
    wide: Annotated[bool, typer.Option("--wide", help="Print all columns.")] = False
    ranges: Annotated[
        bool, typer.Option("--ranges", help="Print failing ranges instead of cells.")
    ] = False


@command("results")
def results(options: ResultsOptions) -> ExitCode:
    """Print cells with their outcome and verdict, as CSV or JSON."""
    gc.disable()  # a hundred thousand cells are no garbage
    return print_cells(Paths(), options, told())


def print_cells(places: Paths, printing: ResultsOptions, console: Console) -> ExitCode:
    """Print the selected cells, or the ranges in which they fail."""
    check_format(printing.format, ("csv", "json"))
    rows = answers.both(places, lambda text: console.print(text, style="yellow"))
    loaded, grid = site.judged_grid(project.load(places), rows)
    mine = _selected(grid, loaded, printing)
    say(_ranges(mine, loaded) if printing.ranges else _table(mine, loaded, printing))
    return ExitCode.AS_EXPECTED


def _selected(grid: Sequence[Judged], loaded: Project, printing: ResultsOptions) -> list[Judged]:
    chosen = select(printing, loaded.cases, loaded.names)
    devices = Device if printing.only_device is None else (printing.only_device,)
    asked = {device: dataclasses.replace(chosen, device=device) for device in devices}
    return [
        one
        for one in grid
        if (device := one.seen.cell.device) in asked and asked[device](one.seen.cell)
    ]


def _table(mine: Sequence[Judged], loaded: Project, printing: ResultsOptions) -> str:
    simulated = [name for name, case in loaded.cases.items() if case.block.simulates]
    if printing.format == "csv":
        return as_csv(*listed(mine, loaded.names, wide=printing.wide, simulated=simulated))
    from repromatrix.reports.exports.rows import tabulate  # noqa: PLC0415 - pandas costs half a second

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
