"""Evidence to pages: the one place where the program meets `reports/`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.reports.parts import IDENTITY, Inputs, Memory, digest_of
from repromatrix.runner.cases import case_files
from repromatrix.runner.compare import snapshots
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.evidence import kept
from repromatrix.runner.evidence.answering import (
    Grid,
    about,
    agrees,
    answering_rows,
    contradictions,
    dispute,
    survey,
)
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.history import known_history
from repromatrix.runner.evidence.published import read_publications
from repromatrix.runner.evidence.swept.published import (
    CLASSES,
    FOLDER,
    read_findings,
    read_history,
    read_refused,
)
from repromatrix.runner.evidence.swept.triage import load_triage
from repromatrix.runner.judging.verdicts import Judged, judge_all
from repromatrix.runner.model.case import Case, stem_of
from repromatrix.runner.model.cell import Cell, Environment, Source
from repromatrix.runner.model.observation import UNPUBLISHED, Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import CODE, Paths
from repromatrix.runner.planning.plan import Axes, due
from repromatrix.runner.project import Project, informed, torches_in, with_torches
from repromatrix.runner.subprocesses import lock

if TYPE_CHECKING:
    from repromatrix.reports.site import Published, SweptSite


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
        due=lambda cell: (
            cell.device is not Device.CPU
            or known_to.environments[cell.environment].source is not Source.RELEASE
            or rule()(cell)
        ),
    )
    judged = judge_all(survey(grid, known), known_to.cases, known_to.environments)
    denied = contradictions(rows, known_to.cases, known_to.environments)
    if denied:
        judged = tuple(
            dataclasses.replace(each, published=denied.get(each.seen.cell)) for each in judged
        )
    return known_to, judged


def agreeing_with_published(
    rows: Iterable[Observation],
    judged: Iterable[Judged],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> tuple[dict[Cell, Judged], dict[Cell, Judged]]:
    """Return what this machine measured as it is published, and what is published of it.

    These are the cells of which all that this machine has says and means what is published.
    """
    local = (row for row in judged if row.seen.source in UNPUBLISHED)
    # What an environment without a lock holds is told by the rows themselves.
    locked = {name for name, each in environments.items() if each.source.has_lock}
    here = {row.seen.cell: row for row in local if row.seen.cell.environment in locked}
    known: dict[Cell, list[Observation]] = {cell: [] for cell in here}
    for row in rows if here else ():
        if row.cell in known:
            known[row.cell].append(row)
    alike = (_alike(here[cell].seen, every) for cell, every in known.items())
    told = judge_all(filter(None, alike), cases, environments)
    same = {row.seen.cell: row for row in told if row.verdict is here[row.seen.cell].verdict}
    return {cell: here[cell] for cell in same}, same


def _alike(answer: Observation, rows: Sequence[Observation]) -> Observation | None:
    """Return the published row of a cell where the row that answers, and all others, agree."""
    published = [row for row in rows if row.source not in UNPUBLISHED]
    if len(published) != 1 or not agrees(answer, published[0]):
        return None
    others = (row for row in rows if about(row) == about(answer))
    return published[0] if all(agrees(row, published[0]) for row in others) else None


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


def published_inputs(paths: Paths, base_url: str = "", source: str = "") -> Inputs:
    """Return the digests of all that a site is drawn from but this machine's rows.

    They are taken before the rows are read: what changes in between is then drawn once more.
    """
    common = hashlib.sha256(f"{base_url} {source}".encode())
    scripts: dict[str, str] = {}
    cells: dict[str, list[str]] = {}
    for name, path in _published_files(paths).items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if path.parent == paths.cases:
            scripts[path.stem] = digest
        elif path.parent.name in {*Device} and path.parent.parent == paths.published:
            cells.setdefault(path.stem, []).append(f"{name} {digest}")
        else:
            common.update(f"{name} {digest}\n".encode())
    common.update(repr(sorted(scripts)).encode())
    for path in [*_programs(), paths.commits, paths.history]:
        common.update(path.read_bytes() if path.exists() else b"absent")
    by_case = {
        name: digest_of(scripts.get(stem_of(name), ""), sorted(cells.get(name, ())))
        for name in {*scripts, *cells}
    }
    return Inputs(common=common.hexdigest(), cases=by_case)


def _published_files(paths: Paths) -> dict[str, Path]:
    found = [
        *case_files(paths.cases),
        paths.matrix,
        *paths.locks.glob("*.txt"),
        paths.locks.with_suffix(".tar.xz"),  # what an installation has in place of the folder
        *paths.published.rglob("*.*"),
    ]
    named = {path.relative_to(paths.root).as_posix(): path for path in found if path.is_file()}
    return dict(sorted(named.items()))


def _programs() -> list[Path]:
    runner = sorted(CODE.rglob("*.py"))
    reports = CODE.parent / "reports"
    folders = ("*.py", "*/*.py", "templates/*", "static/*")
    return [*runner, *sorted(path for each in folders for path in reports.glob(each))]


def with_local(published: Inputs, rows: Iterable[Observation]) -> Inputs:
    """Add what of this machine's rows a page may show."""
    shown: dict[str, list[str]] = {}
    for row in rows:
        if row.source in UNPUBLISHED:
            shown.setdefault(row.cell.case, []).append(_shown(row))
    own = {
        name: digest_of(
            published.cases.get(name) or published.cases.get(stem_of(name)), sorted(said)
        )
        for name, said in shown.items()
    }
    return Inputs(common=published.common, cases={**published.cases, **own})


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


def is_drawn(paths: Paths, inputs: Inputs) -> bool:
    """Say whether the site shows exactly this."""
    stamp = _stamp(paths)
    is_whole = stamp.exists() and (paths.site / "index.html").exists()
    return is_whole and stamp.read_text("utf-8") == inputs.identity


def render(
    project: Project,
    rows: Sequence[Observation],
    published: Inputs,
    meant: tuple[Project, Sequence[Judged]] | None = None,
    addresses: tuple[str, str] = ("", ""),
) -> bool:
    """Render the site from evidence; say whether anything had to be done.

    `published` are the digests from before the rows were read. `meant` is the judged grid of the
    rows where somebody has it already. The addresses are where the site will lie, and where the
    repository does.
    """
    paths = project.paths
    with _alone(paths):
        inputs = with_local(published, rows)
        if is_drawn(paths, inputs):
            return False
        _render(project, rows, (published, inputs), meant, addresses)
    return True


_DRAWING = 600.0
"""Seconds that another run may draw the site before this one gives up."""


@contextlib.contextmanager
def _alone(paths: Paths) -> Iterator[None]:
    """Let nobody else draw the site for the length of a block: its files would be of two."""
    paths.site.mkdir(parents=True, exist_ok=True)
    folder = os.open(paths.site, os.O_RDONLY)  # a file for the lock would stay
    try:
        is_free = True
        with contextlib.suppress(OSError):  # some disks have no locks
            is_free = lock(folder, _DRAWING)
        if not is_free:
            what = f"another run has been drawing it for {_DRAWING:.0f} s"
            raise refuse(Problem(index(paths), what, "Run it again when that has ended."))
        yield
    finally:
        os.close(folder)


def _render(
    project: Project,
    rows: Sequence[Observation],
    digests: tuple[Inputs, Inputs],
    meant: tuple[Project, Sequence[Judged]] | None,
    addresses: tuple[str, str],
) -> None:
    """Render the site; the digests are those without this machine's rows, and with them."""
    from repromatrix.reports.build import render as draw  # noqa: PLC0415 - templates take a while

    paths, (published, inputs) = project.paths, digests
    gc.freeze()  # what was read stays until the end; looking through it again and again is slow
    known_to, judged = meant or judged_grid(project, rows)
    here, told = agreeing_with_published(rows, judged, known_to.cases, known_to.environments)
    others = (row for row in rows if row.cell not in told or not agrees(row, told[row.cell].seen))
    inputs = dataclasses.replace(inputs, shared=with_local(published, others).cases)
    known: Memory | None = kept.read(paths.drawn, _drawn_state(paths))
    if _stamp(paths).exists():  # until all of it is drawn it is nothing in particular
        _stamp(paths).write_text("", "utf-8")
    dates = {release.name: release.date.isoformat() for release in known_to.matrix.releases}
    drawn = draw(
        *(known_to.cases, _shown_in_the_table(known_to, judged)),
        *((told.get(row.seen.cell, row) for row in judged), paths.site),
        dates=dates,
        commits=known_commits(paths),
        main=known_history(paths),
        published=_published(paths, *addresses),
        inputs=inputs,
        known=known,
        here=here,
    )
    _stamp(paths).write_text(inputs.identity, "utf-8")
    if not os.environ.get("REPROMATRIX_SITE"):  # elsewhere the next drawing is spared nothing
        kept.keep(paths.drawn, _drawn_state(paths), drawn)


def _published(paths: Paths, base_url: str, source: str) -> Published:
    from repromatrix.reports.site import Published  # noqa: PLC0415

    return Published(
        publications=read_publications(paths.published),
        records=snapshots.read_changes(paths.published),
        base_url=base_url,
        source=source,
        swept=dataclasses.replace(
            _swept(paths, FOLDER),
            triage=load_triage(paths.published / FOLDER),
            classes=_swept(paths, CLASSES),
        ),
    )


def _stamp(paths: Paths) -> Path:
    return paths.site / IDENTITY


def _drawn_state(paths: Paths) -> bytes:
    """Return a digest of what the site says that it shows: nothing until it is whole."""
    return kept.digest_of([str(_stamp(paths))])


def _swept(paths: Paths, folder: str) -> SweptSite:
    """Return what the sweep published in a folder; decisions are about all folders."""
    from repromatrix.reports.site import SweptSite  # noqa: PLC0415

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
