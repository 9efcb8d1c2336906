"""A run that ends in time: what it costs, and what can still be begun."""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import fakes
import pytest
from factories import BREAKS, case, cell, environment, provenance, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution import pool
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.run import Run, RunListener
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.planning.budget import (
    BUILD,
    CELL,
    FORK,
    IMPORT,
    Budget,
    costs,
    seconds,
)
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.planning.selection import SelectionRequest, select

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.planning.budget import Costs

TOY = case(BREAKS)


def row(name: str, took: float | None, precision: Precision = Precision.BF16) -> Observation:
    ran = dataclasses.replace(provenance(TOY, environment(name)), run=f"run of {name}")
    return dataclasses.replace(seen(at=cell(name, precision), ran=ran), seconds=took)


def costing(*rows: Observation, absent: Iterable[str] = ()) -> Costs:
    return costs(rows, frozenset(absent).__contains__)


def unit(name: str, cells: int = 1) -> Unit:
    return Unit(
        environment=name, cells=tuple(cell(name, name=f"toy_{number}") for number in range(cells))
    )


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90), ("10m", 600), ("2h", 7200), ("0.5m", 30), (" 1s ", 1)]
)
def test_a_budget_is_a_number_with_its_unit(text: str, expected: float) -> None:
    assert expected == seconds(text)


def test_a_cell_costs_its_own_time_or_that_of_its_neighbours_or_that_of_all() -> None:
    known = costing(
        row("4.49.0", 1.0),
        row("4.50.0", 3.0),
        row("4.51.0", 8.0),
        row("4.50.0", 0.2, Precision.FP32),
    )
    asked = [cell("4.50.0"), cell("4.53.0"), cell("4.53.0", Precision.FP16)]

    assert [FORK + own for own in (3.0, 3.0, 2.0)] == [known.of_cell(one) for one in asked]
    assert costing().of_cell(cell()) == FORK + CELL


def test_a_unit_costs_its_build_one_import_and_its_cells() -> None:
    known = costing(absent=["4.49.0"])

    assert known.of_unit(unit("4.50.0", 2)) == IMPORT + 2 * (FORK + CELL)
    assert known.of_unit(unit("4.49.0", 2)) == BUILD + IMPORT + 2 * (FORK + CELL)


@given(
    st.lists(st.integers(min_value=0, max_value=40), min_size=1, max_size=8),
    st.floats(min_value=0, max_value=60),
    st.integers(min_value=1, max_value=4),
)
def test_what_comes_first_fits(sizes: list[int], room: float, workers: int) -> None:
    units = [unit(str(number), size) for number, size in enumerate(sizes)]
    known = costing()
    budget = Budget(until=room, workers=workers, costs=known, now=lambda: 0.0)
    first = budget.first(units)

    assert first == tuple(units[: len(first)])
    assert sum(map(known.of_unit, first)) <= room * workers
    assert all(budget.fitting(one).cells == one.cells for one in first)


class _Heard(RunListener):
    """Counts, and lets the time be over at one of the cells."""

    def __init__(self, clock: SimpleNamespace, last: int) -> None:
        self.clock = clock
        self.last = last
        self.cells = 0

    def measured(self, _row: object, _verdict: object) -> None:
        self.cells += 1
        if self.cells == self.last:
            self.clock.now = 100.0

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        pytest.fail(f"{environment}: {reason} ({cells})")


def _limited(clock: SimpleNamespace) -> Run:
    loaded = fakes.load(
        [fakes.corpus() / f"fake_{name}.py" for name in ("exits_with_text", "prints_binary")]
    )
    terms = Terms(run="b", limits=fakes.LIMITS, device=Device.CPU, jobs=1, until=50.0)
    return Run(
        project=loaded,
        selection=select(SelectionRequest(release=[fakes.RELEASE]), loaded.cases, loaded.names),
        terms=terms,
        known={},
        budget=Budget(until=50.0, workers=1, costs=costing(), now=lambda: float(clock.now)),
    )


def test_where_no_time_is_left_nothing_is_built_or_begun(tmp_path: Path) -> None:
    clock = SimpleNamespace(now=50.0)
    limited = dataclasses.replace(_limited(clock), rerun=True)
    store = Store(tmp_path / "store.sqlite", pytest.fail)
    tally = limited.execute(store, _Heard(clock, 0))
    rows = list(store.rows())
    store.close()

    assert (tally.measured, rows) == (0, [])
    assert tally.left == {one for some in limited.units() for one in some.cells}


@pytest.mark.builds
def test_when_the_time_is_over_only_what_is_doubted_is_run_again_and_the_rest_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(
        pool, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=time.sleep)
    )
    monkeypatch.setattr(Run, "doubted", lambda *_: True)
    limited = _limited(clock)
    cells: set[Cell] = {one for some in limited.units() for one in some.cells}
    store = Store(tmp_path / "store.sqlite", pytest.fail)
    tally = limited.execute(store, _Heard(clock, 2))
    rows = list(store.rows())
    store.close()

    assert 2 <= tally.measured < len(cells)
    assert tally.left
    assert {one.cell for one in rows} == cells - tally.left
    assert {one.repeats for one in rows} == {3}
