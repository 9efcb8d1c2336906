"""`lock`: pins made, releases added."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated

import typer
from packaging.version import Version

from repromatrix.runner import files, project
from repromatrix.runner.cases import case_files, load_corpus
from repromatrix.runner.cli.options import app, told
from repromatrix.runner.environments import index, locking, locks
from repromatrix.runner.errors import ExitCode, Fault, OldFault, RunnerError, refuse
from repromatrix.runner.model.environment_name import asked, taken_apart
from repromatrix.runner.model.matrix import WHERE, Matrix, read_matrix
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from rich.console import Console

_AT_ONCE = 3


@app.command("lock")
def lock(
    names: Annotated[
        list[str],
        typer.Argument(help="Releases, `4.50.0+timm` or `4.53.3+peft0.15.2`; all by default."),
    ] = [],  # noqa: B006 - typer copies it
    *,
    new: Annotated[
        bool, typer.Option("--new", help="Add releases that the matrix does not have yet.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only environments without a lock.")
    ] = False,
) -> None:
    """Write the locks of environments, as of seven days after each release."""
    raise typer.Exit(pin(Paths(), names, told(), new=new, missing=missing))


def pin(
    places: Paths, names: Sequence[str], console: Console, *, new: bool, missing: bool
) -> ExitCode:
    """Write the locks of the named environments, adding releases that the matrix does not have.

    Without names: of every environment that is needed, or of those whose lock is `missing`.
    """
    matrix = locks.load_matrix(places)
    known = set(matrix.pinned)
    if new:
        names = [name for name in index.released() if name not in known]
        console.print(f"new: {', '.join(names) or 'nothing'}")
        if not names:
            return ExitCode.AS_EXPECTED
    for name in names:
        if name not in known and not asked(name, "lock").derived:
            _add(places, name)
    matrix = locks.load_matrix(places)
    for name in names:
        if asked(name, "lock").derived:
            locks.base_of(matrix, name)  # a release that there is not is refused before any work
    wanted = [*names, *_derived_from(names, places, matrix)] if names else _every(places, matrix)
    if missing:
        wanted = [name for name in wanted if not (places.locks / f"{name}.txt").exists()]
    plain = [name for name in wanted if not asked(name, "lock").derived]
    _write(places, plain, lambda name: _resolve(matrix, name), console)
    others = [name for name in wanted if name not in plain]
    _write(places, others, lambda name: _resolve_derived(places, matrix, name), console)
    return ExitCode.AS_EXPECTED


def _every(places: Paths, matrix: Matrix) -> list[str]:
    return [*matrix.pinned, *_derived(places, matrix)]


def _derived_from(names: Sequence[str], places: Paths, matrix: Matrix) -> list[str]:
    """Return what is laid over the named releases: its lock is stale with theirs."""
    return [
        name
        for name in _derived(places, matrix)
        if taken_apart(name).base in names and name not in names
    ]


def _derived(places: Paths, matrix: Matrix) -> tuple[str, ...]:
    cases, faults = load_corpus(places, case_files(places.cases), matrix.extras)
    if faults:
        raise RunnerError(faults)
    return project.derived(matrix, cases.values())


def _resolve(matrix: Matrix, name: str) -> str:
    stack = matrix.stack(name)
    if stack is not None:
        return locking.resolve_stack(matrix, stack)
    return locking.resolve_release(matrix, matrix.release(name))


def _resolve_derived(places: Paths, matrix: Matrix, name: str) -> str:
    base = locks.base_of(matrix, name)
    return locking.resolve_derived(matrix, locks.load_lock(places, matrix, base), name)


def _write(
    places: Paths, names: Sequence[str], resolve: Callable[[str], str], console: Console
) -> None:
    """Resolve several at once; all that can be resolved are written before a fault is raised."""
    faults: list[Fault] = []

    def one(name: str) -> None:
        try:
            text = resolve(name)
        except RunnerError as error:
            faults.extend(error.faults)
            return
        files.write(places.locks / f"{name}.txt", text)
        console.print(f"environments/locks/{name}.txt", markup=False)

    places.locks.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(one, names))
    if faults:
        raise RunnerError(faults, ExitCode.UNBUILDABLE)


def _add(places: Paths, name: str) -> None:
    """Add a release to the matrix, in its place by version, under the day of its publication."""
    try:
        version = Version(name)
    except ValueError as error:  # also for a number of 5,000 digits
        allowed = f"a version of transformers, or the name of a stack of {WHERE}"
        raise refuse(OldFault(where="lock", found=repr(name), allowed=allowed)) from error
    text = places.matrix.read_text()
    changed = entered(text, version, _published_on(read_matrix(text), name))
    read_matrix(changed)
    files.write(places.matrix, changed)


def entered(text: str, version: Version, day: dt.date) -> str:
    """Return the matrix with a release more, in its place by version, aligned with the others.

    By lines: tomlkit drops the space before the `}` of every release, changed or not.
    """
    lines = text.splitlines(keepends=True)
    known = {number: found for number, row in enumerate(lines) if (found := _version_in(row))}
    last = max(known)
    place = next((number for number, found in known.items() if found > version), last + 1)
    line = f'  {{ name = "{version}",'.ljust(lines[last].index("date")) + f"date = {day} }},\n"
    return "".join([*lines[:place], line, *lines[place:]])


def _version_in(line: str) -> Version | None:
    found = re.match(r'\s*\{ name = "(\d[^"]*)"', line)
    return Version(found[1]) if found else None


def _published_on(matrix: Matrix, name: str) -> dt.date:
    """Ask the index for the day: the first on which the release can be resolved."""
    day = locking.published_on(matrix, name)
    if day is None:
        allowed = f"a release that the index has (with its day), or a line of {WHERE} by hand"
        raise refuse(OldFault(where="lock", found=repr(name), allowed=allowed))
    return day
