"""Replay the rule of `matrix --all` and the plan of `matrix` on the published evidence.

The rule gets cases without expectations and no evidence, and learns what each round measures. A
workaround that breaks while its case passes must be measured within the range in which it breaks,
at the latest in the minor line after its start. The plan must meet a forged row in sets of which a
hundredth of the rows is forged.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

from packaging.version import Version

from checks.table import Table
from repromatrix.runner import project, site
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.judging.ranges import failing_ranges, fails
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.confirmation import visits
from repromatrix.runner.planning.plan import due
from repromatrix.runner.project import Project

VISITS = 24
SEEDS = 100
FORGED = 0.01
MEET = 99
"""Seeds of 100 that have to meet a forged row."""

Known = dict[Cell, Observation]


def check(table: Table, _options: argparse.Namespace) -> None:
    """Count what the rule would have missed, and how often the plan finds forged rows."""
    loaded = project.load(Paths())
    rows = [each for each in answers.published_rows(loaded.paths) if each.cell.device is Device.CPU]
    loaded = project.informed(loaded, rows)
    known = answering_rows(rows, loaded.cases, loaded.environments)
    on_releases = {
        cell: each
        for cell, each in known.items()
        if loaded.environments[cell.environment].source is Source.RELEASE
    }
    is_due = due(site.axes_of(loaded), known)
    number = sum(map(is_due, on_releases))
    table.row("cells of releases", len(on_releases), "cells")
    table.row("of these due", number, "cells", f"{number / len(on_releases):.1%}")
    learnt, rounds = _learnt(loaded, on_releases)
    table.row("rounds until nothing more is due, without expectations", rounds, "rounds")
    broken, late, missed = _missed(loaded, on_releases, learnt)
    what = "workarounds that break where their case passes"
    table.count(what, broken, "missed", missed, f"{late} found a minor line late, which is allowed")
    found, least = _forged(loaded, on_releases)
    note = f"{found} of {SEEDS} meet one, the least {least} cells; wanted: at least {MEET}"
    what = "too few seeds that meet a forged row"
    table.count("seeds of a plan", SEEDS, what, max(0, MEET - found), note)


def _learnt(loaded: Project, truth: Mapping[Cell, Observation]) -> tuple[Known, int]:
    """Return what is measured in the end, and after how many rounds."""
    bare = {
        name: dataclasses.replace(case, block=case.block.model_copy(update={"fails": ()}))
        for name, case in loaded.cases.items()
    }
    axes = site.axes_of(dataclasses.replace(loaded, cases=bare))
    known: Known = {}
    rounds = 0
    while True:
        is_due = due(axes, known)
        new = {cell: truth[cell] for cell in truth if cell not in known and is_due(cell)}
        if not new:
            return known, rounds
        known |= new
        rounds += 1


def _missed(
    loaded: Project, truth: Mapping[Cell, Observation], learnt: Known
) -> tuple[int, int, int]:
    """Return the cells of workarounds that break where their case passes; late, and missed."""
    columns = {name: each.column for name, each in loaded.environments.items()}
    series: dict[tuple[object, ...], dict[str, Observation]] = defaultdict(dict)
    for cell, each in truth.items():
        series[cell.case, cell.workaround, cell.precision][columns[cell.environment]] = each
    order = list(dict.fromkeys(columns[cell.environment] for cell in truth))
    order.sort(key=Version)
    lines = list(dict.fromkeys(Version(name).release[:2] for name in order))
    place = {name: lines.index(Version(name).release[:2]) for name in order}
    broken = late = missed = 0
    for (case, workaround, precision), own in series.items():
        plain = series[case, "", precision]
        for failing in failing_ranges(order, own) if workaround else ():
            cells = sum(fails(plain.get(name)) is False for name in failing.releases)
            seen = [place[name] for name in failing.releases if own[name].cell in learnt]
            behind = min(seen, default=len(lines)) - place[failing.releases[0]]
            broken += cells
            late += cells * (behind == 1)
            missed += cells * (behind > 1)
    return broken, late, missed


def _forged(loaded: Project, truth: Mapping[Cell, Observation]) -> tuple[int, int]:
    """Return how many seeds visit a forged row, and the fewest that one visits."""
    every = list(truth)
    axes = site.axes_of(loaded)
    met = []
    for seed in range(SEEDS):
        rng = random.Random(f"forged {seed}")
        forged = set(rng.sample(every, int(FORGED * len(every))))
        turns = islice(visits(axes, seed), VISITS)
        met.append(sum(cell in forged for turn in turns for cell in turn.cells))
    return sum(map(bool, met)), min(met)
