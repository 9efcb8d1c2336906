"""Options of the main job that cannot be meant, and a shard without work."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from factories import BREAKS, case, provenance, seen
from fakes import LIMITS
from rich.console import Console

from repromatrix.runner.cli.matrix import MatrixOptions, _print_overruled, measure
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.run import Run
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.site import judged_grid

if TYPE_CHECKING:
    from repromatrix.runner.project import Project


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(
            ("budget", text)
            for text in ("0", "0s", "-1m", "nonsense", "10", "1e3s", "inf", "5d", " ")
        ),
        *(
            ("shard", text)
            for text in (
                *("0/4", "5/4", "x/y", "1", "1/0", "-1/4", "1/4/4", "1.0/4"),
                "\u0661/\u0664",
            )
        ),
    ],
)
def test_what_is_no_budget_and_no_shard_is_refused(option: str, text: str) -> None:
    given: dict[str, Any] = {option: text}
    with pytest.raises(RunnerError) as caught:
        measure(Paths(), MatrixOptions(jobs=1, **given), Console(stderr=True))

    (fault,) = caught.value.faults
    assert (fault.where, repr(text) in fault.what) == (f"--{option}", True)


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


def test_what_ran_out_of_memory_here_is_told_where_published_evidence_answers(
    checkout: Project,
) -> None:
    toy, terms = case(BREAKS), Terms(run="now", limits=LIMITS, device=Device.CPU, jobs=1)
    ran = provenance(toy, checkout.environments["4.50.0"])
    published = dataclasses.replace(seen(ran=ran), source="2026-11-21")
    here = seen(Outcome.OUT_OF_MEMORY, ran=dataclasses.replace(ran, run="now"))
    loaded = dataclasses.replace(checkout, cases={toy.name: toy})
    planned = Run(
        project=loaded,
        selection=select(SelectionRequest(), loaded.cases, loaded.names),
        terms=terms,
        known={},
    )
    rows = [published, here]
    _, grid = judged_grid(loaded, rows)
    console = Console(record=True, stderr=True, width=200)
    _print_overruled(planned, grid, rows, console)
    _print_overruled(planned, judged_grid(loaded, [here])[1], [here], console)

    assert console.export_text() == (
        "1 cell ran out of memory here; the published result counts.\n"
    )
