"""`check`: every case and every environment file, installing nothing, all faults at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner import project
from runner.errors import ExitCode, Fault, RunnerError
from runner.evidence import reading
from runner.evidence.survey import choose
from runner.judging.proof import crosses, lacking
from runner.judging.scrutiny import scrutinise
from runner.judging.verdicts import by_case, judge_all
from runner.model.outcomes import Device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
    judged = _judged(found)
    lacks = {name: lacking(rows) for name, rows in judged.items()}
    for name in filter(lacks.__getitem__, lacks):
        console.print(
            f"{found.cases[name].where}: not proven: {'; '.join(lacks[name])}.", markup=False
        )
    _count(found, judged, [name for name in lacks if not lacks[name]], console)
    return ExitCode.AS_EXPECTED


def _count(
    found: Project, judged: Mapping[str, Sequence[Judged]], proven: Sequence[str], console: Console
) -> None:
    across = [name for name in proven if crosses(judged[name])]
    newest = [name for name in proven if crosses(judged[name], since="5.0")]
    console.print(
        f"{len(found.cases)} cases and {len(found.locks)} locks are sound; {len(proven)} cases are"
        f" proven by published or local evidence, {len(across)} of them across releases,"
        f" {len(newest)} inside 5.x."
    )


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


def _judged(loaded: Project) -> dict[str, list[Judged]]:
    """Ask the published evidence first: this machine's is read only where that does not do."""
    judged = _by_case(loaded, reading.published_rows(loaded.places))
    if not any(map(lacking, judged.values())):
        return judged
    return _by_case(loaded, reading.both(loaded.places, lambda _: None))


def _by_case(loaded: Project, rows: Sequence[Observation]) -> dict[str, list[Judged]]:
    known_to = project.informed(loaded, rows)
    chosen = choose(rows, known_to.cases, known_to.environments)
    judged = by_case(judge_all(chosen.values(), known_to.cases, known_to.environments))
    return {name: judged.get(name, []) for name in known_to.cases}
