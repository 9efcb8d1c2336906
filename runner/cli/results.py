"""`results`: cells for programs and spreadsheets, as CSV or JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from repromatrix.reports.exports.rows import as_csv, listed
from repromatrix.runner import project, site
from repromatrix.runner.cli.options import (
    CellOptions,
    Console,
    checked,
    command,
    demand_site,
    line_printer,
    print_stdout,
)
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.commits import ends, known_commits
from repromatrix.runner.evidence.snapshot import newest
from repromatrix.runner.judging.counts import bugs_of
from repromatrix.runner.judging.ranges import axes, ranges_along
from repromatrix.runner.judging.verdicts import Judged, by_case
from repromatrix.runner.model.environment_name import under_torch
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import select, split
from repromatrix.runner.project import Project


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultsOptions(CellOptions):
    """The options of `results`."""

    only_device: Annotated[
        Device | None,
        typer.Option("--device", metavar="DEVICE", help="Only cells of this device: cpu or cuda."),
    ] = None
    format: Annotated[str, checked("Output format: csv or json.", "csv", "json")] = "csv"
    wide: Annotated[bool, "Print all columns."] = False
    ranges: Annotated[bool, "Print the version ranges in which cases fail, instead of cells."] = (
        False
    )


@command("results", collect=False)  # a hundred thousand cells are no garbage
def print_cells(paths: Paths, options: ResultsOptions, console: Console) -> ExitCode:
    """Print cells with their outcome and verdict, as CSV or JSON."""
    if options.format == "json" and not options.ranges:
        demand_site("--format")
    rows = answers.both(paths, line_printer(console, "yellow"))
    loaded, grid = site.judged_grid(project.load(paths), rows)
    if torches := [name for name in split(options.release) if under_torch(name)]:
        rows = [*answers.under_torches(paths), *rows]
        measured, under = site.judged_under_torches(loaded, rows)
        loaded, grid = project.with_torches(measured, torches), (*grid, *under)
    selection = select(options, loaded.cases, loaded.names)
    devices = Device if options.only_device is None else (options.only_device,)
    selections = {device: dataclasses.replace(selection, device=device) for device in devices}
    selected = [
        judged
        for judged in grid
        if (device := judged.seen.cell.device) in selections
        and selections[device](judged.seen.cell)
    ]
    if snapshot := newest(paths.published, options.only_device):
        line_printer(console, "dim")(f"{str(snapshot).capitalize()}.")
    if options.ranges:
        table = _ranges(selected, loaded)
    else:
        scopes = _scopes(grid, selection.cases, loaded) if options.wide else {}
        table = _cells(selected, loaded, options, scopes)
    print_stdout(table)
    return ExitCode.AS_EXPECTED


def _scopes(grid: Iterable[Judged], names: Collection[str], loaded: Project) -> dict[str, str]:
    """Return in which precisions the bugs of some cases fail, whatever else is selected."""
    found = {}
    for name, rows in by_case(row for row in grid if row.seen.cell.case in names).items():
        bugs = bugs_of(loaded.cases[name], loaded.environments, (row.seen for row in rows))
        found[name] = "; ".join(dict.fromkeys(bug.scope for bug in bugs))
    return found


def _cells(
    selected: Sequence[Judged],
    loaded: Project,
    options: ResultsOptions,
    scopes: Mapping[str, str],
) -> str:
    simulated = [name for name, case in loaded.cases.items() if case.block.simulates]
    if options.format == "csv":
        return as_csv(
            *listed(selected, loaded.names, wide=options.wide, simulated=simulated, scopes=scopes)
        )
    from repromatrix.reports.exports.rows import tabulate  # noqa: PLC0415 - pandas costs half a second

    frame = tabulate(selected, loaded.names, wide=options.wide, simulated=simulated, scopes=scopes)
    return f"{frame.to_json(orient='records', indent=1)}\n"


def _ranges(selected: Sequence[Judged], loaded: Project) -> str:
    variants: dict[tuple[str, str, str, str], dict[str, Observation]] = {}
    for judged in selected:
        cell = judged.seen.cell
        key = (cell.case, cell.workaround, cell.precision.value, cell.device.value)
        variants.setdefault(key, {})[cell.environment] = judged.seen
    commits = known_commits(loaded.paths)
    lines = ["case,workaround,precision,device,range,broken-by,fixed-by\n"]
    for key, rows in variants.items():
        cell = next(iter(rows.values())).cell
        for axis in axes(loaded.cases[cell.case], loaded.environments):
            for failing in ranges_along(axis, rows):
                changes = ends(commits, cell, axis, failing)
                named = [
                    f"{commit.package}@{commit.commit}" if commit else "" for commit in changes
                ]
                lines.append(",".join([*key, f'"{failing.text}"', *named]) + "\n")
    return "".join(lines)
