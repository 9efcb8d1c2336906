"""Two and eight runs at once on one store, each of the whole grid of a case: all end well, and each
cell is there once.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from drills import kill

if TYPE_CHECKING:
    from drills.tally import Tally


def drill(tally: Tally, at_once: tuple[int, ...] = (2, 8), times: int = 2) -> None:
    """Start runs side by side, and count what was doubled, lost, told otherwise or left."""
    with tempfile.TemporaryDirectory(dir=kill.quick_disk()) as name:
        scene = kill.fakes(Path(name))
        found = [together(Path(name), scene, number) for number in at_once for _ in range(times)]
    runs = sum(at_once) * times
    note = f"{' and '.join(map(str, at_once))} at once on one store, {len(scene.rows)} cells"
    for what, wrong in (
        ("cells doubled", "doubled"),
        ("cells lost", "lost"),
        ("cells that say something else", "wrong"),
        ("runs that did not end well", "not_resumed"),
        ("processes or files left", "files"),
    ):
        tally.count(
            "concurrent runs", runs, what, sum(len(getattr(one, wrong)) for one in found), note
        )
        note = ""


def together(home: Path, scene: kill.Scene, number: int) -> kill.Found:
    """Run the same several times at once on one store, and return what was wrong afterwards."""
    with tempfile.TemporaryDirectory(dir=home) as name:
        folder = Path(name)
        started = [kill.start(folder, scene, kill.Target.RUNNER) for _ in range(number)]
        said = [one.communicate(timeout=600)[0] for one in started]
        found = kill.Found()
        found.files = [*kill.left_over(folder, scene), *kill.processes_of(folder)]
        rows = kill.stored(folder / scene.store)
    ends = zip(started, said, strict=True)
    found.not_resumed = [out for one, out in ends if one.returncode != scene.code]
    found.doubled = [key for key, held in rows.items() if len(held) > 1]
    found.lost = [key for key in scene.rows if key not in rows]
    found.wrong = [
        key for key, (row, *_) in rows.items() if row.unstable or row.said != scene.rows[key].said
    ]
    return found
