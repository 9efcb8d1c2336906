"""Evidence to pages: the one place where the program meets `reports/`."""

from __future__ import annotations

import dataclasses
import functools
import gc
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.runner.compare import snapshots
from repromatrix.runner.evidence import archive
from repromatrix.runner.evidence.answering import (
    Grid,
    answering_rows,
    contradictions,
    dispute,
    survey,
)
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.history import known_history
from repromatrix.runner.evidence.published import read_publications
from repromatrix.runner.judging.verdicts import Judged, judge_all
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.due import due
from repromatrix.runner.planning.plan import Axes
from repromatrix.runner.project import Project, informed, torches_in, with_torches
from repromatrix.runner.sweep.published import (
    CLASSES,
    FOLDER,
    read_findings,
    read_history,
    read_refused,
)
from repromatrix.runner.sweep.triage import load_triage

if TYPE_CHECKING:
    from repromatrix.reports.build import SweptSite


def judged_grid(
    project: Project, rows: Sequence[Observation]
) -> tuple[Project, tuple[Judged, ...]]:
    """Return the whole grid with its meaning, and the project as evidence informs it."""
    known_to = informed(project, rows)
    known = answering_rows(rows, known_to.cases, known_to.environments)
    rule = functools.cache(lambda: due(axes_of(known_to), known))  # mostly nothing asks it
    grid = Grid(
        cases=known_to.cases,
        environments=known_to.environments,
        precisions=known_to.matrix.precisions,
        devices=devices(rows),
        begun={
            (cell.case, cell.environment)
            for cell, row in known.items()
            if cell.device is not Device.CPU and row.outcome.was_run
        },
        due=lambda cell: cell.device is not Device.CPU or rule()(cell),
    )
    judged = judge_all(survey(grid, known), known_to.cases, known_to.environments)
    denied = contradictions(rows, known_to.cases, known_to.environments)
    if denied:
        judged = tuple(
            dataclasses.replace(each, published=denied.get(each.seen.cell)) for each in judged
        )
    return known_to, judged


def axes_of(project: Project) -> Axes:
    """Return the axes of a whole project on a CPU."""
    return Axes(
        cases=project.cases,
        environments=project.environments,
        precisions=project.matrix.precisions,
        device=Device.CPU,
    )


def judged_under_torches(
    project: Project, rows: Sequence[Observation]
) -> tuple[Project, tuple[Judged, ...]]:
    """Return what was measured under other torches with its meaning, and the project with them.

    They are no part of the grid: what was not measured of them is missed by nobody.
    """
    held = {row.cell.environment for row in rows}
    names = torches_in(project.matrix, project.names, held)
    known_to = with_torches(project, names)
    own = [row for row in rows if row.cell.environment in {*names}]
    known = answering_rows(own, known_to.cases, known_to.environments)
    place = {name: number for number, name in enumerate(names)}
    cases = {name: number for number, name in enumerate(known_to.cases)}
    ordered = sorted(
        (row for cell, row in known.items() if cell.case in cases),
        key=lambda row: (cases[row.cell.case], place[row.cell.environment], row.cell),
    )
    return known_to, judge_all(ordered, known_to.cases, known_to.environments)


def devices(rows: Iterable[Observation]) -> tuple[Device, ...]:
    """Return the devices that rows are about, be it only why nothing ran there; else the CPU."""
    found = {row.cell.device for row in rows}
    return tuple(device for device in Device if device in found) or (Device.CPU,)


def identity(
    project: Project, rows: Iterable[Observation], base_url: str = "", source: str = ""
) -> str:
    """Identify what a rendering would show, so that an unchanged one is left alone."""
    content = hashlib.sha256(f"{base_url} {source}".encode())
    # All that is published, and what findings were decided to be.
    for name, path in archive.contents(project.paths).items():
        content.update(name.encode() + path.read_bytes())
    main = project.paths.history
    content.update(main.read_bytes() if main.exists() else b"absent")
    content.update(repr(sorted(known_commits(project.paths).values())).encode())
    for case in project.cases.values():
        content.update(repr((case.head, case.block, case.digest)).encode())
    content.update(repr(project.matrix.releases).encode())
    for environment in project.environments.values():
        content.update(f"{environment.name} {environment.digest}\n".encode())
    for shown in sorted(map(_shown, rows)):
        content.update(shown.encode())
    templates = project.paths.root / "reports"
    # Not deeper: below the site itself lie cases to download.
    programs = [*templates.glob("*.py"), *templates.glob("*/*.py")]
    for path in sorted([*programs, *templates.glob("templates/*"), *templates.glob("static/*")]):
        content.update(path.read_bytes())
    return content.hexdigest()


def _shown(row: Observation) -> str:
    """Return what of a row a page may show: all but the run that it came from."""
    provenance = row.provenance
    digests = (provenance.case_digest, provenance.environment_digest, provenance.hardware)
    facts = (row.failed, row.reason, row.computed, row.measured, row.memory)
    flags = (row.unstable, row.repeats, row.seconds, row.source, dispute(row))
    # An enum writes itself many times slower than the text that it is.
    words = map(str, (*row.cell, row.outcome, row.exercised))
    return repr((*words, *digests, *facts, *flags))


def prepare() -> None:
    """Import what draws: half a second that a run has while its first environment starts."""
    from repromatrix.reports import build  # noqa: F401, PLC0415


def render(
    project: Project,
    rows: Sequence[Observation],
    base_url: str = "",
    source: str = "",
    meant: tuple[Project, Sequence[Judged]] | None = None,
) -> bool:
    """Render the site from evidence; say whether anything had to be done.

    `base_url` is where the site will lie, `source` where the repository does, for what needs an
    address; `meant` is the judged grid of the rows where somebody has it already.
    """
    paths = project.paths
    stamp = paths.site / ".identity"
    wanted = identity(project, rows, base_url, source)
    if _reads(stamp) == wanted and (paths.site / "index.html").exists():
        return False
    from repromatrix.reports.build import Published  # noqa: PLC0415
    from repromatrix.reports.build import render as draw  # noqa: PLC0415 - pandas costs half a second

    gc.freeze()  # what was read stays until the end; looking through it again and again is slow
    known_to, judged = meant or judged_grid(project, rows)
    told = Published(
        publications=read_publications(paths.published),
        records=snapshots.read_changes(paths.published),
        base_url=base_url,
        source=source,
        swept=dataclasses.replace(
            _swept(paths, FOLDER),
            triage=load_triage(paths.recipes),
            classes=_swept(paths, CLASSES),
        ),
        archive=archive.pack(paths),
    )
    environments = _shown_in_the_table(known_to, judged)
    stamp.unlink(missing_ok=True)  # until all of it is drawn it is nothing in particular
    dates = {release.name: release.date.isoformat() for release in known_to.matrix.releases}
    draw(
        *(known_to.cases, environments, judged, paths.site),
        dates=dates,
        commits=known_commits(paths),
        main=known_history(paths),
        published=told,
    )
    stamp.write_text(wanted, "utf-8")
    return True


def _reads(stamp: Path) -> str:
    return stamp.read_text("utf-8") if stamp.exists() else ""


def _swept(paths: Paths, folder: str) -> SweptSite:
    """Return what the sweep published in a folder; decisions are about all folders."""
    from repromatrix.reports.build import SweptSite  # noqa: PLC0415

    return SweptSite(
        history=read_history(paths.published, folder),
        findings=read_findings(paths.published, folder),
        refused=read_refused(paths.published, folder),
    )


def _shown_in_the_table(project: Project, judged: Iterable[Judged]) -> list[Environment]:
    """Return the environments in order; `main` only where something was run on it."""
    ran = {row.seen.cell.environment for row in judged if row.seen.outcome.was_run}
    return [
        environment
        for environment in project.environments.values()
        if environment.source is not Source.MAIN or environment.name in ran
    ]


def index(paths: Paths) -> str:
    """Return where the table is, as a reader of the checkout writes it."""
    return paths.shown(paths.site / "index.html")


def case_page(base_url: str, case: str) -> str:
    """Return the address of the page of a case on the site that lies at `base_url`."""
    from repromatrix.reports.text import page_of  # noqa: PLC0415

    return f"{base_url}{page_of(case)}"
