"""Cells run outside the grid, for a search: one prepared environment, with or without a tree."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from runner.engine.events import Unbuilt
from runner.engine.pool import Pool
from runner.environments.building import UnbuildableError
from runner.model.observation import Observation
from runner.planning.plan import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.engine.events import Ready, Terms
    from runner.model.case import Case


def measure(ready: Ready, cases: Mapping[str, Case], terms: Terms) -> tuple[Observation, ...]:
    """Run the cells of a prepared environment; raises UnbuildableError where it cannot start."""
    unit = Unit(environment=ready.environment.name, cells=ready.cells)
    pool = Pool(terms, cases, lambda _: ready, lambda *_: False)
    found: list[Observation] = []
    with contextlib.closing(pool.run([unit])) as events:
        for event in events:
            match event:
                case Observation():
                    found.append(event)
                case Unbuilt():
                    raise UnbuildableError(event.reason)
                case _:
                    pass
    return tuple(found)
