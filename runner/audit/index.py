"""The index: cases, environments and what was measured, ready for questions.

It is made from the published evidence by the code that reads it, and kept where this machine keeps
what it writes. A question reads it in place of some hundred files; their contents are hashed each
time, so an index of other contents, or of other code, answers nothing. Whatever is wrong with it,
the files are read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import os
import pickle
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import packaging
import pydantic
from packaging.markers import default_environment

from repromatrix.runner import files, project
from repromatrix.runner.audit.known import (
    KnownEvidence,
    Lines,
    MeasuredCell,
    concluded,
    lines_of,
    measured,
    measured_on,
    still,
)
from repromatrix.runner.cases import case_files
from repromatrix.runner.errors import Problem, RunnerError, refuse
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.published import (
    ENVIRONMENTS,
    PUBLICATIONS,
    Keep,
    PublishedSet,
    read_groups,
)
from repromatrix.runner.files import UnwritableError
from repromatrix.runner.judging.verdicts import stands
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Line, belongs
from repromatrix.runner.model.environment_name import under_torch, with_torch
from repromatrix.runner.model.matrix import Matrix
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import CODE, Paths

_HEAD = b"repromatrix index 1\n"
_DIGEST = 32
"""Bytes of a digest; two stand behind the head: of what it was made from, and of what follows."""
_MAKERS = ("audit", "environments", "evidence", "judging", "model")
"""The rooms whose code decides what an index holds, as do the loose modules."""
_RUNNER = "repromatrix.runner"
_MODULES = frozenset(
    {
        *(f"{_RUNNER}.model.{name}" for name in ("case", "cell", "matrix", "outcomes")),
        f"{_RUNNER}.audit.known",
        *(f"packaging.{name}" for name in ("markers", "requirements", "specifiers", "version")),
        *("packaging._parser", "datetime"),
    }
)
"""Where the classes are from of which an index holds objects."""

OtherLines = Mapping[Line, Mapping[str, MeasuredCell | None]]
"""What was measured under other torches; None where no row is current."""
M = TypeVar("M")


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceIndex:
    """A checkout, read, with what was measured of every case."""

    paths: Paths
    matrix: Matrix
    environments: Mapping[str, Environment]
    torches: Mapping[str, Environment]
    """The environments under other torches."""
    cases: Mapping[str, Case]
    ours: Lines
    others: OtherLines

    @property
    def names(self) -> tuple[str, ...]:
        """The environments in the order of the table."""
        return tuple(self.environments)

    def lines(
        self, names: Collection[str], keep: Keep, keep_other: Keep | None
    ) -> tuple[Lines, OtherLines]:
        """Return what to keep of some cases; without `keep_other` nothing of other torches."""
        others = _kept(self.others, names, keep_other) if keep_other else {}
        return _kept(self.ours, names, keep), others

    def known(
        self,
        lines: tuple[Lines, OtherLines],
        torches: Iterable[str],
        torch: str,
        local: Sequence[Observation] = (),
    ) -> KnownEvidence:
        """Return what is known from lines of it, to somebody with a torch.

        `torches` names the environments under other torches that count. `local` is what this
        machine measured, under the torch of the releases.
        """
        ours, others = lines
        held = {name: self.torches[name] for name in torches if name in self.torches}
        counting = {
            line: {name: cell for name, cell in cells.items() if cell and name in held}
            for line, cells in others.items()
        }
        rows = _Rows(self.paths, ours, counting)
        contested = rows.add(local, self.cases, still(self.environments)) if local else {}
        return concluded(
            *(self.cases, {**self.environments, **held}, rows.ours, counting),
            rows.row,
            contested=contested,
            commits=known_commits(self.paths).values(),
            torch=torch,
        )


def _kept(
    lines: Mapping[Line, Mapping[str, M]], names: Collection[str], keep: Keep
) -> dict[Line, Mapping[str, M]]:
    kept = {}
    for line, cells in lines.items():
        wanted = keep(*line) if line[0] in names else ()
        if wanted is None:
            kept[line] = cells
        elif wanted:
            kept[line] = {name: cell for name, cell in cells.items() if name in wanted}
    return kept


class _Rows:
    """The rows of cells whose results are known already."""

    def __init__(self, paths: Paths, ours: Lines, others: Lines) -> None:
        self._paths, self.ours, self._others = paths, ours, others
        self._answering: Mapping[Cell, Observation] = {}

    def add(
        self,
        local: Sequence[Observation],
        cases: Mapping[str, Case],
        environments: Mapping[str, Environment],
    ) -> Mapping[Cell, Observation]:
        """Let rows of this machine count beside what is published of their cells.

        Return the cells about which the two disagree.
        """
        from repromatrix.runner.evidence import answers  # noqa: PLC0415 - an index does without

        wanted: dict[Line, set[str]] = {}
        for cell in (row.cell for row in local):
            wanted.setdefault(cell.line, set()).add(cell.environment)
        names = {case for case, *_ in wanted}
        beside = answers.published_rows(self._paths, names, lambda *line: wanted.get(line, ()))
        self._answering, contested = current([*beside, *local], cases, environments)
        ours = {line: dict(cells) for line, cells in self.ours.items()}
        for line, there in wanted.items():
            for name in there:
                ours.setdefault(line, {}).pop(name, None)
        for cell, row in self._answering.items():
            ours[cell.line][cell.environment] = measured(row)
        self.ours = ours
        return contested

    @cached_property
    def _published(self) -> PublishedSet:
        return PublishedSet(self._paths.published)

    @cached_property
    def _torches(self) -> PublishedSet:
        return PublishedSet(self._paths.torches)

    def row(self, cell: Cell) -> Observation:
        """Return the row of a cell; raises RunnerError where it says something else by now."""
        if cell in self._answering:
            return self._answering[cell]
        is_other = under_torch(cell.environment) is not None
        row = (self._torches if is_other else self._published).row(cell)
        lines = self._others if is_other else self.ours
        if row is None or measured(row) != lines[cell.line][cell.environment]:
            where = self._paths.shown(self._paths.published)
            raise refuse(Problem(where, "it changed while it was read", "Ask again."))
        return row


# Made, kept, and read again


def load(paths: Paths) -> EvidenceIndex | None:
    """Return the index of the evidence as it stands; None where there can be none.

    There is none where the published evidence has faults: whoever reads its files names them.
    Raises RunnerError for other faults.
    """
    if paths.own:
        return None
    place = paths.state / "index"
    try:
        state = _state(paths)
    except OSError:
        return None
    found = _read(place, state, paths)
    if found is None:
        found = _made(paths)
        if found is not None:
            _keep(place, state, found)
    return found


def _made(paths: Paths) -> EvidenceIndex | None:
    """Return an index made from the files; None where one cannot hold all that counts."""
    from repromatrix.runner.evidence import answers  # noqa: PLC0415 - an index does without

    loaded = project.load(paths, code=False)
    try:
        others = answers.under_torches(paths, {*loaded.cases})
        names = [
            *(
                with_torch(one, torch.version)
                for torch in loaded.matrix.torch.others
                for one in torch.unimportable
            ),
            *project.torches_in(loaded.matrix, loaded.names, _environments(others)),
        ]
        with_torches = project.with_torches(loaded, names).environments
        ours = _published(paths, loaded.cases, still(with_torches))
    except RunnerError:
        return None
    if ours is None or len({row.cell for row in others}) < len(others):
        return None
    _, under = lines_of(current(others, loaded.cases, still(with_torches))[0])
    for case in loaded.cases.values():
        for environment in loaded.environments.values():
            if belongs(case, environment):
                environment.lacking(case.demands)  # what it says is kept with the environment
    return EvidenceIndex(
        paths=paths,
        matrix=loaded.matrix,
        environments=loaded.environments,
        torches={name: with_torches[name] for name in names if name in with_torches},
        cases=loaded.cases,
        ours=_shared(ours),
        others=_shared(_with_stale(others, under)),
    )


def _published(
    paths: Paths, cases: Mapping[str, Case], environments: Mapping[str, Environment]
) -> Lines | None:
    """Return what current rows say; None where a cell has several, or stands under another torch.

    Of several rows of a cell one answers by a rule of its own; what is kept knows a row of each.
    """
    lines: dict[Line, dict[str, MeasuredCell]] = {}
    there: dict[Line, set[str]] = {}
    for group in read_groups(paths.published, cases):
        case, seen = cases[group.line[0]], group.seen
        facts = (seen["outcome"], seen["exercised"], group.line[2], seen["unstable"])
        known = there.setdefault(group.line, set())
        for name, ran, _ in group.ran:
            if name in known or under_torch(name):
                return None
            known.add(name)
            measured_of = (ran.case_digest, ran.environment_digest, ran.protocol)
            environment = environments.get(name)
            if environment and seen["outcome"].was_run and stands(measured_of, case, environment):
                cell = measured_on(facts, ran.torch_build, ran.python)
                lines.setdefault(group.line, {})[name] = cell
    return lines


def _with_stale(rows: Iterable[Observation], current_lines: Lines) -> OtherLines:
    """Return lines of all rows, with None where there is no current one."""
    lines: dict[Line, dict[str, MeasuredCell | None]] = {}
    for line, name in ((row.cell.line, row.cell.environment) for row in rows):
        lines.setdefault(line, {})[name] = current_lines.get(line, {}).get(name)
    return lines


def _environments(rows: Iterable[Observation]) -> set[str]:
    return {row.cell.environment for row in rows}


def _shared(lines: Mapping[Line, Mapping[str, M]]) -> dict[Line, dict[str, M]]:
    """Let equal names be one object: what is kept holds each of them once."""
    return {
        line: {sys.intern(name): cell for name, cell in cells.items()}
        for line, cells in lines.items()
    }


def _state(paths: Paths) -> bytes:
    """Return a digest of all that an index is made from: files, code and platform."""
    found = hashlib.sha256()
    versions = (sys.version, packaging.__version__, pydantic.VERSION)
    found.update(repr((paths, versions, default_environment())).encode())
    found.update(_code())
    _add(found, _files(paths))
    return found.digest()


@functools.cache
def _code() -> bytes:
    """Return a digest of the code that makes an index, as it was when it was first asked for.

    It may change on the disk while a process that has imported it goes on.
    """
    found = hashlib.sha256()
    for folder in (CODE, *(CODE / name for name in _MAKERS)):
        _add(found, _in_folder(folder, ".py"))
    return found.digest()


def _add(found: hashlib._Hash, files: Iterable[str]) -> None:
    for path in files:
        content = _content(path)
        found.update(b"\0%b\0%d\0%b" % (os.fsencode(path), len(content), content))


def _files(paths: Paths) -> Iterator[str]:
    """Yield all files that an index is made from; one may not be there."""
    yield from map(str, case_files(paths.cases))
    yield str(paths.matrix)
    yield str(paths.locks.with_suffix(".tar.xz"))
    yield from _in_folder(paths.locks, ".txt")
    for folder in (paths.published, paths.torches):
        yield from (str(folder / PUBLICATIONS), str(folder / ENVIRONMENTS))
        for device in Device:
            yield from _in_folder(folder / device, ".csv", ".json")


def _in_folder(folder: Path, *endings: str) -> Iterator[str]:
    """Yield the files of a folder, by name: texts, as a path of each takes time."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(os.listdir(folder))  # noqa: PTH208
        yield from (f"{folder}{os.sep}{name}" for name in names if name.endswith(endings))


def _content(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()
    except FileNotFoundError:
        return b""


class _Unpickler(pickle.Unpickler):
    """Reads objects of the classes that an index holds, and calls nothing else."""

    def find_class(self, module: str, name: str) -> type:
        """Return a class; raises UnpicklingError for any other than those of an index."""
        found = super().find_class(module, name) if module in _MODULES else None
        if not isinstance(found, type):
            message = f"an index holds no {module}.{name}"
            raise pickle.UnpicklingError(message)
        return found


def _read(place: Path, state: bytes, paths: Paths) -> EvidenceIndex | None:
    """Return what was kept; None where it is of something else, not whole, or not ours."""
    try:
        with place.open("rb", buffering=0) as file:
            facts = os.fstat(file.fileno())
            # Only what this user wrote is read: whoever else could write it could make it say
            # that there is no bug.
            if facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            begin = _HEAD + state
            if file.read(len(begin)) != begin:
                return None
            digest, content = file.read(_DIGEST), file.read()
    except OSError:
        return None
    if hashlib.sha256(content).digest() != digest:
        return None
    try:
        facts = _Unpickler(io.BytesIO(content)).load()
        return EvidenceIndex(paths=paths, **facts)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the files say the same
        return None


def _keep(place: Path, state: bytes, index: EvidenceIndex) -> None:
    """Keep an index in place of the last one, unless its files changed meanwhile.

    A disk that does not take it costs nothing but time, and so does a home that is not there.
    """
    if not place.parents[2].is_dir():
        return
    names = [field.name for field in dataclasses.fields(index) if field.name != "paths"]
    content = pickle.dumps({name: getattr(index, name) for name in names}, protocol=5)
    digest = hashlib.sha256(content).digest()
    with contextlib.suppress(OSError, UnwritableError):
        if _state(index.paths) != state:
            return
        files.write_bytes(place, b"".join([_HEAD, state, digest, content]))
