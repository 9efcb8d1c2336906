"""`shards`: what the shards of a run are, and what one of them has to do."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli.options import CellOptions, OnDevice, command, told
from repromatrix.runner.cli.stdout import say
from repromatrix.runner.errors import ExitCode, OldFault, refuse
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

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardsOptions(CellOptions):
    """The options of `shards`."""

    count: Annotated[
        int,
        typer.Option("--count", min=1, max=256, help="The number of shards, each a job on GitHub."),
    ]
    device: OnDevice = Device.CPU


@command("shards")
def print_matrix(options: ShardsOptions) -> ExitCode:
    """Print the shards of a run as the matrix of a GitHub Actions job, in JSON."""
    return print_shards(Paths(), options, options.count, told())


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What one shard has to do; `split` tells what it is a shard of."""

    shard: Shard
    environments: frozenset[str]
    split: str


def print_shards(places: Paths, wish: SelectionRequest, count: int, console: Console) -> ExitCode:
    """Print the matrix of a GitHub Actions job, a line of JSON; say how it was balanced.

    Raises RunnerError (exit 3) where nothing is selected.
    """
    cells = _cells(project.load(places), wish)
    if not any(cells.values()):
        fault = OldFault(where="shards", found="no applicable cell", allowed="at least one")
        raise refuse(fault, ExitCode.NOTHING_SELECTED)
    numbers = {name: len(own) for name, own in cells.items()}
    split = shards.split(numbers, count)
    took = [sum(shards.seconds(numbers[name]) for name in names) for names in split]
    lines = [
        {
            "shard": f"{place}/{count}",
            "name": f"{place}-of-{count}",
            "environments": len(names),
            "cells": sum(numbers[name] for name in names),
            "seconds": round(took[place - 1]),
        }
        for place, names in enumerate(split, 1)
    ]
    say(json.dumps({"include": lines}, separators=(",", ":")) + "\n")
    console.print(
        f"{sum(numbers.values())} cells in {count} shards, the longest about {max(took) / 60:.0f}"
        f" core-minutes. Balanced by the checkout alone: {shards.IMPORT:g} s to import and"
        f" {shards.BUILD:g} s to build an environment, {shards.CELL:g} s for a cell."
    )
    return ExitCode.AS_EXPECTED


def share(loaded: Project, wish: SelectionRequest, one: Shard) -> Share:
    """Return what a shard has to do, by what the checkout holds and no evidence."""
    cells = _cells(loaded, wish)
    names = shards.split({name: len(own) for name, own in cells.items()}, one.count)
    every = [cell for own in cells.values() for cell in own]
    return Share(
        shard=one,
        environments=frozenset(names[one.number - 1]),
        split=shards.identity(every, loaded.cases, loaded.environments, one.count),
    )


def left(planned: Run, rows: Sequence[Observation]) -> int:
    """Return how many cells of a run are still to be measured by what is stored after it.

    What could not be built was tried: whoever ran it decided whether that may be.
    """
    known_to = project.informed(planned.project, rows)
    known = known_rows(rows, known_to)
    now = dataclasses.replace(planned, project=known_to, known=known, rerun=False)
    tried = {cell for cell, row in known.items() if row.outcome is Outcome.UNBUILDABLE}
    names = planned.selection.environments
    return sum(len({*now.due(known_to.environments[name])} - tried) for name in names)


def _cells(loaded: Project, wish: SelectionRequest) -> Mapping[str, tuple[Cell, ...]]:
    """Return the applicable cells of each environment that were asked for."""
    selection = select(wish, loaded.cases, loaded.names)
    whole = Run(
        project=loaded,
        selection=selection,
        terms=Terms(limits=loaded.matrix.limits, device=wish.device),
        rerun=True,
    )
    environments = loaded.environments.items()
    return {name: whole.due(one) for name, one in environments if name in selection.environments}
