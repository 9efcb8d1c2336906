"""What one machine denies is no green of any command that answers."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import TYPE_CHECKING

import pytest
from factories import cell, failed, provenance, seen
from rich.console import Console

from runner import project
from runner.commands.audit import Options, audit_packages
from runner.commands.results import Printing, print_cells
from runner.evidence.store import Store
from runner.model.outcomes import Outcome, Precision
from runner.places import Places
from runner.planning.selection import Wish

if TYPE_CHECKING:
    from pathlib import Path

CASE, RELEASE = "fnet_fourier_half", "4.50.0"
WISH = Wish(case=[CASE], precision=["fp32"])
QUIET = Console(quiet=True)


@pytest.fixture
def denied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Places:
    """Return a checkout whose own machine saw a pass where another one saw a failure."""
    monkeypatch.setenv("REPROMATRIX_STORE", str(tmp_path / "evidence.sqlite"))
    places = Places()
    loaded = project.load(places, code=False)
    ran = provenance(loaded.cases[CASE], loaded.environments[RELEASE])
    where = cell(RELEASE, Precision.FP32, name=CASE)
    far = dataclasses.replace(ran, hardware="far", run="far")
    store = Store(places.store, print)
    store.put(seen(Outcome.PASSES, where, ran=ran))
    store.take([seen(Outcome.FAILS, where, how=failed("KeyError", "not here"), ran=far)])
    store.close()
    return places


def test_an_audit_calls_a_denied_pass_unknown(
    denied: Places, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(f"transformers=={RELEASE}\naccelerate==1.5.2\npeft==0.15.1\n")
    options = Options(path=str(path), wish=WISH, ignore=[], format="json", verbose=True)
    audit_packages(denied, options, lambda: QUIET)
    found = json.loads(capsys.readouterr().out)

    assert (found["hits"], found["clear"]) == ([], [])
    assert [one["case"] for one in found["unknown"]] == [CASE]


def test_the_results_name_both_sides_of_a_denied_pass(
    denied: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    wish = dataclasses.replace(WISH, release=[RELEASE], workaround=["none"])
    print_cells(
        denied, Printing(wish=wish, device=None, format="csv", wide=True, ranges=False), QUIET
    )
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
