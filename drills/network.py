"""An index that breaks in each way: unbuildable with the reason, retried, never a result."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drills.checkout import expected, made, made_wheels
from drills.index import Way, serving

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from drills.checkout import Checkout
    from drills.tally import Tally
    from repromatrix.runner.subprocesses import Finished

CASES = 2
PATIENCE = 8
"""Seconds after which a drill lets an installation be given up."""
ENOUGH = 60.0
"""Seconds within which a run ends whatever its index does: twice the patience, and what it runs."""
FORMS = ("variable", "uv", "file")
SPOILED = ("transformers-1.1.0", "transformers", "")
"""One release, both, and all that the index has, torch included."""
_OF_WHEELS = frozenset({Way.LACKS, Way.CUT_WHEEL, Way.OTHER_WHEEL, Way.SLOW_WHEEL})
BROKEN = tuple(way for way in Way if way is not Way.WORKS)
_TOLD = (Way.GONE, Way.CUT_WHEEL, Way.OTHER_WHEEL)
"""Ways that are tried in every form in which an index can be named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """What became of a run with a broken index, and of the next one with a whole one."""

    what: str
    counted: int
    """Cells that were taken for results, or kept back the results of a release that was whole."""
    unsaid: int
    """Cells without a reason, or with one that names the index."""
    not_retried: int
    """Cells that the next run did not measure."""
    late: bool
    """Whether the run did not end in time."""


def drill(tally: Tally) -> None:
    """Try every way on one release, on all, and on everything, as pip is told and as uv is."""
    trials = [
        *(
            (way, spoiled, "variable")
            for way in BROKEN
            for spoiled in SPOILED
            if _means(way, spoiled)
        ),
        *((way, "transformers", form) for way in _TOLD for form in FORMS[1:]),
    ]
    count(tally, tried(trials))


def count(tally: Tally, fates: Sequence[Fate]) -> None:
    """Count what went wrong."""
    number = len(fates)
    tally.count("broken indexes", number, "cells counted as results", sum(f.counted for f in fates))
    unsaid = sum(fate.unsaid for fate in fates)
    tally.count("broken indexes", number, "cells without a reason, or that name the index", unsaid)
    left = sum(fate.not_retried for fate in fates)
    tally.count("broken indexes", number, "cells that the next run did not retry", left)
    tally.count("broken indexes", number, "runs without an end", sum(fate.late for fate in fates))


def tried(trials: Iterable[tuple[Way, str, str]], retries: int = 1) -> list[Fate]:
    """Try each way on the files whose names hold a text, told in one of the forms.

    `retries` is how often the installer itself asks again.
    """
    folder = Path(tempfile.mkdtemp(prefix="drill-network-"))
    try:
        wheels = made_wheels(folder / "wheels", ballast=4096)
        found = []
        for number, (way, spoiled, form) in enumerate(trials):
            fate = _fate(folder / str(number), wheels, (way, spoiled, form), retries)
            shutil.rmtree(folder / str(number))
            if fate.counted or fate.unsaid or fate.not_retried or fate.late:
                print(fate, flush=True)
            found.append(fate)
        return found
    finally:
        shutil.rmtree(folder)


def _means(way: Way, spoiled: str) -> bool:
    """Say whether a way does something to these files: one release has no page of its own."""
    return way in _OF_WHEELS if "-" in spoiled else way is not Way.GONE or not spoiled


def _fate(root: Path, wheels: Path, trial: tuple[Way, str, str], retries: int) -> Fate:
    way, spoiled, form = trial
    checkout = made(root, wheels, CASES)
    settings = {"UV_HTTP_TIMEOUT": "3", "UV_HTTP_RETRIES": str(retries)}
    settings |= {"REPROMATRIX_INSTALL_SECONDS": str(PATIENCE)}
    begin = time.monotonic()
    with serving(wheels, way, spoiled) as index:
        done = checkout.matrix(**settings, **_told(checkout, index.address, form))
        named = f":{index.bad or index.server_address[1]}"
    seconds = time.monotonic() - begin
    wrong, unsaid = _judged(checkout, done, spoiled, named)
    with serving(wheels) as index:
        checkout.matrix(**settings, **_told(checkout, index.address, form))
    outcomes = checkout.outcomes()
    return Fate(
        what=f"{way}, {spoiled or 'everything'}, {form}",
        counted=wrong,
        unsaid=unsaid,
        not_retried=sum(outcomes.get(cell) != was for cell, was in expected(CASES).items()),
        late=done.code is None or seconds > ENOUGH,
    )


def _told(checkout: Checkout, address: str, form: str) -> Mapping[str, str]:
    """Return the variables that name an index, or write it into pip's own file."""
    none = {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": ""}
    match form:
        case "variable":
            return {**none, "PIP_INDEX_URL": address}
        case "uv":
            return {**none, "UV_DEFAULT_INDEX": address}
        case _:
            path = checkout.home / ".config" / "pip" / "pip.conf"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"[global]\nindex-url = {address}\n")
            return none


def _judged(checkout: Checkout, done: Finished, spoiled: str, named: str) -> tuple[int, int]:
    """Hold what is stored, said and publishable against what can be known of a broken index."""
    whole = {"1.0.0"} if "-" in spoiled else set()
    cells = checkout.cells()
    known = {cell: was for cell, was in expected(CASES).items() if cell[1] in whole}
    results = checkout.outcomes()
    counted = sum(results.get(cell) != known.get(cell) for cell in itertools.chain(results, known))
    refused = checkout.run("publish").code
    counted += done.code != 4 or refused in {0, None} or any(checkout.published.rglob("*"))
    lost = [cell for cell in expected(CASES) if cell[1] not in whole]
    unsaid = sum(
        cells.get(cell, ("", ""))[0] != "unbuildable" or len(cells[cell][1]) < 20 for cell in lost
    )
    said = [done.out, done.err, *(reason for _, reason in cells.values())]
    return counted, unsaid + sum(named in text for text in said)
