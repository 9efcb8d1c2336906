"""Escapes from the sandbox, each tried by a case in it, and where it does no harm without it."""

from __future__ import annotations

import builtins
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from drills import cells
from drills.escapes import ESCAPES, PAIRS, world

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from drills.cells import Ground
    from drills.escapes import Escape, Pair, World
    from drills.tally import Tally
    from repromatrix.runner.execution.worker_client import Worker

Signs = dict[str, list[str]]
"""What shows that an escape succeeded, by its name."""


def tried(ground: Ground, escapes: Iterable[Escape], *, sandbox: bool, fresh: bool) -> Signs:
    """Let a case try each, forked or in a fresh process; return what shows that it got through."""
    found: Signs = {}
    with (
        world(ground.site_packages, ground.library) as around,
        tempfile.TemporaryDirectory() as folder,
    ):
        left = {}
        for number, one in enumerate(escapes):
            left[one.name] = Path(folder) / f"escape_{number}.py"
            left[one.name].write_text(one.case(around))
        while left:
            with cells.worker(ground, list(left.values()), sandbox=sandbox) as worker:
                for name in list(left):
                    found[name], lost = _signs(worker, around, left.pop(name), fresh=fresh)
                    if lost:
                        break
    return found


def _signs(worker: Worker, around: World, path: Path, *, fresh: bool) -> tuple[list[str], bool]:
    """Return what shows that one got through, and whether it cost the worker."""
    before = path.read_text()
    answers = cells.said(worker, cells.request(path, fresh=fresh))
    lost = cells.LOST in answers
    found = ["it ended its worker"] if lost else []
    for answer in answers.values():
        found += around.signs(f"{answer['output']} {answer.get('message', '')}")
        if not _is_refusal(answer):
            found.append(f"it tried nothing: {answer.get('reason') or answer.get('message')}")
    if path.read_text() != before:
        found.append("it changed its script")
    return found, lost


def _is_refusal(answer: Mapping[str, Any]) -> bool:
    """Say whether an attempt ended as one that is refused does, and not by a fault of its own."""
    if answer["outcome"] != "fails":
        return answer["outcome"] in {"passes", "crashes", "lost"}
    known = getattr(builtins, answer["error_class"], None)
    refused = isinstance(known, type) and issubclass(known, OSError)
    return refused or answer["error_class"] == "gaierror"


def disturbed(ground: Ground, pairs: Iterable[Pair], *, sandbox: bool) -> Signs:
    """Let a case run beside its neighbour, or before it; return what shows in the neighbour."""
    found: Signs = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, pair in enumerate(pairs):
            first, second = (Path(folder) / f"{name}_{number}.py" for name in ("does", "suffers"))
            first.write_text(pair.does)
            second.write_text(pair.suffers)
            slots = 2 if pair.beside else 1
            with cells.worker(ground, [first, second], sandbox=sandbox, slots=slots) as one:
                requests = [cells.request(first, 1), cells.request(second, 2)]
                answers = cells.said(one, *requests, ahead=2)
            second_answer = answers.get(2, {"outcome": "lost", "output": ""})
            outcome = second_answer["outcome"]
            signs = [] if outcome == "passes" else [f"its neighbour {outcome}"]
            found[pair.name] = [
                *signs,
                *(["it said so"] if "escaped" in second_answer["output"] else []),
            ]
    return found


def drill(tally: Tally) -> None:
    """Count the escapes from a sandbox around a real worker, and those that need none."""
    ground = cells.release()
    through: Signs = {}
    for fresh in (False, True):
        began = time.perf_counter()
        signs = tried(ground, ESCAPES, sandbox=True, fresh=fresh)
        through = {name: [*through.get(name, []), *one] for name, one in signs.items()}
        way = "fresh process" if fresh else "fork"
        told = "; ".join(name for name, one in signs.items() if one)
        note = f"{time.perf_counter() - began:.0f} s. {told}".strip()
        tally.count(f"escapes tried, {way}", len(signs), "succeeded", _number(signs), note)
    beside = disturbed(ground, PAIRS, sandbox=True)
    tally.count("ways to a neighbour", len(beside), "neighbours disturbed", _number(beside))
    control(tally, ground)


def control(tally: Tally, ground: Ground) -> None:
    """Try without a sandbox what does no harm there: what fails there as well tries nothing."""
    root = os.getuid() == 0
    harmless = [one for one in ESCAPES if one.harmless and (root or not one.root)]
    open_ = {
        **tried(ground, harmless, sandbox=False, fresh=False),
        **disturbed(ground, PAIRS, sandbox=False),
    }
    failed = [name for name, signs in open_.items() if not signs]
    tally.count(
        "of them tried without a sandbox", len(open_), "failed", len(failed), "; ".join(failed)
    )


def _number(signs: Signs) -> int:
    return sum(bool(one) for one in signs.values())
