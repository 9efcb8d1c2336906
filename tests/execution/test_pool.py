"""The threads of a pool: none goes on when an interruption comes while they begin."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.errors import Interrupted
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.pool import Pool
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.subprocesses import finish

if TYPE_CHECKING:
    from repromatrix.runner.execution.events import Ready


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
