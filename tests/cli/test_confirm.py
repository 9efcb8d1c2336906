"""What `matrix` says of published results: confirmed, contradicted, or not to be compared."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, failed, provenance, seen
from fakes import LIMITS
from rich.console import Console

from repromatrix.runner.cli import confirm
from repromatrix.runner.cli.report import RenderedSite
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.run import Run, RunTally
from repromatrix.runner.model.case import Symptom
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.site import judged_grid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.project import Project

RELEASES = (
    "4.49.0",
    "4.50.0",
    "4.50.3",
    "4.51.0",
    "4.52.1",
    "4.53.0",
    "4.54.0",
    "4.55.0",
    "4.56.0",
)
TOY = case(BREAKS)
NOW = Terms(run="now", limits=LIMITS, device=Device.CPU, jobs=2)


@pytest.fixture
def loaded(checkout: Project) -> Project:
    """Return a checkout with one case on nine releases."""
    held = {name: checkout.environments[name] for name in RELEASES}
    return dataclasses.replace(checkout, cases={TOY.name: TOY}, environments=held)


@pytest.fixture
def drawn(loaded: Project) -> confirm.Confirmation:
    selection = select(SelectionRequest(), loaded.cases, loaded.names)
    return confirm.drawn(Run(project=loaded, selection=selection, terms=NOW), 7)


def row(loaded: Project, name: str, precision: Precision, **changed: object) -> Observation:
    fails = name.startswith("4.50") and precision is Precision.BF16
    ran = dataclasses.replace(provenance(TOY, loaded.environments[name]), run="now")
    at = Cell(TOY.name, "", name, precision, Device.CPU)
    found = seen(Outcome.FAILS if fails else Outcome.PASSES, at, ran=ran)
    return dataclasses.replace(found, **changed)  # type: ignore[arg-type]


def published(loaded: Project) -> list[Observation]:
    return [
        row(loaded, name, precision, source="2026-11-21")
        for name in RELEASES
        for precision in Precision
    ]


def closing(
    drawn: confirm.Confirmation, theirs: Iterable[Observation], own: Iterable[Observation]
) -> tuple[ExitCode, str]:
    loaded, own = drawn.run.project, [*own]
    rows = [*theirs, *own]
    shown = RenderedSite(rows=rows, grid=judged_grid(loaded, rows)[1])
    known, _ = current(theirs, loaded.cases, loaded.environments)
    confirmed = confirm.compared(drawn, known, rows, frozenset({"now"}))
    console = Console(record=True, stderr=True, width=200)
    tally = RunTally(measured=len(own))
    code = confirm.print_closing(confirmed, drawn.run, tally, shown, console, 720)
    text = console.export_text()
    return code, re.sub(r"[\d,]+(?= core-seconds)", "99", text)


def test_releases_that_are_visited_again_are_named_once(drawn: confirm.Confirmation) -> None:
    console = Console(record=True, stderr=True, width=200)
    confirm.print_intention(drawn, 720, console)

    assert console.export_text() == (
        "Checking a sample of it here for 12 min: 4.56.0, 4.49.0, 4.52.1, 4.50.3, 4.54.0, 4.50.0,"
        " 4.51.0, then releases drawn by seed 7. Ctrl-C ends it and keeps what was measured.\n"
    )


def test_what_agrees_is_counted_and_bounds_what_may_differ(
    loaded: Project, drawn: confirm.Confirmation
) -> None:
    own = [row(loaded, name, precision) for name in RELEASES for precision in Precision]

    code, text = closing(drawn, published(loaded), own)

    assert code is ExitCode.AS_EXPECTED
    assert text == (
        "27 cells measured in 720 s, 99 core-seconds of 2 cores.\n"
        "Of 27 cells of the table 27 were measured here, on 9 releases; the others are published"
        " results.\n"
        "27 compared with what is published: 0 contradict.\n"
        "What this bounds, with 95 % confidence (seed 7):\n"
        "  In the 9 releases visited: at most 11.73% of cells differ (0 of 24 drawn at random).\n"
        "  In all 9 plain releases: at most 77.64% of cells differ (0 of 2 releases drawn at random"
        " had one; the bound is loose, as a release counts once).\n"
        "  Not checked here: extras, pairs, stacks, `main`, other versions of torch, GPUs.\n"
    )


def test_a_contradiction_is_named_with_its_command_and_ends_with_1(
    loaded: Project, drawn: confirm.Confirmation
) -> None:
    theirs = [
        dataclasses.replace(each, outcome=Outcome.FAILS, failed=failed("KeyError", "forged"))
        if (each.cell.environment, each.cell.precision) == ("4.53.0", Precision.FP16)
        else each
        for each in published(loaded)
    ]
    own = [row(loaded, "4.53.0", Precision.FP16, repeats=3), row(loaded, "4.56.0", Precision.FP32)]
    code, text = closing(drawn, theirs, own)

    assert code is ExitCode.UNEXPECTED
    assert (
        "2 compared with what is published: 1 contradicts.\n"
        "  toy_breaks fp16 on 4.53.0: passes here (3 runs); fails: KeyError: forged in the snapshot"
        " of 2026-11-21\n"
        "    repeat it: nox -s matrix -- --case toy_breaks --release 4.53.0 --precision fp16"
        " --workaround none --rerun\n"
    ) in text


def test_what_was_measured_on_another_architecture_is_counted_and_not_compared(
    loaded: Project, drawn: confirm.Confirmation
) -> None:
    ran = provenance(TOY, loaded.environments["4.53.0"])
    abroad = dataclasses.replace(ran, hardware="aarch64 asimd", run="now")
    own = [row(loaded, "4.53.0", Precision.FP16, provenance=abroad, outcome=Outcome.PASSES)]
    code, text = closing(drawn, published(loaded), own)

    assert code is ExitCode.AS_EXPECTED
    assert (
        "1 cell cannot be compared: published on x86_64, Python 3.11, torch 2.13.0.\n"
        "0 compared with what is published: 0 contradict.\n"
    ) in text
    assert "In the 0 releases visited: nothing is known yet (0 of 0 drawn at random)." in text


def test_an_unexpected_result_of_which_nothing_is_published_ends_with_1(
    loaded: Project, drawn: confirm.Confirmation
) -> None:
    broken = row(loaded, "4.53.0", Precision.FP16, outcome=Outcome.FAILS, failed=failed())
    code, text = closing(drawn, [], [broken])

    assert code is ExitCode.UNEXPECTED
    assert "regressed: toy_breaks fp16 on 4.53.0: fails: ValueError: it breaks\n" in text


def test_silent_bugs_of_the_newest_release_are_named_before_anything_is_measured(
    loaded: Project,
) -> None:
    still = BREAKS.replace(">=4.50,<4.51", ">=4.50")
    loud, quiet = case(still, name="toy_loud"), case(still, name="toy_quiet")
    block = quiet.block.model_copy(
        update={"title": "A toy is wrong", "symptom": (Symptom.WRONG_NUMBERS,)}
    )
    quiet = dataclasses.replace(quiet, block=block)
    loaded = dataclasses.replace(loaded, cases={loud.name: loud, quiet.name: quiet})
    rows = [
        seen(
            Outcome.FAILS,
            Cell(each.name, "", "4.56.0", Precision.BF16, Device.CPU),
            ran=provenance(each, loaded.environments["4.56.0"]),
        )
        for each in (loud, quiet)
    ]
    console = Console(record=True, stderr=True, width=200)
    grid = judged_grid(loaded, rows)[1]
    confirm.print_opening(RenderedSite(rows=rows, grid=grid), loaded, console)

    assert console.export_text() == (
        "The table: reports/site/index.html (2 cells, published before)\n"
        "\n"
        "With transformers 4.56.0, 1 known bug without an error message:\n"
        "  A toy is wrong (bf16)\n"
        "Those of your versions: pip freeze | nox -s audit -- -\n"
        "\n"
    )
