"""`publish`: this machine's evidence into the repository, a coherent set or none."""

from __future__ import annotations

import dataclasses
import datetime as dt
import string
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from repromatrix.runner import files, project, site
from repromatrix.runner.cli.options import app, told
from repromatrix.runner.compare import snapshots
from repromatrix.runner.compare.snapshots import SnapshotRecord
from repromatrix.runner.errors import ExitCode, OldFault, refuse
from repromatrix.runner.evidence import answers, published
from repromatrix.runner.evidence.published import Publication, read_publications
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.observation import UNPUBLISHED, Observation
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console


@app.command("publish")
def publish() -> None:
    """Write local evidence of the whole grid into the repository."""
    raise typer.Exit(publish_all(Paths(), told()))


def publish_all(places: Paths, console: Console) -> ExitCode:
    """Write the whole grid, or raise RunnerError and write nothing where cells are missing."""
    rows = answers.both(places, lambda text: console.print(text, style="yellow"))
    checkout = project.load(places)
    loaded, grid = site.judged_grid(checkout, rows)
    grid = tuple(one for one in grid if one.seen.cell.environment in checkout.environments)
    _refuse_gaps(grid)
    earlier = read_publications(places.published)
    fresh = _publications(grid, earlier)
    final = [_named(row, fresh) for row in _evidence(grid)]
    used = {row.source for row in final}
    publications = [one for one in [*earlier.values(), *fresh.values()] if one.name in used]
    texts = published.write(places.published, final, publications, loaded.names)
    texts[places.published / snapshots.NAME] = snapshots.written(
        _records(places, loaded, final, next(iter(fresh.values())))
    )
    _replace(places.published, texts)
    if disputes := sum(bool(row.sides) for row in final):
        console.print(f"{disputes} cells are disputed between machines; published as unstable.")
    console.print(f"{len(final)} cells in {len(texts)} files: {places.shown(places.published)}")
    return ExitCode.AS_EXPECTED


def _records(
    places: Paths, loaded: Project, final: Sequence[Observation], fresh: Publication
) -> tuple[SnapshotRecord, ...]:
    """Return what every publication changed, this one first; the very first changes nothing."""
    earlier = snapshots.read_changes(places.published)
    stood = list(published.read(places.published))
    if not stood:
        return earlier
    changed, new, gone = snapshots.compared(stood, final, loaded.cases, loaded.names)
    record = SnapshotRecord(
        publication=fresh.name,
        date=fresh.date,
        against=max(row.source for row in stood),
        changes=changed,
        new=tuple(new.items()),
        gone=tuple(gone.items()),
    )
    return (record, *earlier)


def _evidence(grid: Iterable[Judged]) -> list[Observation]:
    """Return what is to be published: nothing stale; of `main` its cells, or why there are none.

    Of nothing else is it told that it could not be built, nor on a device that ran nothing.
    """
    rows = [one.seen for one in grid if not one.stale]
    ran = [row for row in rows if row.outcome.was_run]
    if any(map(_is_main, ran)):
        return ran
    devices = {row.cell.device for row in ran}
    why = (row for row in rows if _is_main(row) and row.outcome is Outcome.UNBUILDABLE)
    return [*ran, *(row for row in why if row.cell.device in devices)]


def _is_main(row: Observation) -> bool:
    return row.cell.environment.partition("+")[0] == MAIN


def _refuse_gaps(grid: Sequence[Judged]) -> None:
    """Raise RunnerError where cells are missing: of all releases, on a GPU of each measured one."""
    begun = {(one.seen.cell.device, one.seen.cell.environment) for one in grid if _is_new(one)}
    gaps = [
        one
        for one in grid
        if not _is_main(one.seen)
        and (one.stale or one.seen.outcome in {Outcome.NOT_RUN, Outcome.UNBUILDABLE})
        and (
            one.seen.cell.device is Device.CPU
            or (one.seen.cell.device, one.seen.cell.environment) in begun
        )
    ]
    if gaps:
        counts = Counter(one.seen.cell.environment for one in gaps)
        shown = ", ".join(f"{name} ({number})" for name, number in counts.most_common(5))
        raise refuse(
            OldFault(
                where="publish",
                found=f"{len(gaps)} cells without current evidence: {shown}",
                allowed="a whole grid",
                fix="Run `nox -s matrix` first.",
            )
        )


def _is_new(one: Judged) -> bool:
    return one.seen.source in UNPUBLISHED and one.seen.outcome.was_run and not one.stale


_Class = tuple[str, str, str]
"""Hardware, torch build and Python: what a publication says once for all its cells."""


def _named(row: Observation, fresh: Mapping[_Class, Publication]) -> Observation:
    if row.source not in UNPUBLISHED:
        return row
    # What could not be built ran nowhere.
    one = fresh.get(_class(row)) or next(iter(fresh.values()))
    return dataclasses.replace(row, source=one.name)


def _class(row: Observation) -> _Class:
    ran = row.provenance
    return ran.hardware, ran.torch_build, ran.python


def _publications(
    grid: Iterable[Judged], earlier: Mapping[str, Publication]
) -> dict[_Class, Publication]:
    """Return a publication for each class of machines that measured something new."""
    rows = [one.seen for one in grid if one.seen.source in UNPUBLISHED]
    ran = [row for row in rows if row.outcome.was_run]
    if not ran:
        allowed = "cells measured on this machine, or merged from others"
        raise refuse(OldFault(where="publish", found="no local evidence", allowed=allowed))
    found: dict[_Class, Publication] = {}
    for kind in sorted({_class(row) for row in ran}):
        taken = {*earlier, *(one.name for one in found.values())}
        found[kind] = _publication(kind, [row for row in ran if _class(row) == kind], taken)
    return found


def _publication(kind: _Class, ran: Iterable[Observation], taken: Collection[str]) -> Publication:
    hardware, torch_build, python = kind
    main = {row.provenance.packages.get("transformers", "") for row in ran if _is_main(row)}
    return Publication(
        name=_fresh_name(taken),
        date=_today(),
        hardware=hardware,
        torch_build=torch_build,
        python=python,
        main=_each(main) or "unbuildable",
    )


def _each(found: Iterable[str]) -> str:
    return ", ".join(sorted(set(found)))


def _today() -> str:
    return dt.datetime.now(tz=dt.UTC).date().isoformat()


def _fresh_name(taken: Collection[str]) -> str:
    names = [_today(), *(f"{_today()}-{letter}" for letter in string.ascii_lowercase[1:])]
    return next(name for name in names if name not in taken)


def _replace(folder: Path, texts: Mapping[Path, str]) -> None:
    """Write the whole set or nothing of it, and remove what it holds no longer."""
    files.write_all(texts)
    for left in [*folder.glob("*/*.csv"), *folder.glob("*/*.json")]:
        if left not in texts:
            left.unlink()
