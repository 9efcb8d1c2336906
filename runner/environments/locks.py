"""The environments by name: matrix and locks read, every fault of theirs collected."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.utils import canonicalize_name

from repromatrix.runner.environments import locking
from repromatrix.runner.errors import Fault, OldFault, RunnerError, refuse
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.lock import Lock, inputs_digest, overlaid, read_lock
from repromatrix.runner.model.matrix import WHERE, Matrix, Release, Stack, read_matrix
from repromatrix.runner.model.script import decode
from repromatrix.runner.paths import Paths


def load_matrix(places: Paths) -> Matrix:
    """Read `environments/matrix.toml`; raises RunnerError."""
    if not places.matrix.exists():
        raise RunnerError(
            [OldFault(where=WHERE, found="no such file", allowed="the list of releases")]
        )
    return read_matrix(decode(places.matrix.read_bytes(), WHERE))


def load_lock(places: Paths, matrix: Matrix, release: Release) -> Lock:
    """Read the lock of a release; raises RunnerError when it is missing, stale or not its own."""
    lock, where, remedy = _read(places, release.name)
    wanted = inputs_digest(locking.release_inputs(matrix, release))
    own = _own(lock, ("transformers", release.name), where, remedy)
    _refuse(own, _fresh(lock, wanted, where, remedy))
    return lock


def load_stack(places: Paths, matrix: Matrix, stack: Stack) -> Lock:
    """Read the lock of a stack; raises RunnerError when it is missing, stale or not its own."""
    lock, where, remedy = _read(places, stack.name)
    wanted = inputs_digest(locking.stack_inputs(matrix, stack))
    own = _own(lock, (stack.package, stack.version), where, remedy)
    _refuse(own, _fresh(lock, wanted, where, remedy))
    return lock


def load_derived(places: Paths, matrix: Matrix, base: Lock, name: str) -> Lock:
    """Read what a pair or extras change, and lay it over their base; raises RunnerError."""
    lock, where, remedy = _read(places, name)
    wanted = inputs_digest(locking.derived_inputs(matrix, base, name))
    laid = overlaid(base, lock)
    _refuse(_fresh(lock, wanted, where, remedy), _leaves_the_base(base, lock, where, matrix))
    return laid


def _leaves_the_base(base: Lock, lock: Lock, where: str, matrix: Matrix) -> Fault | None:
    """Hold a derived environment to its name: nothing else of its base may stand otherwise.

    Only what its lock names can: the rest is the base's.
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
        return None
    found = f"{', '.join(moved)}, which {base.name}.txt pins otherwise"
    return OldFault(where=where, found=found, allowed="a lock that changes only what its name says")


def _read(places: Paths, name: str) -> tuple[Lock, str, str]:
    path = places.locks / f"{name}.txt"
    where = places.shown(path)
    remedy = f"Make it with `nox -s lock -- {name}`."
    if not path.exists():
        fault = OldFault(where=where, found="no such file", allowed="a lock", fix=remedy)
        raise RunnerError([fault])
    return read_lock(decode(path.read_bytes(), where), name, where), where, remedy


def _refuse(*found: Fault | None) -> None:
    faults = [fault for fault in found if fault]
    if faults:
        raise RunnerError(faults)


def _own(lock: Lock, named: tuple[str, str], where: str, remedy: str) -> Fault | None:
    package, version = named
    pinned = [str(pin.specifier) for pin in lock.pins if pin.name == package]
    if pinned == [f"=={version}"]:
        return None
    found = f"{package}{pinned[0]}" if pinned else f"no {package}"
    return OldFault(where=where, found=found, allowed=f"{package}=={version}", fix=remedy)


def _fresh(lock: Lock, wanted: str, where: str, remedy: str) -> Fault | None:
    if lock.inputs == wanted:
        return None
    found = f"a lock resolved from other inputs ({lock.inputs or 'none named'})"
    return OldFault(where=where, key="input", found=found, allowed=wanted, fix=remedy)


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
        try:
            locks[release.name] = load_lock(places, matrix, release)
        except RunnerError as error:
            faults.extend(error.faults)
    for name in derived:
        try:
            base = locks.get(base_of(matrix, name).name)
            if base is not None:  # else its own fault is told
                locks[name] = load_derived(places, matrix, base, name)
        except RunnerError as error:
            faults.extend(error.faults)
    for stack in matrix.stacks:
        try:
            locks[stack.name] = load_stack(places, matrix, stack)
        except RunnerError as error:
            faults.extend(error.faults)
    return locks, faults + _strangers(places, matrix)


def base_of(matrix: Matrix, name: str) -> Release:
    """Return the release that a derived environment is made from; raises RunnerError."""
    base = taken_apart(name).base
    try:
        return matrix.release(base)
    except KeyError:
        found, allowed = f"{name!r}, made from {base!r}", f"a release of {WHERE}"
        raise refuse(OldFault(where="environments", found=found, allowed=allowed)) from None


def _strangers(places: Paths, matrix: Matrix) -> list[Fault]:
    names = set(matrix.pinned)
    return [
        OldFault(
            where=places.shown(path),
            found=f"a lock for {path.stem}",
            allowed=f"a lock per release and stack of {WHERE}",
            fix="Add it there or remove the file.",
        )
        for path in sorted(places.locks.glob("*.txt"))
        if path.stem.partition("+")[0] not in names
    ]
