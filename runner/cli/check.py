"""`check`: every case and every environment file, installing nothing, all faults at once."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli.options import app, told
from repromatrix.runner.errors import ExitCode, Fault, OldFault, RunnerError
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.judging.lint import crosses, lacking, scrutinise
from repromatrix.runner.judging.verdicts import Judged, by_case, judge_all
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console


@app.command("check")
def check(
    files: Annotated[
        list[Path], typer.Argument(help="Case files; all of `cases/` by default.")
    ] = [],  # noqa: B006 - typer copies it
) -> None:
    """Check all cases and environment files, without installing anything."""
    gc.disable()  # a second of work makes no garbage that is worth looking for
    raise typer.Exit(examine(Paths(), files, told()))


def examine(places: Paths, files: Sequence[Path], console: Console) -> ExitCode:
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


def _needless(places: Paths, found: Project) -> list[Fault]:
    derived = project.derived(found.matrix, found.cases.values())
    return [
        OldFault(
            where=places.shown(path),
            found="a lock that no case asks for",
            allowed="pairs that a case names, extras that a case depends on",
            fix="Remove the file.",
        )
        for path in sorted(places.locks.glob("*+*.txt"))
        if path.stem not in derived
    ]


def _judged(loaded: Project) -> dict[str, list[Judged]]:
    """Ask the published evidence first: this machine is asked of the cases that it does not prove.

    So what was measured here proves what nobody has published, and doubts nothing that somebody
    has.
    """
    judged = _by_case(loaded, answers.published_rows(loaded.places))
    silent = {name for name, rows in judged.items() if lacking(rows)}
    if not silent:
        return judged
    here = _by_case(loaded, answers.both(loaded.places, lambda _: None, silent))
    return judged | {name: here[name] for name in silent}


def _by_case(loaded: Project, rows: Sequence[Observation]) -> dict[str, list[Judged]]:
    evidence = [row for row in rows if row.outcome.is_evidence]
    known_to = project.informed(loaded, evidence)
    chosen = answering_rows(evidence, known_to.cases, known_to.environments)
    judged = by_case(judge_all(chosen.values(), known_to.cases, known_to.environments))
    return {name: judged.get(name, []) for name in known_to.cases}
