"""`publish`: the results of all cells, written into the repository."""

from __future__ import annotations

import dataclasses
import string
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from repromatrix.runner import files, project, site
from repromatrix.runner.cli.options import Console, command, line_printer
from repromatrix.runner.cli.progress import is_of_main
from repromatrix.runner.compare import snapshots
from repromatrix.runner.compare.snapshots import SnapshotRecord
from repromatrix.runner.environments import development
from repromatrix.runner.errors import ExitCode, Problem, refuse
from repromatrix.runner.evidence import answers, published
from repromatrix.runner.evidence.commits import NAME as COMMITS
from repromatrix.runner.evidence.commits import as_text as commits_text
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.history import NAME as HISTORY
from repromatrix.runner.evidence.history import as_text as history_text
from repromatrix.runner.evidence.history import known_history
from repromatrix.runner.evidence.published import Publication, read_publications
from repromatrix.runner.evidence.snapshot import today
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.observation import UNPUBLISHED, Observation
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import Project
from repromatrix.runner.text import join, plural


@command("publish")
def publish_all(paths: Paths, console: Console) -> ExitCode:
    """Write the results of all cells into the repository, for review and commit.

    Raises RunnerError and writes nothing where cells are missing.
    """
    rows = answers.both(paths, line_printer(console, "yellow"))
    checkout = project.load(paths)
    loaded, grid = site.judged_grid(checkout, rows)
    grid = tuple(each for each in grid if each.seen.cell.environment in checkout.environments)
    searched, torches = _searched(paths, loaded), _under_torches(checkout, rows)
    new = [
        path
        for path, text in searched.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if not any(map(_is_fresh, grid)) and (new or torches):
        files.write_all(searched)
        _write(paths.torches, torches)
        sets = [paths.torches] if torches else []
        console.print(f"Published {join([*map(paths.shown, [*sets, *new])])}.")
        return ExitCode.AS_EXPECTED
    grid = _whole(grid, console)
    earlier = read_publications(paths.published)
    # A name that a change was told under means that publication for good, without cells of its own.
    changes = snapshots.read_changes(paths.published)
    told = {name for record in changes for name in (record.publication, record.against)}
    fresh = _publications(grid, {*earlier, *told})
    final, publications = _published(grid, earlier, fresh)
    texts = published.write(paths.published, final, publications, loaded.names)
    texts |= searched
    texts[paths.published / snapshots.NAME] = snapshots.written(
        _records(paths, loaded, final, next(iter(fresh.values())), changes)
    )
    _write(paths.published, texts)
    _write(paths.torches, torches)
    if disputes := sum(bool(row.sides) for row in final):
        cells = plural(disputes, "cell")
        console.print(f"{cells} disputed between machines; published as unstable.")
    number = f"{plural(len(final), 'cell')} in {plural(len(texts), 'file')}"
    console.print(f"{number}: {paths.shown(paths.published)}")
    return ExitCode.AS_EXPECTED


def _write(folder: Path, texts: Mapping[Path, str]) -> None:
    """Write a set, and remove the files of cells in its folder that are none of it.

    Without any file the set stays as it was published.
    """
    if not texts:
        return
    files.write_all(texts)
    tables, about = (published.cell_files(folder, one) for one in ("csv", "json"))
    for path in [*tables, *about]:
        if path not in texts:
            path.unlink()


def _under_torches(checkout: Project, rows: Iterable[Observation]) -> dict[Path, str]:
    """Return the files of the set under other torches; none where nothing new was measured.

    Nothing is missing from it: it holds the cells that somebody measured.
    """
    paths = checkout.paths
    every = [*answers.under_torches(paths), *rows]
    loaded, judged = site.judged_under_torches(checkout, every)
    if not any(map(_is_fresh, judged)):
        return {}
    earlier = read_publications(paths.torches)
    final, publications = _published(judged, earlier, _publications(judged, earlier))
    held = {row.cell.environment for row in final}
    order = project.torches_in(loaded.matrix, loaded.names, held)
    return published.write(paths.torches, final, publications, order)


def _searched(paths: Paths, loaded: Project) -> dict[Path, str]:
    """Return what was found outside the grid: the files, those of it that hold something."""
    path = paths.published / COMMITS
    commits = [row for row in known_commits(paths).values() if row.case in loaded.cases]
    main = known_history(paths).within(loaded.cases)
    return {
        **({path: commits_text(commits)} if commits or path.exists() else {}),
        **({paths.published / HISTORY: history_text(main)} if main.points else {}),
    }


def _is_fresh(judged: Judged) -> bool:
    return judged.seen.source in UNPUBLISHED and judged.seen.outcome.was_run


def _records(
    paths: Paths,
    loaded: Project,
    final: Sequence[Observation],
    fresh: Publication,
    earlier: tuple[SnapshotRecord, ...],
) -> tuple[SnapshotRecord, ...]:
    """Return what every publication changed, this one first; the very first changes nothing."""
    before = list(published.read(paths.published))
    if not before:
        return earlier
    changed, new, gone = snapshots.compared(before, final, loaded.cases, loaded.names)
    record = SnapshotRecord(
        publication=fresh.name,
        date=fresh.date,
        against=max(row.source for row in before),
        changes=changed,
        new=tuple(new.items()),
        gone=tuple(gone.items()),
    )
    return (record, *earlier)


def _published(
    grid: Iterable[Judged],
    earlier: Mapping[str, Publication],
    fresh: Mapping[_Machine, Publication],
) -> tuple[list[Observation], list[Publication]]:
    """Return what was run under its publication, and the publications of it; on a CPU not stale."""
    rows = [
        judged.seen
        for judged in grid
        if judged.seen.outcome.was_run
        and not (judged.stale and judged.seen.cell.device is Device.CPU)
    ]
    first = next(iter(fresh.values()))  # what could not be built ran nowhere
    final = [
        dataclasses.replace(row, source=fresh.get(_machine(row), first).name)
        if row.source in UNPUBLISHED
        else row
        for row in rows
    ]
    used = {row.source for row in final}
    return final, [each for each in (*earlier.values(), *fresh.values()) if each.name in used]


def _whole(grid: Sequence[Judged], console: Console) -> tuple[Judged, ...]:
    """Return the grid without cases that a GPU measured in part, and say which they are.

    GPUs are lent by the minute: a case that a release was measured with there is published, whether
    or not there was time for the others. Raises RunnerError for missing cells on a CPU.
    """
    missing = {Outcome.NOT_RUN, Outcome.UNBUILDABLE}  # what is not applicable is complete
    gaps = [
        judged.seen.cell
        for judged in grid
        if not is_of_main(judged.seen.cell.environment)
        and (judged.stale or judged.seen.outcome in missing)
    ]
    if lost := Counter(cell.environment for cell in gaps if cell.device is Device.CPU):
        shown = ", ".join(f"{name} ({number})" for name, number in lost.most_common(5))
        what = f"{plural(lost.total(), 'cell')} without a current result: {shown}"
        raise refuse(Problem("publish", what, "Run `nox -s matrix` first."))
    away = [judged for judged in grid if judged.seen.cell.device is not Device.CPU]
    broken = {(cell.environment, cell.case) for cell in gaps}
    begun = {
        (judged.seen.cell.environment, judged.seen.cell.case)
        for judged in away
        if _is_fresh(judged) and not judged.stale
    }
    for environment, case in sorted(broken & begun):
        console.print(f"{case} on {environment} is not published: its cells on cuda are not whole.")
    renewed = {case for _, case in begun}  # what no GPU has run again stays as it was published
    return tuple(
        judged
        for judged in grid
        if judged.seen.cell.device is Device.CPU
        or (judged.seen.cell.environment, judged.seen.cell.case) not in broken
        or (judged.seen.source not in UNPUBLISHED and judged.seen.cell.case not in renewed)
    )


_Machine = tuple[str, str, str]
"""Hardware, torch build and Python: what a publication states once for all its cells."""


def _machine(row: Observation) -> _Machine:
    ran = row.provenance
    return ran.hardware, ran.torch_build, ran.python


def _publications(grid: Iterable[Judged], earlier: Collection[str]) -> dict[_Machine, Publication]:
    """Return a publication of today for each kind of machine that measured something new.

    `earlier` are the names that are taken.
    """
    ran = [judged.seen for judged in grid if _is_fresh(judged)]
    if not ran:
        what = "the store holds no results that are not published yet"
        fix = "Run `nox -s matrix`, or merge results of other machines."
        raise refuse(Problem("publish", what, fix))
    day = today().isoformat()
    free = (day, *(f"{day}-{letter}" for letter in string.ascii_lowercase[1:]))
    names = (name for name in free if name not in earlier)
    kinds = sorted({_machine(row) for row in ran})
    return {
        (hardware, torch_build, python): Publication(
            name=next(names),
            date=day,
            hardware=hardware,
            torch_build=torch_build,
            python=python,
            main=_mains(row for row in ran if _machine(row) == (hardware, torch_build, python)),
        )
        for hardware, torch_build, python in kinds
    }


def _mains(rows: Iterable[Observation]) -> str:
    """Return what `main` was: its version, and of a checkout the day and the repository."""
    on_main = (row for row in rows if is_of_main(row.cell.environment))
    versions = sorted({row.provenance.packages.get("transformers", "") for row in on_main})
    checkout = development.main_checkout()
    if checkout and checkout.version in versions:
        day, repository = checkout.declared.day, development.repository_of(checkout.root)
        described = " ".join(filter(None, (checkout.version, str(day), repository)))
        versions[versions.index(checkout.version)] = described
    return ", ".join(versions) or "not measured"
