"""What one machine denies is no green of any command that answers."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from factories import cell, failed, provenance, seen
from rich.console import Console

from repromatrix.runner import project
from repromatrix.runner.cli.audit import AuditOptions, audit_packages
from repromatrix.runner.cli.results import ResultsOptions, print_cells
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.outcomes import Exercised, Outcome, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

CASE, RELEASE = "fnet_fourier_half", "4.50.0"
WISH: dict[str, Any] = {"case": [CASE], "precision": ["fp32"]}
QUIET = Console(quiet=True)


@pytest.fixture
def denied() -> Paths:
    """Return a checkout whose own machine saw a pass where another one saw a failure."""
    places = Paths()
    loaded = project.load(places, code=False)
    ran = provenance(loaded.cases[CASE], loaded.environments[RELEASE])
    where = cell(RELEASE, Precision.FP32, name=CASE)
    far = dataclasses.replace(ran, hardware="far", run="far")
    store = Store(places.store, print)
    store.put(seen(Outcome.PASSES, where, exercised=Exercised.EMPTY, ran=ran))
    store.take([seen(Outcome.FAILS, where, how=failed("KeyError", "not here"), ran=far)])
    store.close()
    return places


def test_an_audit_calls_a_denied_pass_unknown(
    denied: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(f"transformers=={RELEASE}\naccelerate==1.5.2\npeft==0.15.1\n")
    options = AuditOptions(path=str(path), **WISH, format="json", verbose=True)
    audit_packages(denied, options)
    found = json.loads(capsys.readouterr().out)

    assert (found["hits"], found["clear"]) == ([], [])
    assert [one["case"] for one in found["unknown"]] == [CASE]


def test_the_results_name_both_sides_of_a_denied_pass(
    denied: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ResultsOptions(**WISH, release=[RELEASE], workaround=["none"], wide=True)
    print_cells(denied, options, QUIET)
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))

    assert (row["verdict"], row["unstable"], row["source"]) == (
        "unproven",
        "True",
        "merged evidence",
    )
    assert row["disputed"] == (
        "fails: KeyError: not here (far, torch 2.13.0+cpu);"
        " passes (here, x86_64 avx2, torch 2.13.0+cpu)"
    )
