"""A checkout, read: its axes, its environments and its cases."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.corpus import case_files, load_corpus
from runner.environments import recipes, shelf
from runner.errors import RunnerError
from runner.model.cell import Environment, Source
from runner.model.matrix import MAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from runner.environments.building import Recipe
    from runner.model.case import Case
    from runner.model.lock import Lock
    from runner.model.matrix import Matrix
    from runner.model.observation import Observation
    from runner.places import Places


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """Everything that a command needs to know before it runs or answers anything."""

    places: Places
    matrix: Matrix
    locks: Mapping[str, Lock]
    environments: Mapping[str, Environment]
    cases: Mapping[str, Case]

    @property
    def names(self) -> tuple[str, ...]:
        """The environments in the order of the table."""
        return tuple(self.environments)


def load(places: Places, files: Sequence[Path] | None = None) -> Project:
    """Read a checkout, or other case files with its environments; raises RunnerError."""
    matrix = shelf.load_matrix(places)
    locks, faults = shelf.load_all(places, matrix)
    cases, more = load_corpus(places, case_files(places.cases) if files is None else files)
    if faults or more:
        raise RunnerError([*faults, *more])
    environments = {name: shelf.environment(matrix, locks[name]) for name in locks}
    environments[MAIN] = dataclasses.replace(
        environments[matrix.releases[-1].name], name=MAIN, source=Source.MAIN
    )
    return Project(
        places=places, matrix=matrix, locks=locks, environments=environments, cases=cases
    )


def recipe(loaded: Project, name: str) -> Recipe:
    """Return what to install for a release of a checkout."""
    lock, environment = loaded.locks[name], loaded.environments[name]
    return recipes.recipe(loaded.places, loaded.matrix, lock, environment)


def informed(project: Project, rows: Iterable[Observation]) -> Project:
    """Let evidence say what the environments held that no lock describes: `main`, interpreters.

    Until it is measured, `main` is shown as if it held what the newest release holds.
    """
    environments = dict(project.environments)
    for row in rows:
        environment = _described(row, environments.get(row.cell.environment))
        if environment is not None:
            environments[environment.name] = environment
    main = environments.pop(MAIN)
    environments[MAIN] = main
    return dataclasses.replace(project, environments=environments)


def _described(row: Observation, known: Environment | None) -> Environment | None:
    provenance = row.provenance
    if not provenance.environment_digest or (known and known.source is Source.RELEASE):
        return None
    python = ".".join(provenance.python.split(".")[:2])
    return Environment(
        name=row.cell.environment,
        source=known.source if known else Source.INTERPRETER,
        python=python,
        pins=provenance.packages,
        markers=shelf.markers(python),
        stated_digest=provenance.environment_digest,
    )
