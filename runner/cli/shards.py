"""`shards`: the shards of a run, and what one of them has to run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli.options import CellOptions, Console, OnDevice, command, print_stdout
from repromatrix.runner.errors import ExitCode, Problem, refuse
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.run import Run, known_rows
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning import shards
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.planning.shards import Shard
from repromatrix.runner.project import Project
from repromatrix.runner.text import plural


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardsOptions(CellOptions):
    """The options of `shards`."""

    count: Annotated[
        int, typer.Option(min=1, max=256, help="The number of shards, each a job on GitHub.")
    ]
    device: OnDevice = Device.CPU


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What one shard has to run; `split` identifies the run that it is a shard of."""

    shard: Shard
    environments: frozenset[str]
    split: str


@command("shards")
def print_shards(paths: Paths, options: ShardsOptions, console: Console) -> ExitCode:
    """Print the shards of a run as the matrix of a GitHub Actions job, in JSON.

    It is a line; how it was balanced follows. Raises RunnerError (exit 3) where nothing is
    selected.
    """
    count = options.count
    cells = _cells(project.load(paths), options)
    if not any(cells.values()):
        problem = Problem("shards", "no applicable cell is selected")
        raise refuse(problem, ExitCode.NOTHING_SELECTED)
    numbers = {name: len(own) for name, own in cells.items()}
    split = shards.split(numbers, count)
    seconds = [sum(shards.seconds(numbers[name]) for name in names) for names in split]
    lines = [
        {
            "shard": f"{number}/{count}",
            "name": f"{number}-of-{count}",
            "environments": len(names),
            "cells": sum(numbers[name] for name in names),
            "seconds": round(seconds[number - 1]),
        }
        for number, names in enumerate(split, 1)
    ]
    print_stdout(json.dumps({"include": lines}, separators=(",", ":")) + "\n")
    console.print(
        f"{plural(sum(numbers.values()), 'cell')} in {plural(count, 'shard')}, the longest about"
        f" {max(seconds) / 60:.0f} core-minutes. Balanced by the checkout alone:"
        f" {shards.IMPORT:g} s to import and {shards.BUILD:g} s to build an environment,"
        f" {shards.CELL:g} s for a cell."
    )
    return ExitCode.AS_EXPECTED


def share(loaded: Project, request: SelectionRequest, shard: Shard) -> Share:
    """Return what a shard has to run, computed from the checkout alone, without evidence."""
    cells = _cells(loaded, request)
    names = shards.split({name: len(own) for name, own in cells.items()}, shard.count)
    every = [cell for own in cells.values() for cell in own]
    return Share(
        shard=shard,
        environments=frozenset(names[shard.number - 1]),
        split=shards.identity(every, loaded.cases, loaded.environments, shard.count),
    )


def left(planned: Run, rows: Sequence[Observation]) -> int:
    """Return how many cells of a run are still to be measured, by what is stored after it.

    What could not be built counts as tried.
    """
    known_to = project.informed(planned.project, rows)
    known = known_rows(rows, known_to)
    now = dataclasses.replace(planned, project=known_to, known=known, rerun=False)
    tried = {cell for cell, row in known.items() if row.outcome is Outcome.UNBUILDABLE}
    names = planned.selection.environments
    return sum(len({*now.due(known_to.environments[name])} - tried) for name in names)


def _cells(loaded: Project, request: SelectionRequest) -> Mapping[str, tuple[Cell, ...]]:
    selection = select(request, loaded.cases, loaded.names)
    whole = Run(
        project=loaded,
        selection=selection,
        terms=Terms(limits=loaded.matrix.limits, device=request.device),
        rerun=True,
    )
    return {
        name: whole.due(environment)
        for name, environment in loaded.environments.items()
        if name in selection.environments
    }
