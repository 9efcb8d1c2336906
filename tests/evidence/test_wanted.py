"""What is asked for alone is what remains when everything is read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environment, failed, provenance, rows_of, seen

from repromatrix.runner import project
from repromatrix.runner.audit.known import known
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.observation import LOCAL, Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from repromatrix.runner.model.outcomes import Precision


def _silent(text: str) -> None:
    raise AssertionError(text)


def _some(_: str, workaround: str, precision: Precision, device: Device) -> frozenset[str] | None:
    """Want the plain cells of one precision, and of workarounds those of one release."""
    if device != "cpu" or precision != "bf16":
        return frozenset()
    return frozenset({"5.10.1", "main"}) if workaround else None


def _is_wanted(row: Observation) -> bool:
    _, workaround, on, precision, device = row.cell
    wanted = _some("", workaround, precision, device)
    return wanted is None or on in wanted


def test_what_this_machine_stored_counts_and_contests() -> None:
    places = Paths(root=ROOT)
    rows = list(answers.published_rows(places, {"blip2_load_half", "gemma3_trainer_eval"}))
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
    loaded = project.load(places, code=False)
    every = answers.stored(places, _silent)
    some = answers.stored(places, _silent, keep=_some)

    assert _written(some) == _written(filter(_is_wanted, every))
    _, contested = current([*rows, *some], loaded.cases, loaded.environments)
    assert contested


def _written(rows: Iterable[Observation]) -> list[str]:
    """Return rows as text: what a case measured may be NaN, which is equal to nothing."""
    return [*map(repr, rows)]


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
    evidence = known({toy.name: toy}, {held.name: held}, rows)

    assert (rows_of(evidence), {*evidence.contested}) == ({}, {cell()})
    assert evidence.fails(cell()) is None
    assert evidence.ran_on(Device.CPU) == (("2.13.0+cpu",), ("3.11",))


@pytest.mark.parametrize("first", [True, False])
def test_what_the_machine_decided_takes_nobodys_place(*, first: bool) -> None:
    toy, held = case(), environment()
    ran = provenance(toy, held)
    decided = seen(Outcome.FAILS, ran=ran)
    machine = seen(
        Outcome.OUT_OF_MEMORY, ran=dataclasses.replace(ran, torch_build="2.13.0+of-nobody")
    )
    rows = [machine, decided] if first else [decided, machine]
    evidence = known({toy.name: toy}, {held.name: held}, rows)
    of_machine = known({toy.name: toy}, {held.name: held}, [machine])

    assert rows_of(evidence) == {cell(): decided}
    assert evidence.fails(cell()) is True
    assert evidence.ran_on(Device.CPU) == (("2.13.0+cpu",), ("3.11",))
    assert rows_of(of_machine) == {cell(): machine}
    assert of_machine.ran_on(Device.CPU) == ((), ())
