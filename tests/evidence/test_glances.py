"""What answers at a glance is what answers when everything is read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environment, failed, provenance, seen

from repromatrix.runner import project
from repromatrix.runner.audit.questions import standing_still
from repromatrix.runner.bisect.releases import current
from repromatrix.runner.evidence import answers, glances
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.judging.ranges import fails
from repromatrix.runner.model.observation import LOCAL, Provenance
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from repromatrix.runner.evidence.published import Keep
    from repromatrix.runner.model.outcomes import Precision


def _silent(text: str) -> None:
    raise AssertionError(text)


def _some(_: str, workaround: str, precision: Precision, device: Device) -> frozenset[str] | None:
    """Want the plain cells of one precision, and of workarounds those of one release."""
    if device != "cpu" or precision != "bf16":
        return frozenset()
    return frozenset({"5.10.1", "main"}) if workaround else None


def _assert_alike(places: Paths, keep: Keep | None, least: int) -> glances.GlancedRows:
    loaded = project.load(places, code=False)
    still = standing_still(loaded.environments)
    found = glances.of_places(places, _silent, (loaded.cases, still), loaded.cases, keep)
    rows = answers.both(places, _silent, loaded.cases, keep)
    expected, contested = current(rows, loaded.cases, still)

    assert len(expected) > least
    assert dict(found) == expected
    assert found.contested == contested.keys()
    assert {one: found.fails(one) for one in found} == {
        one: fails(row) for one, row in expected.items()
    }
    ran = {
        (row.cell.device, (row.provenance.torch_build, row.provenance.python))
        for row in expected.values()
        if row.outcome.is_evidence
    }
    assert found.ran == ran
    return found


def test_published_evidence_says_the_same_at_a_glance() -> None:
    _assert_alike(Paths(root=ROOT), None, least=40_000)
    _assert_alike(Paths(root=ROOT), _some, least=4_000)


def test_what_this_machine_stored_counts_and_contests() -> None:
    places = Paths(root=ROOT)
    rows = list(answers.published_rows(places, {"blip2_load_half", "gemma3_trainer_eval"}, _some))
    changed = [
        dataclasses.replace(
            row,
            outcome=_instead(row.outcome, number),
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


def _instead(outcome: Outcome, number: int) -> Outcome:
    """Turn two of three outcomes into their opposite, and let the memory run out in others."""
    if number % 7 == 0:
        return Outcome.OUT_OF_MEMORY
    turned = {Outcome.PASSES: Outcome.FAILS, Outcome.FAILS: Outcome.PASSES}
    return turned.get(outcome, outcome) if number % 3 else outcome


def _of_old(ran: Provenance) -> Provenance:
    return dataclasses.replace(ran, case_digest="0" * 16)


def test_a_contested_cell_answers_nothing() -> None:
    toy, held = case(), environment()
    ran = provenance(toy, held)
    rows = [seen(Outcome.PASSES, ran=ran), seen(Outcome.FAILS, ran=ran, how=failed())]
    found = glances.of_rows(rows, {toy.name: toy}, {held.name: held})

    assert (dict(found), found.contested, found.fails(cell())) == ({}, {cell()}, None)


@pytest.mark.parametrize("first", [True, False])
def test_what_the_machine_decided_takes_nobodys_place(*, first: bool) -> None:
    toy, held = case(), environment()
    ran = provenance(toy, held)
    decided = seen(Outcome.FAILS, ran=ran)
    machine = seen(
        Outcome.OUT_OF_MEMORY, ran=dataclasses.replace(ran, torch_build="2.13.0+of-nobody")
    )
    rows = [machine, decided] if first else [decided, machine]
    cases, on = {toy.name: toy}, {held.name: held}
    found = glances.of_rows(rows, cases, on)

    assert dict(found) == {cell(): decided} == current(rows, cases, on)[0]
    assert (found.fails(cell()), found.ran) == (True, {(Device.CPU, ("2.13.0+cpu", "3.11.9"))})
    assert dict(glances.of_rows([machine], cases, on)) == {cell(): machine}
    assert glances.of_rows([machine], cases, on).ran == set()
