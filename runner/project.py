"""A checkout, read: its axes, its environments and its cases."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from repromatrix.runner.cases import case_files, load_corpus
from repromatrix.runner.errors import ExitCode, Fault, Problem, RunnerError, refuse
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.environment_name import taken_apart, under_torch, with_extras
from repromatrix.runner.model.lock import Lock, overlaid
from repromatrix.runner.model.matrix import MAIN, Matrix
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.requirements import unsatisfied
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from repromatrix.runner.environments.building import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """Everything that a command needs to know before it runs or answers anything."""

    paths: Paths
    matrix: Matrix
    locks: Mapping[str, Lock]
    environments: Mapping[str, Environment]
    cases: Mapping[str, Case]

    @property
    def names(self) -> tuple[str, ...]:
        """The environments in the order of the table."""
        return tuple(self.environments)


def load(
    paths: Paths,
    files: Sequence[Path] | None = None,
    also: Iterable[str] = (),
    *,
    code: bool = True,
) -> Project:
    """Read a checkout, or other case files with its environments; raises RunnerError.

    `also` names derived environments that no case asks for. Without `code` the cases are not
    parsed as Python: who runs none has no need of it.
    """
    found, faults = read(paths, files, also, code=code)
    if faults:
        raise RunnerError(faults)
    return found


def read(
    paths: Paths,
    files: Sequence[Path] | None = None,
    also: Iterable[str] = (),
    *,
    code: bool = True,
) -> tuple[Project, list[Fault]]:
    """Read what is sound of a checkout, and every fault of the rest; raises RunnerError.

    It is raised where the matrix cannot be read: nothing else means anything without it.
    """
    from repromatrix.runner.environments import locks  # noqa: PLC0415 - an index does without

    matrix = locks.load_matrix(paths)
    chosen = case_files(paths.cases) if files is None else files
    cases, faults = load_corpus(paths, chosen, matrix.extras, code=code)
    wanted = dict.fromkeys([*derived(matrix, cases.values()), *also])
    read_locks, more = locks.load_all(paths, matrix, wanted)
    found = Project(
        paths=paths,
        matrix=matrix,
        locks=read_locks,
        environments=environments_of(matrix, read_locks),
        cases=cases,
    )
    return found, [*more, *faults]


def derived(matrix: Matrix, cases: Iterable[Case]) -> tuple[str, ...]:
    """Return the environments that cases need beside the releases: extras first, then pairs."""
    wanted: dict[str, None] = {}
    pairs: dict[str, None] = {}
    for case in cases:
        if case.extras:
            names = [release.name for release in matrix.releases if _may_run(case, release.name)]
            wanted.update(dict.fromkeys(with_extras(name, case.extras) for name in names))
        pairs.update(dict.fromkeys(case.block.environments))
    return (*wanted, *sorted(pairs, key=_by_version))


def _may_run(case: Case, release: str) -> bool:
    """Say whether a release satisfies a case; without that its extras are needed by nobody."""
    asked = [one for one in case.head.dependencies if one.name == "transformers"]
    return not unsatisfied(asked, {"transformers": release}, {})


def _by_version(name: str) -> tuple[Version, tuple[tuple[str, Version], ...], str]:
    parts = taken_apart(name)
    changed = tuple((package, Version(version)) for package, version in parts.changed)
    return Version(parts.base), changed, name


def environments_of(matrix: Matrix, by_name: Mapping[str, Lock]) -> dict[str, Environment]:
    """Return the environments in the order of the table: releases, main, extras, pairs.

    Until `main` is built nobody knows what it holds: it stands there as the newest release.
    """
    from repromatrix.runner.environments import locks  # noqa: PLC0415 - an index does without

    made = {name: locks.environment(matrix, lock) for name, lock in by_name.items()}
    newest = matrix.releases[-1].name
    mains = {
        name.replace(newest, MAIN, 1): dataclasses.replace(
            made[name], name=name.replace(newest, MAIN, 1), source=Source.MAIN
        )
        for name in made
        if made[name].source is Source.RELEASE and taken_apart(name).base == newest
    }
    releases = {
        name: made[name] for name in made if name in {release.name for release in matrix.releases}
    }
    main = {name: mains[name] for name in mains if name == MAIN}
    return {**releases, **main, **made, **mains}


def with_torches(loaded: Project, names: Iterable[str]) -> Project:
    """Return a checkout with some of its releases under other torches; raises RunnerError.

    A name whose release or torch the matrix does not have is left out: it is older evidence.
    """
    from repromatrix.runner.environments import locks  # noqa: PLC0415 - an index does without

    torches: dict[str, Lock] = {}
    found: dict[str, Lock] = {}
    for name in names:
        base, version = under_torch(name) or ("", "")
        if base in loaded.locks and loaded.matrix.torch.other(version):
            if version not in torches:
                torches[version] = locks.load_torch(loaded.paths, loaded.matrix, version)
            over = overlaid(loaded.locks[base], torches[version])
            found[name] = dataclasses.replace(over, name=name)
    made = {name: locks.environment(loaded.matrix, lock) for name, lock in found.items()}
    return dataclasses.replace(
        loaded, locks={**loaded.locks, **found}, environments={**loaded.environments, **made}
    )


def torches_in(matrix: Matrix, bases: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return which of some environments are under other torches, in the order of the table.

    `bases` is that order. What the matrix no longer has is left out.
    """
    under = {parts: name for name in names if (parts := under_torch(name))}
    declared = [torch.version for torch in matrix.torch.others]
    every = ((base, version) for base in bases for version in declared)
    return tuple(under[parts] for parts in every if parts in under)


def recipe(loaded: Project, name: str) -> Recipe:
    """Return what to install for an environment of a checkout that has a lock."""
    from repromatrix.runner.environments import locks  # noqa: PLC0415 - an index does without

    lock, environment = loaded.locks[name], loaded.environments[name]
    if lock.unresolved:
        raise refuse(Problem(name, lock.unresolved), ExitCode.UNBUILDABLE)
    return locks.recipe(loaded.matrix, lock, environment)


def informed(project: Project, rows: Iterable[Observation]) -> Project:
    """Let evidence say what the environments held that no lock describes: `main`, interpreters.

    Until it is measured, `main` is shown as if it held what the newest release holds.
    """
    environments = dict(project.environments)
    for row in rows:
        environment = _described(row, environments.get(row.cell.environment))
        if environment is not None:
            environments[environment.name] = environment
    return dataclasses.replace(project, environments=_by_place(environments, project.matrix))


def _by_place(environments: Mapping[str, Environment], matrix: Matrix) -> dict[str, Environment]:
    """Put `main` where its version stands: measured long ago, it is older than the newest."""
    names = list(environments)
    if MAIN in environments:
        names.remove(MAIN)
        version = Version(environments[MAIN].version("transformers") or "0")
        newer = (one.name for one in matrix.releases if Version(one.name) > version)
        first = next((name for name in newer if name in environments), "")
        places = [names.index(one.name) for one in matrix.releases if one.name in names]
        names.insert(names.index(first) if first else max(places, default=-1) + 1, MAIN)
    return {name: environments[name] for name in names}


def _described(row: Observation, known: Environment | None) -> Environment | None:
    provenance = row.provenance
    if not provenance.environment_digest or (known and known.source.has_lock):
        return None
    if known is None and under_torch(row.cell.environment):
        return None
    from repromatrix.runner.environments import locks  # noqa: PLC0415 - an index does without

    python = ".".join(provenance.python.split(".")[:2])
    return Environment(
        name=row.cell.environment,
        source=known.source if known else Source.INTERPRETER,
        python=python,
        pins=provenance.packages,
        markers=locks.markers(python),
        stated_digest=provenance.environment_digest,
    )
