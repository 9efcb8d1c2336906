"""Options of the main job that cannot be meant, and a shard without work."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import TYPE_CHECKING, Any

import pytest
from factories import BREAKS, case, cell, provenance, seen
from fakes import LIMITS
from rich.console import Console

from repromatrix.runner.cli.matrix import MatrixOptions, _summary, measure
from repromatrix.runner.cli.progress import ProgressDisplay
from repromatrix.runner.cli.report import RenderedSite
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.run import Run, RunTally
from repromatrix.runner.model.outcomes import Device, Outcome, Precision, Verdict
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.site import judged_grid

if TYPE_CHECKING:
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.project import Project

TOY = case(BREAKS)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(("budget", text) for text in ("0s", "10", "1e3s")),
        *(("shard", text) for text in ("0/4", "5/4", "1", "\u0661/\u0664")),
    ],
)
def test_what_is_no_budget_and_no_shard_is_refused(option: str, text: str) -> None:
    given: dict[str, Any] = {option: text}
    with pytest.raises(RunnerError) as caught:
        measure(Paths(), MatrixOptions(jobs=1, **given), Console(stderr=True))

    (fault,) = caught.value.faults
    assert (fault.where, repr(text) in fault.what) == (f"--{option}", True)


@pytest.mark.parametrize(
    "given",
    [
        {"shard": "1/4", "only": "unexpected"},
        {"shard": "1/4", "python": "python3"},
        {"budget": "10m", "ray": "auto", "every": True},
        {"all_due": True, "every": True},
        {"python": "python3", "release": ["4.50.0"]},
        {"python": "python3", "ray": "auto"},
        {"sandbox": True, "ray": "auto", "every": True},
    ],
    ids=" and ".join,
)
def test_options_that_exclude_each_other_are_refused(given: dict[str, Any]) -> None:
    names = {"all_due": "--all"}
    first, second, *_ = (names.get(name, f"--{name}") for name in given)
    with pytest.raises(RunnerError, match=f"{first} cannot be combined with {second}: "):
        measure(Paths(), MatrixOptions(jobs=1, **given), Console(stderr=True))


def test_a_shard_without_environments_says_so_and_counts_as_ended() -> None:
    console = Console(record=True, stderr=True, width=200)
    options = MatrixOptions(release=["4.50.0"], shard="2/2", jobs=1)
    code = measure(Paths(), options, console)
    store = Store(Paths().store, print)
    ended = {shard for shard, _ in store.shards()}
    store.close()

    assert (code, ended) == (ExitCode.AS_EXPECTED, {"2/2"})
    assert console.export_text() == (
        "Shard 2/2 has nothing to run: there are more shards than releases.\n"
    )


def summary(checkout: Project, rows: list[Observation], toy: Case = TOY) -> list[str]:
    """Return what is printed at the end of a run of a toy, by the rows that there are then."""
    loaded = dataclasses.replace(checkout, cases={toy.name: toy})
    selection = select(SelectionRequest(), loaded.cases, loaded.names)
    terms = Terms(run="now", limits=LIMITS, device=Device.CPU, jobs=1)
    console = Console(record=True, stderr=True, width=200)
    shown = RenderedSite(rows=rows, grid=judged_grid(loaded, rows)[1])
    planned = Run(project=loaded, selection=selection, terms=terms)
    _summary(planned, shown, RunTally(), MatrixOptions(), console, 1.0)
    return console.export_text().splitlines()


def test_cells_that_no_rule_asks_for_are_counted_as_not_due(
    checkout: Project,
) -> None:
    counts, *others = summary(checkout, [], case("processes = 2\n" + BREAKS))

    assert counts.endswith("Of 231 selected cells: 104 unproven, 127 not due.")
    assert others == ["  unproven, 104: was not run (nobody has run it)"]


def test_a_case_that_expects_nothing_is_told_as_what_it_did(checkout: Project) -> None:
    toy = case()
    ran = provenance(toy, checkout.environments["4.50.0"])
    rows = [
        seen(Outcome.PASSES, cell("4.50.0", Precision.FP32), ran=ran),
        seen(Outcome.FAILS, cell("4.50.0", Precision.BF16), ran=ran),
    ]

    counts, *others = summary(checkout, rows, toy)

    assert "231 selected cells: 229 unproven, 1 passes, 1 fails." in counts
    assert "  toy_breaks bf16 on 4.50.0: fails: ValueError: it breaks" in others


def test_progress_counts_cells_and_environments_in_words() -> None:
    console = Console(record=True, stderr=True, width=200)
    for cells, until in ((1, math.inf), (2, math.inf), (2, time.monotonic() + 90)):
        display = ProgressDisplay(console, until)
        display.began(1, cells)
        display.measured(seen(), Verdict.AS_EXPECTED)

    assert [line.partition(" s")[0] for line in console.export_text().splitlines()] == [
        "  1 of 1 cell, 0 of 1 environment, 0",
        "  1 of 2 cells, 0 of 1 environment, 0",
        "  1 cell, 0 environments, 0",
    ]
