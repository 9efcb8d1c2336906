"""Cells run outside the grid, for a search: one prepared environment, with or without a tree."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.errors import Interrupted
from repromatrix.runner.execution.events import Event, Lost, Ready, Terms, Unbuilt
from repromatrix.runner.execution.pool import Pool
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.planning.plan import Unit


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
