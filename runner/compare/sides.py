"""The two sides of a diff, from evidence or from new runs, made comparable."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from repromatrix.runner.compare.checkout import CheckoutRuns, unbuildable
from repromatrix.runner.compare.diff import Rows, compare, without_environment
from repromatrix.runner.errors import Conflict, Interrupted, Problem, RunnerError, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import Grid, survey
from repromatrix.runner.evidence.published import read_publications
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.run import Run, RunListener, known_rows
from repromatrix.runner.model.cell import Cell, Source, belongs, cells_of
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.planning.selection import Selection, environments_of
from repromatrix.runner.project import Project, informed


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffRequest:
    """What both sides share."""

    project: Project
    selection: Selection
    """Cases, precisions and workarounds; its environments are those of the sides of the grid."""
    terms: Terms
    rerun: bool
    watched: Callable[[], AbstractContextManager[RunListener]]
    """Opens the progress display of a part."""

    def environments(self, name: str) -> list[str]:
        """Return an environment of the grid and those that extend it."""
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
    """Keep the cases that have cells in every pair among the named environments."""
    pairs = {name for name in names if project.environments[name].source is Source.PAIR}
    kept = {
        name for name in selection.cases if pairs <= set(project.cases[name].block.environments)
    }
    return dataclasses.replace(selection, cases=frozenset(kept))


_NAME_EVIDENCE = f"Name {answers.STORE}, {answers.SET}, or a snapshot by its name."
_DATED = re.compile(r"\d{4}-\d\d-\d\d(-[a-z])?")
_STORES = frozenset({".sqlite", ".sqlite3", ".db"})


def is_evidence(text: str, loaded: Project) -> bool:
    """Return whether a side is meant to be evidence, even if it does not exist."""
    if text in loaded.names:
        return False
    path = Path(text).expanduser()
    if path.is_dir():
        return (path / "publications.toml").is_file()
    looks = path.suffix in _STORES or _DATED.fullmatch(text) is not None
    return looks or path.exists() or text in read_publications(loaded.paths.published)


def is_publication(text: str, loaded: Project) -> bool:
    """Return whether a side that is evidence is a snapshot of this checkout."""
    return text not in loaded.names and not Path(text).expanduser().exists()


def read_side(text: str, loaded: Project) -> tuple[str, tuple[Observation, ...]]:
    """Return a title of a side, without a path of this machine, and its rows.

    Raises RunnerError where it is missing or unreadable.
    """
    path = Path(text).expanduser()
    if text in loaded.names:
        why = "an environment is compared with another environment"
        raise refuse(Conflict(text, "evidence", why, _NAME_EVIDENCE))
    if path.is_dir():
        try:
            rows = tuple(answers.read_set(path))
        except RunnerError as error:
            if (path / "publications.toml").is_file():
                raise
            fix = error.faults[0].fix or _NAME_EVIDENCE
            raise refuse(Problem(text, "the folder has no publications.toml", fix)) from error
        names = ", ".join(sorted({row.source for row in rows})) or "nothing"
        return f"the published set of {names}", rows
    if path.is_file():
        return f"the store {path.name}", tuple(answers.read_store(path))
    if path.exists():
        raise refuse(Problem(text, "it is neither a file nor a folder", _NAME_EVIDENCE))
    published = loaded.paths.published
    if text not in (known := read_publications(published)):
        if "/" in text or path.suffix in _STORES:
            raise refuse(Problem(text, "the file does not exist", _NAME_EVIDENCE))
        fix = f"Snapshots of this checkout: {', '.join(known) or 'none yet'}."
        raise refuse(Problem(text, "there is neither a file nor a snapshot of this name", fix))
    rows = tuple(row for row in answers.read_set(published) if row.source == text)
    return f"the snapshot {text}", rows


def side(asked: DiffRequest, name: str, rows: Sequence[Observation]) -> Rows:
    """Return what is known of an environment, and of those that extend it by extras."""
    project = informed(asked.project, rows)
    grid = Grid(
        cases={name: case for name, case in project.cases.items() if name in asked.selection.cases},
        environments={each: project.environments[each] for each in asked.environments(name)},
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
    """Run the cells without a result, or the named ones again, and return all rows.

    Raises Interrupted, and RunnerError (exit 4) where an environment cannot be built; what was
    measured is kept either way.
    """
    project, selection = informed(asked.project, rows), asked.selection
    if only is not None:
        selection = dataclasses.replace(selection, only=frozenset(only))
    planned = Run(
        project=project,
        selection=selection,
        terms=asked.terms,
        known=known_rows(rows, project),
        rerun=asked.rerun or only is not None,
    )
    due = frozenset(
        name for name in selection.environments if planned.due(project.environments[name])
    )
    if not due:
        return list(rows)
    selection = dataclasses.replace(selection, environments=due)
    with asked.watched() as listener:
        planned = dataclasses.replace(planned, selection=selection)
        tally = planned.execute(store, listener)
    if tally.interrupted:
        raise Interrupted
    for name, reason in tally.unbuilt.items():
        raise unbuildable(name, reason)
    return [*rows, *store.rows()]


Sides = tuple[Rows, Rows]


def known(asked: DiffRequest, names: tuple[str, str], rows: Sequence[Observation]) -> Sides:
    """Return what rows say of two environments of the grid."""
    return side(asked, names[0], rows), side(asked, names[1], rows)


def of_environments(
    asked: DiffRequest, names: tuple[str, str], rows: Sequence[Observation], store: Store
) -> Sides:
    """Return two environments of the grid; raises RunnerError and Interrupted."""
    rows = measure(asked, store, rows)
    return _settled(asked, functools.partial(known, asked, names), rows, store)


def with_checkout(
    asked: DiffRequest, base: str, bench: CheckoutRuns, rows: Sequence[Observation], store: Store
) -> Sides:
    """Return a release and a checkout in its environment; raises RunnerError and Interrupted."""
    # First of all, so that a checkout that cannot be imported is refused before anything runs.
    bench.prepare(bench.trials(base, side(asked, base, rows)))
    rows = measure(asked, store, rows)
    known = side(asked, base, rows)
    trials = bench.trials(base, known)
    bench.run(bench.prepare(trials), known)

    def sides(rows: Sequence[Observation]) -> Sides:
        return side(asked, base, rows), bench.side(trials)

    return _settled(asked, sides, rows, store)


def _settled(
    asked: DiffRequest,
    sides: Callable[[Sequence[Observation]], Sides],
    rows: Sequence[Observation],
    store: Store,
) -> Sides:
    """Measure again what differs and was measured on another machine, or with another torch.

    Otherwise a difference between two machines would look like one between two sources.
    """
    both = sides(rows)
    elsewhere = frozenset(_foreign(asked, *both))
    return sides(measure(asked, store, rows, elsewhere)) if elsewhere else both


def _foreign(asked: DiffRequest, before: Rows, after: Rows) -> Iterator[Cell]:
    for difference in compare(before, after, asked.project.cases):
        rows = [row for row in (difference.before, difference.after) if row and row.outcome.was_run]
        machines = {(row.provenance.hardware, row.provenance.torch_build) for row in rows}
        if difference.change.differs and len(machines) > 1:
            for row in rows:
                is_ours = row.cell.environment in asked.selection.environments
                if is_ours and row.provenance.run != asked.terms.run:
                    yield row.cell
