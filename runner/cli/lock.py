"""`lock`: write lock files, add new releases to the matrix."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Annotated

import typer
from packaging.version import Version

from repromatrix.runner import files, project, subprocesses
from repromatrix.runner.cases import case_files, load_corpus
from repromatrix.runner.cli.options import ENVIRONMENT, Console, command
from repromatrix.runner.environments import locks
from repromatrix.runner.errors import ExitCode, Fault, InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.model.environment_name import asked, taken_apart, under_torch
from repromatrix.runner.model.lock import read_lock
from repromatrix.runner.model.matrix import WHERE, Matrix, read_matrix
from repromatrix.runner.paths import Paths

_AT_ONCE = 3
_LOOK = 0.1


@command("lock")
def pin(
    paths: Paths,
    console: Console,
    names: Annotated[
        Sequence[str],
        typer.Argument(
            metavar=ENVIRONMENT,
            help="Releases, 4.50.0+timm, 4.53.3+peft0.15.2 or torch2.6.0; all by default.",
        ),
    ] = (),
    *,
    new: Annotated[bool, "Add releases of transformers that the matrix does not have yet."] = False,
    missing: Annotated[bool, "Only environments without a lock file."] = False,
) -> ExitCode:
    """Write lock files, with packages as of seven days after each release.

    Without names: of every environment that is needed, or of those whose lock is `missing`.
    """
    matrix = locks.load_matrix(paths)
    torches = [torch.lock for torch in matrix.torch.others]
    known = {*matrix.pinned, *torches}
    if new:
        names = [name for name in locks.released() if name not in known]
        console.print(f"new: {', '.join(names) or 'nothing'}")
        if not names:
            return ExitCode.AS_EXPECTED
    for name in names:
        if name not in known and not asked(name, ENVIRONMENT).derived:
            _add(paths, name)
    matrix = locks.load_matrix(paths)
    for name in (name for name in names if asked(name, ENVIRONMENT).derived):
        if torch := under_torch(name):
            what = f"{name!r} has no lock of its own"
            raise refuse(Problem(ENVIRONMENT, what, f"Make that of torch{torch[1]}."))
        locks.base_of(matrix, name)  # an unknown release is refused before any work
    derived = _derived(paths, matrix)
    if names:
        # What is laid over a named release is as old as its lock.
        over = (name for name in derived if taken_apart(name).base in names)
        wanted = [*dict.fromkeys((*names, *over))]
    else:
        wanted = [*matrix.pinned, *torches, *derived]
    if missing:
        wanted = [name for name in wanted if not (paths.locks / f"{name}.txt").exists()]
    plain = [name for name in wanted if not asked(name, ENVIRONMENT).derived]
    others = [name for name in wanted if name not in plain]
    for some in (plain, others):  # what is laid over a lock needs that lock
        _write(paths, some, lambda name: _resolve(paths, matrix, name), console)
    return ExitCode.AS_EXPECTED


def _derived(paths: Paths, matrix: Matrix) -> tuple[str, ...]:
    cases, faults = load_corpus(paths, case_files(paths.cases), matrix.extras)
    if faults:
        raise RunnerError(faults)
    return project.derived(matrix, cases.values())


def _resolve(paths: Paths, matrix: Matrix, name: str) -> str:
    if asked(name, ENVIRONMENT).derived:
        base = locks.load_lock(paths, matrix, locks.base_of(matrix, name))
        return locks.resolve_derived(matrix, base, name)
    for torch in matrix.torch.others:
        if torch.lock == name:
            return locks.resolve_torch(matrix, torch)
    stack = matrix.stack(name)
    if stack is not None:
        return locks.resolve_stack(matrix, stack)
    return locks.resolve_release(matrix, matrix.release(name))


def _write(
    paths: Paths, names: Sequence[str], resolve: Callable[[str], str], console: Console
) -> None:
    """Resolve several at once; all that can be resolved are written before a fault is raised."""
    faults: list[Fault] = []

    def write(name: str) -> None:
        try:
            text = resolve(name)
        except RunnerError as error:
            faults.extend(error.faults)
            return
        files.write(paths.locks / f"{name}.txt", text)
        why = read_lock(text, name, name, of_torch=True).unresolved
        told = f": no case that depends on the extra applies there: {why}" if why else ""
        console.print(f"environments/locks/{name}.txt{told}")

    paths.locks.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        writing = [pool.submit(write, name) for name in names]
        try:
            for future in writing:
                future.result()
        finally:
            # Interrupted, a call of uv may take minutes, and be one of many: each goes from command
            # to command, so one end is not enough.
            for future in writing:
                future.cancel()
            while not all(future.done() for future in writing):
                subprocesses.end_all()
                wait(writing, timeout=_LOOK)
    if faults:
        raise RunnerError(faults, ExitCode.UNBUILDABLE)


def _add(paths: Paths, name: str) -> None:
    """Add a release to the matrix, in its place by version, under the day of its publication."""
    try:
        version = Version(name)
    except ValueError as error:  # also for a number of 5,000 digits
        expected = f"a version of transformers, or the name of a stack in {WHERE}"
        raise refuse(InvalidValue(ENVIRONMENT, name, expected)) from error
    text = paths.matrix.read_text(encoding="utf-8")
    matrix = read_matrix(text)
    day = locks.published_on(matrix, name)
    if day is None:
        fix = f"Name a release that it has, or add the line to {WHERE} by hand."
        raise refuse(Problem(ENVIRONMENT, f"{name!r} is not in the package index", fix))
    changed = entered(text, version, day)
    read_matrix(changed)
    files.write(paths.matrix, changed)


def entered(text: str, version: Version, day: dt.date) -> str:
    """Return the matrix with another release, in its place by version, aligned with the others.

    By lines: tomlkit drops the space before the `}` of every release, changed or not.
    """
    lines = text.splitlines(keepends=True)
    versions = {
        number: Version(known[1])
        for number, line in enumerate(lines)
        if (known := re.match(r'\s*\{ name = "(\d[^"]*)"', line))
    }
    last = max(versions)
    place = next((number for number, known in versions.items() if known > version), last + 1)
    line = f'  {{ name = "{version}",'.ljust(lines[last].index("date")) + f"date = {day} }},\n"
    return "".join([*lines[:place], line, *lines[place:]])
