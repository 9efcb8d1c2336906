"""The two sides of a diff, from evidence or from new runs, made comparable."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.runner.compare.diff import Rows, compare, without_environment
from repromatrix.runner.errors import ExitCode, Interrupted, OldFault, RunnerError, refuse
from repromatrix.runner.evidence import foreign
from repromatrix.runner.evidence.grid import Grid, survey
from repromatrix.runner.evidence.published import read_publications
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.run import Run, RunListener, known_rows
from repromatrix.runner.model.cell import Cell, Source, belongs, cells_of
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import Selection, environments_of
from repromatrix.runner.project import Project, informed

if TYPE_CHECKING:
    from repromatrix.runner.compare.checkout import CheckoutRuns


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffRequest:
    """What both sides share."""

    project: Project
    selection: Selection
    """Cases, precisions and workarounds; its environments are those of the sides of the grid."""
    terms: Terms
    rerun: bool
    watched: Callable[[], AbstractContextManager[RunListener]]
    """Opens what shows the progress of a part."""

    def environments(self, name: str) -> list[str]:
        """Return an environment of the grid and what is laid on top of it."""
        return environments_of([name], self.project.names)

    def cells(self, base: str) -> tuple[Cell, ...]:
        """Return the cells that were asked for in an environment of the grid."""
        environment = self.project.environments[base]
        return tuple(
            cell
            for name, case in self.project.cases.items()
            if name in self.selection.cases and belongs(case, environment)
            for cell in cells_of(case, base, self.project.matrix.precisions, self.terms.device)
            if self.selection(cell)
        )


def of_pairs(selection: Selection, project: Project, names: list[str]) -> Selection:
    """Leave the cases that are asked about on every pair among the named environments."""
    pairs = {name for name in names if project.environments[name].source is Source.PAIR}
    kept = {
        name for name in selection.cases if pairs <= set(project.cases[name].block.environments)
    }
    return dataclasses.replace(selection, cases=frozenset(kept))


ALLOWED = f"evidence on both sides: {foreign.STORE}, {foreign.SET}, or a publication by its name"
_DATED = re.compile(r"\d{4}-\d\d-\d\d(-[a-z])?")
_STORES = frozenset({".sqlite", ".sqlite3", ".db"})


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceSide:
    """What one side holds, and what it is in words without a path of this machine."""

    title: str
    rows: tuple[Observation, ...]


def is_evidence(text: str, loaded: Project) -> bool:
    """Say whether a side is meant to be evidence, be it there or not."""
    if text in loaded.names:
        return False
    path = Path(text).expanduser()
    if path.is_dir():
        return (path / "publications.toml").is_file()
    looks = path.suffix in _STORES or _DATED.fullmatch(text) is not None
    return looks or path.exists() or text in read_publications(loaded.places.published)


def is_publication(text: str, loaded: Project) -> bool:
    """Say whether a side that is evidence is a publication of this checkout."""
    return text not in loaded.names and not Path(text).expanduser().exists()


def read_side(text: str, loaded: Project) -> EvidenceSide:
    """Return what a side holds; raises RunnerError where it is none, or not to be read."""
    path = Path(text).expanduser()
    if text in loaded.names:
        raise _mixed(text, "an environment beside evidence")
    if path.is_dir():
        return _of_folder(text, path)
    if path.is_file():
        rows = tuple(foreign.read_store(path))
        return EvidenceSide(title=f"the store {path.name}", rows=rows)
    if path.exists():
        raise _mixed(text, "neither a file nor a folder")
    return _of_publication(text, loaded.places)


def _of_folder(text: str, path: Path) -> EvidenceSide:
    try:
        rows = tuple(foreign.read_set(path))
    except RunnerError as error:
        if (path / "publications.toml").is_file():
            raise
        remedy = error.faults[0].fix
        raise _mixed(text, "a folder without publications.toml", remedy) from error
    named = ", ".join(sorted({row.source for row in rows})) or "nothing"
    return EvidenceSide(title=f"the published set of {named}", rows=rows)


def _of_publication(text: str, places: Paths) -> EvidenceSide:
    known = read_publications(places.published)
    if text not in known:
        if _is_path(text):
            raise _mixed(text, "no such file")
        named = ", ".join(known) or "none yet"
        raise _mixed(
            text,
            "no such file, and no such publication",
            f"Publications of this checkout: {named}.",
        )
    rows = tuple(row for row in foreign.read_set(places.published) if row.source == text)
    return EvidenceSide(title=f"the publication {text}", rows=rows)


def _is_path(text: str) -> bool:
    return "/" in text or Path(text).suffix in _STORES


def _mixed(text: str, found: str, remedy: str = "") -> RunnerError:
    return refuse(OldFault(where=text, found=found, allowed=ALLOWED, fix=remedy))


def side(asked: DiffRequest, name: str, rows: Sequence[Observation]) -> Rows:
    """Return what is known of an environment, and of the extras that are laid on top of it."""
    project = informed(asked.project, rows)
    grid = Grid(
        cases={one: project.cases[one] for one in project.cases if one in asked.selection.cases},
        environments={one: project.environments[one] for one in asked.environments(name)},
        precisions=project.matrix.precisions,
        devices=(asked.terms.device,),
    )
    known = known_rows(rows, project)
    return {
        without_environment(row.cell): row
        for row in survey(grid, known)
        if asked.selection(row.cell)
    }


def measure(
    asked: DiffRequest,
    store: Store,
    rows: Sequence[Observation],
    only: Collection[Cell] | None = None,
) -> list[Observation]:
    """Run what no evidence answers, or what is named, and return all rows there are then.

    Raises Interrupted, and RunnerError (exit 4) where an environment cannot be built; what was
    measured is kept either way.
    """
    planned = _planned(asked, rows, only)
    environments = planned.project.environments
    wanted = {name for name in planned.selection.environments if planned.due(environments[name])}
    if not wanted:
        return list(rows)
    chosen = dataclasses.replace(planned.selection, environments=frozenset(wanted))
    planned = dataclasses.replace(planned, selection=chosen)
    with asked.watched() as audience:
        tally = planned.execute(store, audience)
    if tally.interrupted:
        raise Interrupted
    _refuse_unbuilt(tally.unbuilt)
    return [*rows, *store.rows()]


def _planned(asked: DiffRequest, rows: Sequence[Observation], only: Collection[Cell] | None) -> Run:
    project = informed(asked.project, rows)
    selection = asked.selection
    if only is not None:
        selection = dataclasses.replace(selection, only=frozenset(only))
    return Run(
        project=project,
        selection=selection,
        terms=asked.terms,
        known=known_rows(rows, project),
        rerun=asked.rerun or only is not None,
    )


def _refuse_unbuilt(unbuilt: Mapping[str, str]) -> None:
    faults = [
        OldFault(
            where=name, found=f"unbuildable: {reason}", allowed="an environment that can be made"
        )
        for name, reason in unbuilt.items()
    ]
    if faults:
        raise refuse(faults[0], ExitCode.UNBUILDABLE)


Sides = tuple[Rows, Rows]


def of_environments(
    asked: DiffRequest, names: tuple[str, str], rows: Sequence[Observation], store: Store
) -> Sides:
    """Return two environments of the grid; raises RunnerError and Interrupted."""
    rows = measure(asked, store, rows)

    def sides(rows: Sequence[Observation]) -> Sides:
        return side(asked, names[0], rows), side(asked, names[1], rows)

    return _settled(asked, sides, rows, store)


def with_checkout(
    asked: DiffRequest, base: str, bench: CheckoutRuns, rows: Sequence[Observation], store: Store
) -> Sides:
    """Return a release and a checkout in its environment; raises RunnerError and Interrupted."""
    # First: one that cannot be imported is told before anything is measured.
    bench.prepare(bench.trials(base, side(asked, base, rows)))
    rows = measure(asked, store, rows)
    known = side(asked, base, rows)
    found = bench.trials(base, known)
    bench.run(bench.prepare(found), known)

    def sides(rows: Sequence[Observation]) -> Sides:
        before = side(asked, base, rows)
        return before, bench.side(found, before)

    return _settled(asked, sides, rows, store)


def _settled(
    asked: DiffRequest,
    sides: Callable[[Sequence[Observation]], Sides],
    rows: Sequence[Observation],
    store: Store,
) -> Sides:
    """Measure again what differs and was measured on another machine, or with another torch.

    Otherwise a difference between two machines would be told as one between two sources.
    """
    found = sides(rows)
    foreign = frozenset(_foreign(asked, *found))
    return sides(measure(asked, store, rows, foreign)) if foreign else found


def _foreign(asked: DiffRequest, before: Rows, after: Rows) -> Iterator[Cell]:
    within: Collection[str] = asked.selection.environments
    for difference in compare(before, after, asked.project.cases):
        both = [row for row in (difference.before, difference.after) if row and row.outcome.was_run]
        if difference.change.differs and len({_ground(row) for row in both}) > 1:
            for row in both:
                if row.cell.environment in within and row.provenance.run != asked.terms.run:
                    yield row.cell


def _ground(row: Observation) -> tuple[str, str]:
    return row.provenance.hardware, row.provenance.torch_build
