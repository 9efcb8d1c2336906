"""The environments by name: matrix and locks read, every fault of theirs collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.environments.pinning import inputs
from runner.errors import Fault, RunnerError
from runner.model.cell import Environment, Source
from runner.model.lock import Lock, inputs_digest, read_lock
from runner.model.matrix import WHERE, Matrix, read_matrix
from runner.model.script import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.model.matrix import Release
    from runner.places import Places

PLATFORM = "linux"


def load_matrix(places: Places) -> Matrix:
    """Read `environments/matrix.toml`; raises RunnerError."""
    if not places.matrix.exists():
        raise RunnerError(
            [Fault(where=WHERE, found="no such file", allowed="the list of releases")]
        )
    return read_matrix(decode(places.matrix.read_bytes(), WHERE))


def load_lock(places: Places, matrix: Matrix, release: Release) -> Lock:
    """Read the lock of a release; raises RunnerError when it is missing, stale or not its own."""
    path = places.locks / f"{release.name}.txt"
    where = places.shown(path)
    remedy = f"Make it with `nox -s lock -- {release.name}`."
    if not path.exists():
        fault = Fault(where=where, found="no such file", allowed="a lock", remedy=remedy)
        raise RunnerError([fault])
    lock = read_lock(decode(path.read_bytes(), where), release.name, where)
    faults = [
        fault
        for fault in (_own(lock, where, remedy), _fresh(lock, matrix, release, where, remedy))
        if fault
    ]
    if faults:
        raise RunnerError(faults)
    return lock


def _own(lock: Lock, where: str, remedy: str) -> Fault | None:
    pinned = [str(pin.specifier) for pin in lock.pins if pin.name == "transformers"]
    wanted = f"=={lock.name}"
    if pinned == [wanted]:
        return None
    found = f"transformers{pinned[0]}" if pinned else "no transformers"
    return Fault(where=where, found=found, allowed=f"transformers{wanted}", remedy=remedy)


def _fresh(lock: Lock, matrix: Matrix, release: Release, where: str, remedy: str) -> Fault | None:
    wanted = inputs_digest(inputs(matrix, release))
    if lock.inputs == wanted:
        return None
    found = f"a lock resolved from other inputs ({lock.inputs or 'none named'})"
    return Fault(where=where, key="input", found=found, allowed=wanted, remedy=remedy)


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
        name=lock.name, source=Source.RELEASE, python=matrix.python, pins=pins, markers=here
    )


def load_all(places: Places, matrix: Matrix) -> tuple[dict[str, Lock], list[Fault]]:
    """Read every lock; return those that are sound, and all faults of the others."""
    locks: dict[str, Lock] = {}
    faults: list[Fault] = []
    for release in matrix.releases:
        try:
            locks[release.name] = load_lock(places, matrix, release)
        except RunnerError as error:
            faults.extend(error.faults)
    return locks, faults + _strangers(places, matrix, locks)


def _strangers(places: Places, matrix: Matrix, locks: Mapping[str, Lock]) -> list[Fault]:
    names = {release.name for release in matrix.releases} | set(locks)
    return [
        Fault(
            where=places.shown(path),
            found=f"a lock for {path.stem}",
            allowed=f"a lock per release of {WHERE}",
            remedy="Add the release there or remove the file.",
        )
        for path in sorted(places.locks.glob("*.txt"))
        if path.stem not in names
    ]
