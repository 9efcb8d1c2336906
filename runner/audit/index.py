"""The evidence of a checkout as questions take it: cases, environments, and what was measured.

It is made of the published evidence by the code that reads it, and kept where this machine keeps
what it writes. A question reads it in place of some hundred files; their contents are hashed each
time, so what was made of other contents, or by other code, answers nothing.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import packaging
import pydantic
from packaging.markers import default_environment

from repromatrix.runner import project
from repromatrix.runner.audit.known import (
    KnownEvidence,
    Lines,
    MeasuredCell,
    OtherLines,
    concluded,
    measured,
    measured_on,
    still,
)
from repromatrix.runner.audit.torches import torch_requirements
from repromatrix.runner.cases import case_files
from repromatrix.runner.evidence import kept
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.published import (
    ENVIRONMENTS,
    MEASURED,
    PUBLICATIONS,
    Keep,
    PublishedSet,
    in_table,
)
from repromatrix.runner.judging.verdicts import stands
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Line, belongs
from repromatrix.runner.model.environment_name import under_torch, with_torch
from repromatrix.runner.model.matrix import Matrix
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome
from repromatrix.runner.paths import CODE, Paths

_MAKERS = ("audit", "environments", "evidence", "judging", "model")
"""The rooms whose code decides what an index holds, as do the loose modules."""


@dataclass(frozen=True, kw_only=True)
class EvidenceIndex:
    """A checkout, read, with what was measured of every case."""

    paths: Paths
    matrix: Matrix
    environments: Mapping[str, Environment]
    torches: Mapping[str, Environment]
    """The environments under other torches."""
    cases: Mapping[str, Case]
    rows: bytes
    """The published rows, as `published` has them; who is shown none has no need of them."""
    ours: Lines
    others: OtherLines
    doubled: frozenset[Cell]
    """Cells of which several rows are published."""

    @property
    def names(self) -> tuple[str, ...]:
        """The environments in the order of the table."""
        return tuple(self.environments)

    @cached_property
    def published(self) -> tuple[PublishedSet, ...]:
        """The published grid, and what was measured under other torches."""
        found: tuple[PublishedSet, ...] = pickle.loads(self.rows)  # noqa: S301 - of `_made`
        return found

    def known(
        self,
        names: Collection[str],
        keep: Keep,
        torch: str,
        local: Sequence[Observation],
    ) -> KnownEvidence:
        """Return what is known of some cases to somebody with a torch; without one of ours alone.

        `local` is what this machine measured.
        """
        ours = _wanted(self.ours, names, keep)
        others = _wanted(self.others, names, keep) if torch else {}
        local = [row for row in local if torch or not under_torch(row.cell.environment)]
        held = {name for cells in others.values() for name in cells}
        held |= {row.cell.environment for row in local}
        torches = self._under(self._telling(names, held, torch), held) if torch else {}
        environments = {**self.environments, **torches}

        def lines(cell: Cell) -> dict[str, Any]:
            found = others if under_torch(cell.environment) else ours
            return found.setdefault(cell.line, {})

        asked = {row.cell for row in local}
        asked |= {cell for cell in self.doubled if cell.environment in lines(cell)}
        rows = [*local, *(row for cell in asked for row in self._rows(cell))]
        answering, contested = current(rows, self.cases, still(environments))
        for cell in asked:
            lines(cell).pop(cell.environment, None)
        for cell, row in answering.items():
            lines(cell)[cell.environment] = measured(row)

        def row_of(cell: Cell) -> Observation:
            return answering[cell] if cell in answering else next(self._rows(cell))

        return concluded(
            *(self.cases, environments, ours, others, row_of),
            contested=contested,
            commits=known_commits(self.paths).values(),
            torch=torch,
        )

    def _rows(self, cell: Cell) -> Iterator[Observation]:
        return (row for each in self.published for row in each.of(cell))

    def _telling(self, names: Collection[str], held: Collection[str], torch: str) -> list[str]:
        """Return which of some environments are under a torch, or any that is asked for.

        That is where a case depends on torch.
        """
        is_asked = any(torch_requirements(self.cases[name]) for name in names)
        other = self.matrix.torch.other(torch)
        unusable = [with_torch(name, torch) for name in other.unimportable] if other else []
        return [
            *unusable,
            *(
                name
                for name in project.torches_in(self.matrix, self.names, held)
                if is_asked or (under_torch(name) or ("", ""))[1] == torch
            ),
        ]

    def _under(self, names: Sequence[str], held: Collection[str]) -> dict[str, Environment]:
        """Return environments under other torches, also such as only this machine measured."""
        known = self.torches
        if {*names} & {*held} - known.keys():
            loaded = project.load(self.paths, code=False)
            known = project.with_torches(loaded, names).environments
        return {name: known[name] for name in names if name in known}


def _wanted(
    lines: Mapping[Line, Mapping[str, MeasuredCell | None]],
    names: Collection[str],
    keep: Keep,
) -> dict[Line, dict[str, Any]]:
    wanted = {}
    for line, cells in lines.items():
        environments = keep(*line) if line[0] in names else ()
        if environments is None:
            wanted[line] = {**cells}
        elif environments:
            wanted[line] = {name: cell for name, cell in cells.items() if name in environments}
    return wanted


def load(paths: Paths) -> EvidenceIndex:
    """Return the evidence as it stands, as it was kept or else made anew; raises RunnerError."""
    if paths.own:
        return _made(paths)
    place, state = paths.state / "index", _state(paths)
    index: EvidenceIndex | None = kept.read(place, state)
    if index is None:
        index = _made(paths)
        if _state(paths) == state:  # nothing changed meanwhile
            kept.keep(place, state, index)
    return index


def _made(paths: Paths) -> EvidenceIndex:
    """Return what the files say; raises RunnerError."""
    loaded = project.load(paths, code=False)
    published = (PublishedSet(paths.published), PublishedSet(paths.torches))
    held = {
        name for each in published for cells in each.cells(loaded.cases) for name in cells.names
    }
    torches = [
        *(
            with_torch(name, torch.version)
            for torch in loaded.matrix.torch.others
            for name in torch.unimportable
        ),
        *project.torches_in(loaded.matrix, loaded.names, held),
    ]
    environments = project.with_torches(loaded, torches).environments
    ours, others, doubled = _measured(published, loaded.cases, still(environments))
    for case in loaded.cases.values():
        for environment in loaded.environments.values():
            if belongs(case, environment):
                environment.lacking(case.demands)  # what it says is kept with the environment
    return EvidenceIndex(
        paths=paths,
        matrix=loaded.matrix,
        environments=loaded.environments,
        torches={name: environments[name] for name in torches if name in environments},
        cases=loaded.cases,
        rows=pickle.dumps(published, protocol=5),
        ours=ours,
        others=others,
        doubled=doubled,
    )


def _measured(
    published: Iterable[PublishedSet],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> tuple[Lines, OtherLines, frozenset[Cell]]:
    """Return what current rows say, ours and under other torches, and which cells have several."""
    ours: dict[Line, dict[str, MeasuredCell]] = {}
    others: dict[Line, dict[str, MeasuredCell | None]] = {}
    seen: dict[Line, set[str]] = {}
    doubled: set[Cell] = set()
    every = ((one, group) for one in published for group in one.cells(cases))
    for source, (line, case_digest, row, names) in every:
        case, workaround, precision, device = line
        known = seen.setdefault(line, set())
        doubled |= {Cell(case, workaround, name, precision, device) for name in known & {*names}}
        known.update(names)
        with in_table(case, device):
            outcome = Outcome(row.outcome)
            facts = (outcome, Exercised(row.exercised), precision, "unstable" in row.flags.split())
            for name in names:
                held, environment = source.held(name, row.publication), environments.get(name)
                ran = (case_digest, held.digest, MEASURED)
                is_current = environment and stands(ran, cases[case], environment)
                cell = None
                if is_current and outcome.was_run:
                    cell = measured_on(facts, held.torch, held.python)
                if under_torch(name):
                    others.setdefault(line, {})[sys.intern(name)] = cell
                elif cell:
                    ours.setdefault(line, {})[sys.intern(name)] = cell
    return ours, others, frozenset(doubled)


def _state(paths: Paths) -> bytes:
    """Return a digest of all that an index is made from: files, code and platform."""
    versions = (sys.version, packaging.__version__, pydantic.VERSION)
    return kept.digest_of(_files(paths), paths, versions, default_environment(), _code())


@functools.cache
def _code() -> bytes:
    """Return a digest of the code that makes an index, as it was when it was first asked for.

    It may change on the disk while a process that has imported it goes on.
    """
    folders = (CODE, *(CODE / name for name in _MAKERS))
    return kept.digest_of(name for folder in folders for name in kept.in_folder(folder, ".py"))


def _files(paths: Paths) -> Iterator[str]:
    """Yield all files that an index is made from; one may not be there."""
    yield from map(str, case_files(paths.cases))
    yield str(paths.matrix)
    yield str(paths.locks.with_suffix(".tar.xz"))
    yield from kept.in_folder(paths.locks, ".txt")
    for folder in (paths.published, paths.torches):
        yield from (str(folder / PUBLICATIONS), str(folder / ENVIRONMENTS))
        for device in Device:
            yield from kept.in_folder(folder / device, ".csv", ".json")
