"""Publishing what several machines measured: each keeps what it ran on."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING

import pytest
from factories import case_text, cell, provenance, seen
from rich.console import Console

from runner import project
from runner.commands.publish import publish_all
from runner.errors import RunnerError
from runner.evidence import published
from runner.evidence.store import Store
from runner.model.outcomes import Device, Outcome, Precision
from runner.places import ROOT, Places

if TYPE_CHECKING:
    from pathlib import Path

    from runner.model.observation import Observation

RELEASES = ("4.49.0", "4.50.0")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Return a checkout of its own with two of the real environments, a case, no evidence."""
    locks = tmp_path / "environments" / "locks"
    locks.mkdir(parents=True)
    lines = (ROOT / "environments" / "matrix.toml").read_text().splitlines(keepends=True)
    ours = [line for line in lines if "{ name =" not in line or line.split('"')[1] in RELEASES]
    (tmp_path / "environments" / "matrix.toml").write_text("".join(ours))
    for release in RELEASES:
        shutil.copy(ROOT / "environments" / "locks" / f"{release}.txt", locks)
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "toy_breaks.py").write_text(case_text())
    (tmp_path / "reports").mkdir()
    return Places(root=tmp_path)


def rows(
    places: Places,
    hardware: str,
    release: str,
    outcome: Outcome = Outcome.PASSES,
    device: Device = Device.CPU,
) -> list[Observation]:
    loaded = project.load(places)
    ran = provenance(loaded.cases["toy_breaks"], loaded.environments[release])
    ran = dataclasses.replace(ran, hardware=hardware, run=f"1 {hardware}")
    return [seen(outcome, cell(release, one, device=device), ran=ran) for one in Precision]


def test_machines_of_two_classes_are_two_publications(places: Places) -> None:
    store = Store(places.store, print)
    store.put(*rows(places, "avx2", "4.49.0"))
    store.take(rows(places, "asimd", "4.50.0"))
    store.close()
    publish_all(places, Console(quiet=True))
    found = list(published.read(places.published))

    assert {(row.cell.environment, row.provenance.hardware) for row in found} == {
        ("4.49.0", "avx2"),
        ("4.50.0", "asimd"),
    }
    assert len({row.source for row in found}) == 2


def test_what_machines_dispute_is_published_as_unstable_and_said(places: Places) -> None:
    store = Store(places.store, print)
    for release in RELEASES:
        store.put(*rows(places, "avx2", release))
    store.take(rows(places, "asimd", "4.50.0", Outcome.FAILS))
    store.close()
    console = Console(record=True, stderr=True, width=200)
    publish_all(places, console)
    found = list(published.read(places.published))

    assert console.export_text().splitlines()[0] == (
        "3 cells are disputed between machines; published as unstable."
    )
    assert {row.cell.environment for row in found if row.unstable} == {"4.50.0"}


def test_a_release_is_published_from_a_gpu_whole_and_others_are_not_asked_for(
    places: Places,
) -> None:
    store = Store(places.store, print)
    for release in RELEASES:
        store.put(*rows(places, "avx2", release))
    there = rows(places, "avx2; H200", "4.50.0", device=Device.CUDA)
    store.take(there[:2])
    with pytest.raises(RunnerError) as caught:
        publish_all(places, Console(quiet=True))
    store.take(there)
    store.close()
    publish_all(places, Console(quiet=True))
    found = list(published.read(places.published))

    assert str(caught.value).startswith(
        "publish: found 1 cells without current evidence: 4.50.0 (1); allowed: a whole grid."
    )
    assert {(row.cell.device, row.cell.environment, row.provenance.hardware) for row in found} == {
        (Device.CPU, "4.49.0", "avx2"),
        (Device.CPU, "4.50.0", "avx2"),
        (Device.CUDA, "4.50.0", "avx2; H200"),
    }


def test_a_gpu_that_is_away_keeps_nobody_from_publishing(places: Places) -> None:
    store = Store(places.store, print)
    for device in Device:
        for release in RELEASES:
            store.put(*rows(places, str(device), release, device=device))
    publish_all(places, Console(quiet=True))
    store.close()
    places.store.unlink()
    (places.cases / "toy_breaks.py").write_text(case_text(code='"""Changed. It was a toy."""\n'))
    store = Store(places.store, print)
    for release in RELEASES:
        store.put(*rows(places, "cpu", release))
    store.close()
    publish_all(places, Console(quiet=True))

    assert {row.cell.device for row in published.read(places.published)} == {Device.CPU}
