"""The environments by name: matrix and locks read, every fault of theirs collected."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from packaging.utils import canonicalize_name

from repromatrix.runner.environments import locking
from repromatrix.runner.errors import Fault, Problem, RunnerError, refuse
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.lock import Lock, inputs_digest, overlaid, read_lock
from repromatrix.runner.model.matrix import WHERE, Matrix, Release, Stack, read_matrix
from repromatrix.runner.model.script import decode
from repromatrix.runner.paths import Paths
from repromatrix.runner.text import join


def load_matrix(places: Paths) -> Matrix:
    """Read `environments/matrix.toml`; raises RunnerError."""
    if not places.matrix.exists():
        raise refuse(Problem(WHERE, "the file does not exist"))
    return read_matrix(decode(places.matrix.read_bytes(), WHERE))


def load_lock(places: Paths, matrix: Matrix, release: Release) -> Lock:
    """Read the lock of a release; raises RunnerError when it is missing, stale or not its own."""
    inputs = locking.release_inputs(matrix, release)
    return _own(places, release.name, inputs, "transformers", release.name)


def load_stack(places: Paths, matrix: Matrix, stack: Stack) -> Lock:
    """Read the lock of a stack; raises RunnerError when it is missing, stale or not its own."""
    inputs = locking.stack_inputs(matrix, stack)
    return _own(places, stack.name, inputs, stack.package, stack.version)


def load_derived(places: Paths, matrix: Matrix, base: Lock, name: str) -> Lock:
    """Read what a pair or extras change, and lay it over their base; raises RunnerError."""
    lock, faults = _read(places, name, locking.derived_inputs(matrix, base, name))
    whole = overlaid(base, lock)
    _refuse(faults + _leaving(base, lock, places, matrix))
    return whole


def _leaving(base: Lock, lock: Lock, places: Paths, matrix: Matrix) -> list[Fault]:
    """Return the fault of a derived lock that pins more of its base otherwise than its name says.

    Only what the lock names can stand otherwise: the rest is the base's.
    """
    here = markers(matrix.python)
    names = {canonicalize_name(pin.name) for pin in lock.pins}
    before, after = base.versions(here, names), lock.versions(here)
    changed = dict(taken_apart(lock.name).changed)
    moved = [
        f"{name} {after.get(name, 'missing')}"
        for name in before
        if name not in changed and after.get(name) != before[name]
    ]
    if not moved:
        return []
    what = f"it pins {join(moved)}, which {base.name}.txt pins otherwise"
    fix = f"A derived lock changes only what its name says. {_remedy(lock.name)}"
    return [Problem(_shown(places, lock.name), what, fix)]


def _own(places: Paths, name: str, inputs: Sequence[str], package: str, version: str) -> Lock:
    lock, faults = _read(places, name, inputs)
    pinned = [str(pin.specifier) for pin in lock.pins if pin.name == package]
    if pinned != [f"=={version}"]:
        pins = f"it pins {package}{pinned[0]}, not" if pinned else "it does not pin"
        what = f"{pins} {package}=={version}"
        faults.insert(0, Problem(_shown(places, name), what, _remedy(name)))
    _refuse(faults)
    return lock


def _read(places: Paths, name: str, inputs: Sequence[str]) -> tuple[Lock, list[Fault]]:
    """Read a lock; the fault is that it was resolved from other inputs. Raises RunnerError."""
    path, where = places.locks / f"{name}.txt", _shown(places, name)
    if not path.exists():
        raise refuse(Problem(where, "the file does not exist", _remedy(name)))
    lock = read_lock(decode(path.read_bytes(), where), name, where)
    wanted = inputs_digest(inputs)
    if lock.inputs == wanted:
        return lock, []
    what = f"it was resolved from other inputs ({lock.inputs or 'none named'}, now {wanted})"
    return lock, [Problem(where, what, _remedy(name))]


def _shown(places: Paths, name: str) -> str:
    return places.shown(places.locks / f"{name}.txt")


def _remedy(name: str) -> str:
    return f"Make it with `nox -s lock -- {name}`."


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        raise RunnerError(faults)


def markers(python: str) -> dict[str, str]:
    """Return the marker variables of the environments, for this machine's platform."""
    from packaging.markers import default_environment  # noqa: PLC0415

    here = {name: str(value) for name, value in default_environment().items()}
    return {**here, "python_version": python, "python_full_version": f"{python}.0", "extra": ""}


def environment(matrix: Matrix, lock: Lock) -> Environment:
    """Return the environment that a lock describes."""
    here = markers(matrix.python)
    pins = {**lock.versions(here), "torch": matrix.torch.version}
    return Environment(
        name=lock.name,
        source=_source(matrix, lock.name),
        python=matrix.python,
        pins=pins,
        markers=here,
        built=tuple(one.how for one in matrix.sdists_among(pins)),
    )


def _source(matrix: Matrix, name: str) -> Source:
    if matrix.stack(name):
        return Source.STACK
    return Source.PAIR if taken_apart(name).changed else Source.RELEASE


def load_all(
    places: Paths, matrix: Matrix, derived: Iterable[str] = ()
) -> tuple[dict[str, Lock], list[Fault]]:
    """Read every release's lock, the named derived ones and those of the stacks.

    Return the sound ones, in this order, and all faults.
    """
    locks: dict[str, Lock] = {}
    faults: list[Fault] = []
    for release in matrix.releases:
        with _collecting(faults):
            locks[release.name] = load_lock(places, matrix, release)
    for name in derived:
        with _collecting(faults):
            base = locks.get(base_of(matrix, name).name)
            if base is not None:  # else the fault of the base is reported
                locks[name] = load_derived(places, matrix, base, name)
    for stack in matrix.stacks:
        with _collecting(faults):
            locks[stack.name] = load_stack(places, matrix, stack)
    return locks, faults + _strangers(places, matrix)


@contextlib.contextmanager
def _collecting(faults: list[Fault]) -> Iterator[None]:
    try:
        yield
    except RunnerError as error:
        faults.extend(error.faults)


def base_of(matrix: Matrix, name: str) -> Release:
    """Return the release that a derived environment is made from; raises RunnerError."""
    base = taken_apart(name).base
    try:
        return matrix.release(base)
    except KeyError:
        what = f"{base or 'its base'} is not a release of {WHERE}"
        raise refuse(Problem(name, what)) from None


def _strangers(places: Paths, matrix: Matrix) -> list[Fault]:
    names = set(matrix.pinned)
    return [
        Problem(
            places.shown(path),
            f"{path.stem} is neither a release nor a stack of {WHERE}",
            "Add it there or remove the file.",
        )
        for path in sorted(places.locks.glob("*.txt"))
        if path.stem.partition("+")[0] not in names
    ]
