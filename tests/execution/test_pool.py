"""The threads of a pool: none goes on when an interruption comes while they begin."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from factories import BREAKS, case, cell, environment
from programs import wait_until

from repromatrix.runner.environments.building import Built
from repromatrix.runner.errors import Interrupted
from repromatrix.runner.execution import pool as pools
from repromatrix.runner.execution.events import Phase, Ready, Terms, Tree
from repromatrix.runner.execution.pool import Pool
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.subprocesses import finish


def test_an_interruption_does_not_wait_for_imports(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "torch").mkdir()
    module = f"import pathlib, time; pathlib.Path(r'{begun}').touch(); time.sleep(60)"
    (tmp_path / "torch" / "__init__.py").write_text(module)
    here = Built(name="here", folder=Path(sys.prefix), python=Path(sys.executable), versions={})
    tree = Tree(package="torch", path=tmp_path, kept=tmp_path / "kept")
    found = cell()
    limits = Limits.model_validate({"seconds": 60, "memory": 768})
    pool = Pool(
        Terms(limits=limits, device=Device.CPU),
        {found.case: case(BREAKS)},
        lambda unit: Ready(environment=environment(), built=here, cells=unit.cells, tree=tree),
        lambda *_: False,
    )
    events = pool.run([Unit(environment=found.environment, cells=(found,))])
    assert [event.doing for event in itertools.islice(events, 2) if isinstance(event, Phase)] == [
        "building",
        "importing",
    ]
    wait_until(begun.exists)
    begin = time.monotonic()
    events.close()

    assert time.monotonic() - begin < 20
    assert pool.left() == []


def test_an_interruption_between_two_threads_ends_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def start_one(thread: threading.Thread) -> None:
        if started:
            raise Interrupted
        started.append(thread)
        start(thread)

    def prepare(_: Unit) -> Ready:
        finish(["sleep", "60"])
        raise AssertionError

    limits = Limits.model_validate({"seconds": 60, "memory": 768})
    terms = Terms(limits=limits, device=Device.CPU, jobs=2)
    pool = Pool(terms, {}, prepare, lambda *_: False)
    units = [Unit(environment=name, cells=()) for name in ("4.49.0", "4.50.0")]
    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(Interrupted):
        next(pool.run(units))

    assert [thread.is_alive() for thread in started] == [False]


def test_one_more_environment_than_may_measure_is_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared: list[str] = []
    here = Built(name="here", folder=Path(sys.prefix), python=Path(sys.executable), versions={})
    measuring: list[tuple[str, ...]] = []

    def prepare(unit: Unit) -> Ready:
        prepared.append(unit.environment)
        return Ready(environment=environment(unit.environment), built=here, cells=unit.cells)

    class Fake:
        disk_full = ()

        def __init__(self, pool: Pool, _: Ready) -> None:
            self.pool = pool

        def run(self, started: Callable[[], None]) -> None:
            started()
            with self.pool.measuring:
                if not measuring:
                    wait_until(lambda: len(prepared) > 1)
                measuring.append(tuple(prepared))

    monkeypatch.setattr(pools, "Batch", Fake)
    limits = Limits.model_validate({"seconds": 60, "memory": 768})
    pool = Pool(Terms(limits=limits, device=Device.CPU), {}, prepare, lambda *_: False)
    names = ("4.49.0", "4.50.0", "4.51.0")
    list(pool.run([Unit(environment=name, cells=(cell(name),)) for name in names]))

    assert (measuring[0], prepared) == (names[:2], list(names))
