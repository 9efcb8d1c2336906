"""What five seeds say of a case: its margins, and whether chance decides."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING

import factories
import pytest

from checks import chance
from checks.chance import SEEDS, rows_of, seen_of
from repromatrix.runner.evidence.margins import MarginRow
from repromatrix.runner.model.outcomes import Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ways import Way

    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

ASSERTS = f'{factories.CODE}assert measured["error"] < 0.06, "it breaks"\n'


def test_a_row_tells_the_nearest_values_and_a_cell_that_changes_is_named() -> None:
    toy = factories.case(factories.BREAKS, ASSERTS)
    fails, passes = factories.cell(), factories.cell(precision=Precision.FP16)
    wavers = factories.cell("4.51.0")
    errors = {fails: [0.5, 0.6, 0.7, 0.24, 0.5], passes: [0.0, 0.01, 0.01, 0.02, 0.0]}
    rows = [
        (seed, dataclasses.replace(row, measured={"error": value}))
        for at, values in errors.items()
        for seed, value in zip(SEEDS, values, strict=True)
        for row in [factories.seen(Outcome.FAILS if value > 0.06 else Outcome.PASSES, at)]
    ]
    changing = [factories.seen(Outcome.PASSES, wavers), factories.seen(Outcome.FAILS, wavers)]
    loaded = SimpleNamespace(cases={toy.name: toy})

    found, by_chance = rows_of(loaded, [*rows, *zip("01", changing, strict=True)])  # type: ignore[arg-type]

    assert (found, by_chance) == (
        [
            MarginRow(
                *(toy.name, toy.digest, "error < 0.06", "0 1 2 3 4", "2"),
                *("0.02", "3.00", "fp16 on 4.50.0, seed 3"),
                *("0.24", "4.00", "bf16 on 4.50.0, seed 3"),
            )
        ],
        [wavers],
    )


def test_an_interrupted_check_runs_what_is_missing_with_each_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = factories.case(factories.BREAKS, ASSERTS)
    cells = (factories.cell(), factories.cell(precision=Precision.FP16))
    ran: list[tuple[str, str]] = []

    def observed(_: object, cells: Sequence[Cell], __: object, way: Way) -> Iterator[Observation]:
        for cell in cells:
            if len(ran) == 3:
                ran.append(("", "interrupted"))
                raise KeyboardInterrupt
            ran.append((way.seed, cell.precision.value))
            yield factories.seen(at=cell, ran=factories.provenance(toy))

    monkeypatch.setattr(chance, "observed", observed)
    loaded = SimpleNamespace(
        cases={toy.name: toy},
        environments=factories.environments("4.50.0"),
        paths=SimpleNamespace(store=tmp_path / "evidence.sqlite"),
    )
    with pytest.raises(KeyboardInterrupt):
        list(seen_of(loaded, cells))  # type: ignore[arg-type]
    seen = list(seen_of(loaded, cells))  # type: ignore[arg-type]

    assert ran == [
        *(("0", "bf16"), ("0", "fp16"), ("1", "bf16"), ("", "interrupted"), ("1", "fp16")),
        *((seed, precision) for seed in "234" for precision in ("bf16", "fp16")),
    ]
    assert [(seed, row.cell) for seed, row in seen] == [(s, c) for s in SEEDS for c in cells]
    assert len(list(seen_of(loaded, cells))) == len(seen)  # type: ignore[arg-type]
    assert len(ran) == 2 * len(SEEDS) + 1, "a later check runs nothing of them again"
