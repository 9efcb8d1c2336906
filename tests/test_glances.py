"""What answers at a glance is what answers when everything is read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from factories import case, cell, environment, failed, provenance, seen

from runner import project
from runner.answering.known import standing_still
from runner.bisecting.evidence import current
from runner.evidence import glances, reading
from runner.evidence.store import Store
from runner.judging.ranges import fails
from runner.model.observation import LOCAL, Provenance
from runner.model.outcomes import Outcome
from runner.places import ROOT, Places

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from runner.evidence.published import Keep
    from runner.model.outcomes import Device, Precision


def _silent(text: str) -> None:
    raise AssertionError(text)


def _some(_: str, workaround: str, precision: Precision, device: Device) -> frozenset[str] | None:
    """Want the plain cells of one precision, and of workarounds those of one release."""
    if device != "cpu" or precision != "bf16":
        return frozenset()
    return frozenset({"5.10.1", "main"}) if workaround else None


def _assert_alike(places: Places, keep: Keep | None, least: int) -> glances.Seen:
    loaded = project.load(places, code=False)
    still = standing_still(loaded.environments)
    found = glances.of_places(places, _silent, (loaded.cases, still), loaded.cases, keep)
    rows = reading.both(places, _silent, loaded.cases, keep)
    expected, contested = current(rows, loaded.cases, still)

    assert len(expected) > least
    assert dict(found) == expected
    assert found.contested == contested
    assert {one: found.fails(one) for one in found} == {
        one: fails(row) for one, row in expected.items()
    }
    ran = {
        (row.cell.device, (row.provenance.torch_build, row.provenance.python))
        for row in expected.values()
    }
    assert found.ran == ran
    return found


def test_published_evidence_says_the_same_at_a_glance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROMATRIX_STORE", str(tmp_path / "store.sqlite"))

    _assert_alike(Places(root=ROOT), None, least=40_000)
    _assert_alike(Places(root=ROOT), _some, least=4_000)


def test_what_this_machine_stored_counts_and_contests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROMATRIX_STORE", str(tmp_path / "store.sqlite"))
    places = Places(root=ROOT)
    rows = list(reading.published_rows(places, {"blip2_load_half", "gemma3_trainer_eval"}, _some))
    turned = {Outcome.PASSES: Outcome.FAILS, Outcome.FAILS: Outcome.PASSES}
    changed = [
        dataclasses.replace(
            row,
            outcome=turned.get(row.outcome, row.outcome) if number % 3 else row.outcome,
            repeats=1 + number % 2,
            source=LOCAL,
            provenance=_of_old(row.provenance) if number % 5 == 0 else row.provenance,
        )
        for number, row in enumerate(rows)
    ]
    store = Store(places.store, _silent)
    store.put(*changed)
    store.close()

    assert _assert_alike(places, _some, least=4_000).contested


def _of_old(ran: Provenance) -> Provenance:
    return dataclasses.replace(ran, case_digest="0" * 16)


def test_a_contested_cell_answers_nothing() -> None:
    toy, held = case(), environment()
    ran = provenance(toy, held)
    rows = [seen(Outcome.PASSES, ran=ran), seen(Outcome.FAILS, ran=ran, how=failed())]
    found = glances.of_rows(rows, {toy.name: toy}, {held.name: held})

    assert (dict(found), found.contested, found.fails(cell())) == ({}, {cell()}, None)
