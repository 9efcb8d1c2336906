"""`check`: every case and every environment file, installing nothing, all faults at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner import corpus, project, rendering
from runner.environments import shelf
from runner.errors import ExitCode, Fault, RunnerError
from runner.evidence import reading
from runner.judging.proof import lacking
from runner.judging.scrutiny import scrutinise
from runner.model.outcomes import Device

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from runner.places import Places
    from runner.project import Project


def examine(places: Places, files: Sequence[Path], console: Console) -> ExitCode:
    """Print every case that is not proven; raises RunnerError with every fault."""
    faults = _faults(places, files)
    if faults:
        raise RunnerError(faults)
    loaded = project.load(places, files or None)
    unproven = _unproven(loaded)
    for name, lacks in unproven.items():
        console.print(f"{loaded.cases[name].where}: not proven: {'; '.join(lacks)}.", markup=False)
    proven = len(loaded.cases) - len(unproven)
    console.print(
        f"{len(loaded.cases)} cases and {len(loaded.locks)} locks are sound;"
        f" {proven} cases are proven by published or local evidence."
    )
    return ExitCode.AS_EXPECTED


def _faults(places: Places, files: Sequence[Path]) -> list[Fault]:
    matrix = shelf.load_matrix(places)
    chosen = files or corpus.case_files(places.cases)
    cases, more = corpus.load_corpus(places, chosen, matrix.extras)
    derived = project.derived(matrix, cases.values())
    locks, faults = shelf.load_all(places, matrix, derived)
    environments = {name: shelf.environment(matrix, lock) for name, lock in locks.items()}
    faults += more
    if not files:
        faults += _needless(places, derived)
    for case in cases.values():
        faults += scrutinise(case, environments, matrix.precisions, Device)
    return faults


def _needless(places: Places, derived: Sequence[str]) -> list[Fault]:
    return [
        Fault(
            where=places.shown(path),
            found="a lock that no case asks for",
            allowed="pairs that a case names, extras that a case depends on",
            remedy="Remove the file.",
        )
        for path in sorted(places.locks.glob("*+*.txt"))
        if path.stem not in derived
    ]


def _unproven(loaded: Project) -> dict[str, tuple[str, ...]]:
    rows = reading.both(loaded.places, lambda _: None)
    _, grid = rendering.judged_grid(loaded, rows)
    found = {name: lacking(name, grid) for name in loaded.cases}
    return {name: lacks for name, lacks in found.items() if lacks}
