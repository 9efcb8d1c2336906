"""Whether what is measured is true: the same grid run three times, and in other ways."""

from __future__ import annotations

import functools
import os
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drills.ways import Kind, Seen, Way, differing, kind, measure
from repromatrix.runner import project
from repromatrix.runner.evidence import published
from repromatrix.runner.execution.hardware import hardware
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from drills.tally import Tally
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.project import Project

RELEASES = ("4.50.0", "4.57.6", "5.23.0")
"""An old one, one in the middle, and the newest; REPRO_RELEASES names others."""
SEEDS = ("1", "4242")
_SHOWN = 5
_KERNELS = "avx512_bf16"
"""What processors have whose messages were published, or stand in the cases beside them."""
_KNOWN = "as the case says"


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """One comparison: how many cells were held against each other, and which differed."""

    tried: str
    times: int
    wrong: str
    cells: tuple[Cell, ...]
    note: str = ""


def drill(tally: Tally) -> None:
    """Run all of it on the releases that were asked for."""
    loaded = project.load(Paths())
    named = os.environ.get("REPRO_RELEASES", "")
    releases = tuple(named.split(",")) if named else RELEASES
    for one in compared(loaded, releases):
        count(tally, one)


def count(tally: Tally, held: Held) -> None:
    """Count a comparison, and name the first cells that differed."""
    shown = ", ".join(" ".join(filter(None, cell[:4])) for cell in held.cells[:_SHOWN])
    note = ": ".join(filter(None, (held.note, shown)))
    tally.count(held.tried, held.times, held.wrong, len(held.cells), note)


def compared(
    loaded: Project, releases: Collection[str], cases: Collection[str] = ()
) -> Iterator[Held]:
    """Run a grid, then run it again and in every other way; yield what was found."""
    names = ",".join(releases)
    grid = functools.partial(measure, loaded, releases=names, cases=cases)
    first = grid(Way())
    repeats = [grid(Way()) for _ in range(2)]
    unstable = {cell for other in repeats for cell in differing(first, other)}
    yield Held(
        tried="cells run three times",
        times=len(first),
        wrong="cells that differed",
        cells=tuple(sorted(unstable)),
        note=names,
    )
    for what, way in _ways():
        cells = tuple(differing(first, grid(way)))
        yield Held(tried=f"cells {what}", times=len(first), wrong="outcomes changed", cells=cells)
    forked = {cell: first[cell] for cell in telling(first)}
    fresh = grid(Way(fork=False), only=frozenset(forked))
    yield Held(
        tried="cells in a fresh process",
        times=len(forked),
        wrong="outcomes changed",
        cells=tuple(differing(forked, fresh)),
        note="one of each case, a failing one where there is one",
    )


def _ways() -> Iterator[tuple[str, Way]]:
    for seed in SEEDS:
        yield f"with PYTHONHASHSEED={seed}", Way(hash_seed=seed)
    yield "with two threads", Way(threads=2)
    yield "in the reverse order", Way(backwards=True)
    yield "without the witness", Way(witness=False)


def telling(seen: Seen) -> frozenset[Cell]:
    """Return a cell of each case and release: one that fails where there is one, else bf16's."""
    chosen: dict[tuple[str, str], Cell] = {}
    for cell, (outcome, _) in seen.items():
        key = (cell.case, cell.environment)
        tells = outcome.is_failure or cell.precision is Precision.BF16
        if key not in chosen or (tells and not seen[chosen[key]].outcome.is_failure):
            chosen[key] = cell
    return frozenset(chosen.values())


def committed(loaded: Project) -> dict[Cell, Kind]:
    """Return the published cells that a CPU ran, stably, in an environment that is pinned."""
    return {
        row.cell: kind(row)
        for row in published.read(loaded.paths.published)
        if row.cell.device is Device.CPU
        and row.outcome.was_run
        and not row.unstable
        and loaded.environments[row.cell.environment].source.has_lock
    }


def again(loaded: Project, share: int = 10) -> Held:
    """Measure one of so many published cells once more, drawn from all of them."""
    seed = int(os.environ.get("REPRO_SEED", time.time_ns()))
    cells = committed(loaded)
    drawn = random.Random(seed).sample(sorted(cells), len(cells) // share)
    found = measure(loaded, Way(), only=frozenset(drawn))
    note = f"drawn by REPRO_SEED={seed}"
    if _KERNELS not in hardware():
        note += f", outcomes alone: without {_KERNELS} messages differ"
    expected = comparable(loaded, {cell: cells[cell] for cell in drawn})
    return Held(
        tried="published cells measured again",
        times=len(drawn),
        wrong="denied",
        cells=tuple(differing(expected, comparable(loaded, found))),
        note=note,
    )


def comparable(loaded: Project, seen: Mapping[Cell, Kind]) -> Seen:
    """Return cells without what the processor decides: in which of its words a case fails.

    Without kernels for bf16 there are words that no case knows, so that outcomes alone are left.
    """
    wordless = _KERNELS not in hardware()
    return {
        cell: one._replace(error="" if wordless else _told(loaded.cases[cell.case], one))
        for cell, one in seen.items()
    }


def _told(case: Case, one: Kind) -> str:
    error_class, _, message = one.error.partition(": ")
    known = any(entry.has_words(error_class, message) for entry in case.block.fails)
    return _KNOWN if known else one.error
