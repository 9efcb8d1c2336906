"""Cells run outside the grid, for a search: one prepared environment, with or without a tree."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from runner.engine.events import Lost, Unbuilt
from runner.engine.pool import Pool
from runner.environments.building import UnbuildableError
from runner.errors import Interrupted
from runner.model.observation import Observation
from runner.planning.plan import Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.engine.events import Event, Ready, Terms
    from runner.model.case import Case
    from runner.model.cell import Environment


def measure(
    ready: Ready,
    cases: Mapping[str, Case],
    terms: Terms,
    *,
    doubted: Callable[[Observation, Environment], bool] = lambda *_: False,
    hear: Callable[[Event], None] = lambda _: None,
) -> tuple[Observation, ...]:
    """Run the cells of a prepared environment; raises UnbuildableError where it cannot start.

    `hear` is told of everything as it happens, also of what was measured before an interruption;
    what is `doubted` is repeated, and told again with what the repeats gave.
    """
    unit = Unit(environment=ready.environment.name, cells=ready.cells)
    pool = Pool(terms, cases, lambda _: ready, doubted)
    found: dict[object, Observation] = {}
    try:
        with contextlib.closing(pool.run([unit])) as events:
            for event in events:
                hear(event)
                match event:
                    case Observation():
                        found[event.cell] = event
                    case Unbuilt() | Lost():
                        raise UnbuildableError(event.reason)
                    case _:
                        pass
    except Interrupted:
        for row in pool.left():
            hear(row)
        raise
    return tuple(found.values())
