"""`check`: every case and every environment file, installing nothing, all faults at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner import project
from runner.errors import ExitCode, Fault, RunnerError
from runner.evidence import reading
from runner.evidence.survey import choose
from runner.judging.proof import lacking
from runner.judging.scrutiny import scrutinise
from runner.judging.verdicts import judge_all
from runner.model.outcomes import Device

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from runner.judging.verdicts import Judged
    from runner.model.observation import Observation
    from runner.places import Places
    from runner.project import Project


def examine(places: Places, files: Sequence[Path], console: Console) -> ExitCode:
    """Print every case that is not proven; raises RunnerError with every fault."""
    found, faults = project.read(places, files or None)
    for case in found.cases.values():
        faults += scrutinise(case, found.environments, found.matrix.precisions, Device)
    if not files:
        faults += _needless(places, found)
    if faults:
        raise RunnerError(faults)
    unproven = _unproven(found)
    for name, lacks in unproven.items():
        console.print(f"{found.cases[name].where}: not proven: {'; '.join(lacks)}.", markup=False)
    proven = len(found.cases) - len(unproven)
    console.print(
        f"{len(found.cases)} cases and {len(found.locks)} locks are sound;"
        f" {proven} cases are proven by published or local evidence."
    )
    return ExitCode.AS_EXPECTED


def _needless(places: Places, found: Project) -> list[Fault]:
    derived = project.derived(found.matrix, found.cases.values())
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
    """Ask the published evidence first: this machine's is read only where that does not do."""
    rows = reading.published_rows(loaded.places)
    lacks = _lacks(loaded, rows)
    if not lacks:
        return lacks
    return _lacks(loaded, reading.both(loaded.places, lambda _: None))


def _lacks(loaded: Project, rows: Sequence[Observation]) -> dict[str, tuple[str, ...]]:
    known_to = project.informed(loaded, rows)
    chosen = choose(rows, known_to.cases, known_to.environments)
    by_case: dict[str, list[Judged]] = {name: [] for name in known_to.cases}
    for one in judge_all(chosen.values(), known_to.cases, known_to.environments):
        by_case[one.seen.cell.case].append(one)
    found = {name: lacking(judged) for name, judged in by_case.items()}
    return {name: lacks for name, lacks in found.items() if lacks}
