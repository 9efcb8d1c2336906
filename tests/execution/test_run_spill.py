"""A store that somebody holds while a run measures: nothing that was measured is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environment, seen

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import database
from repromatrix.runner.evidence.store import Store, take_in_late
from repromatrix.runner.execution.events import Event, Terms
from repromatrix.runner.execution.run import Run
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from repromatrix.runner.model.matrix import Matrix
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.paths import Paths
    from repromatrix.runner.planning.plan import Unit

TOY, HERE = case(), environment()
ROWS = [dataclasses.replace(seen(), cell=cell(precision=one)) for one in Precision]


class Measuring:
    """An engine that measures one cell after another; the last is in flight when it is closed."""

    def run(self, units: Sequence[Unit]) -> Generator[Event]:
        assert units
        yield from ROWS[:2]

    def left(self) -> list[Observation]:
        return ROWS[2:]


def measure(store: Store, places: Paths, matrix: Matrix) -> None:
    cases, environments = {TOY.name: TOY}, {HERE.name: HERE}
    loaded = Project(paths=places, matrix=matrix, locks={}, environments=environments, cases=cases)
    run = Run(
        project=loaded,
        selection=select(SelectionRequest(), cases, [HERE.name]),
        terms=Terms(run="now", limits=Limits(seconds=1, memory=1), device=Device.CPU, jobs=1),
        known={},
    )
    run.execute(store, engine=Measuring())


def test_what_was_measured_while_somebody_held_the_store_is_taken_in_by_the_next_run(
    tmp_path: Path, places: Paths, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAIT", 0.05)
    path = tmp_path / "evidence.sqlite"
    store = Store(path, print)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RunnerError, match=r"locked .* \(2\) are kept as evidence.sqlite.late-"):
            measure(store, places, matrix)
        other.execute("ROLLBACK")
    store.close()
    (kept,) = tmp_path.glob("evidence.sqlite.late-*")

    with contextlib.closing(Store(path, print)) as again:
        take_in_late(again, print)
        rows = list(again.rows())

    assert rows == [ROWS[0], ROWS[2]]
    assert not kept.exists()
    assert sorted(tmp_path.iterdir()) == [path]


def test_what_is_being_written_is_not_taken_in(tmp_path: Path) -> None:
    draft = tmp_path / "evidence.sqlite.late-7.new"
    draft.touch()
    with contextlib.closing(Store(tmp_path / "evidence.sqlite", print)) as store:
        take_in_late(store, print)

    assert draft.exists()
