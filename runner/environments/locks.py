"""The environments by name: lock files resolved, then read with every fault of theirs collected.

Locks are of releases, derived environments (pairs, extras) and downstream stacks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner import subprocesses
from repromatrix.runner.environments import uv
from repromatrix.runner.environments.building import Recipe
from repromatrix.runner.environments.lock_files import lock_bytes, lock_names
from repromatrix.runner.environments.uv import SilentError
from repromatrix.runner.errors import ExitCode, Fault, Problem, RunnerError, refuse
from repromatrix.runner.model.case import decode
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.environment_name import EnvironmentName, taken_apart, under_torch
from repromatrix.runner.model.lock import (
    Lock,
    difference,
    inputs_digest,
    left_out,
    overlaid,
    read_lock,
    torch_part,
)
from repromatrix.runner.model.matrix import WHERE, Matrix, OtherTorch, Release, Stack, read_matrix
from repromatrix.runner.paths import Paths
from repromatrix.runner.subprocesses import anonymous
from repromatrix.runner.tempdirs import scratch
from repromatrix.runner.text import join


def recipe(matrix: Matrix, lock: Lock, environment: Environment) -> Recipe:
    """Return what to install for an environment."""
    stack = matrix.stack(lock.name)
    overrides = tuple(map(str, stack.overrides)) if stack else ()
    # A lock that pins torch leaves no build to choose.
    torch = "" if environment.source is Source.TORCH else matrix.torch.version
    chosen = uv.torch_backend() if torch else ""
    sdists = matrix.sdists_among(environment.pins)
    facts = (lock.digest, matrix.python, torch, chosen, *overrides)
    return Recipe(
        name=lock.name,
        digest=hashlib.sha256("\n".join((*facts, *environment.built)).encode()).hexdigest()[:16],
        python=matrix.python,
        lock=lock.text,
        torch=torch,
        overrides=overrides,
        sdists=sdists,
        versions=environment.pins,
    )


class NoSolutionError(RunnerError):
    """No versions satisfy all requirements; an index that does not answer is another error."""


COOLING = dt.timedelta(days=7)
_YEARS = 3650
"""Days that the search for a release's day goes back."""
_FIND_LINKS = frozenset({"UV_FIND_LINKS"})


def release_inputs(matrix: Matrix, release: Release) -> tuple[str, ...]:
    """Return what a lock is resolved from, one fact per line."""
    torch = matrix.torch
    return (
        f"transformers=={release.name}",
        *matrix.companions,
        f"torch=={torch.version}",
        *(f"torch needs {requirement}" for requirement in torch.requires),
        f"python {matrix.python}",
        f"as of {release.date + COOLING}, what torch alone needs as of {torch.as_of}",
    )


def header(matrix: Matrix, release: Release) -> str:
    """Return the first lines of a lock: the command, and the identity of its inputs."""
    return _head(release.name, release_inputs(matrix, release), matrix.torch.version)


def _head(name: str, lines: Sequence[str], torch: str = "", note: str = "") -> str:
    """Return the first lines of a lock that has no `torch`, or of which there is a `note`."""
    note = note or f"torch {torch} and its accelerator packages are left out"
    return (
        f"# Made by: nox -s lock -- {name}\n"
        f"# {lines[-1]}; {note}.\n"
        f"# input: {inputs_digest(lines)}\n"
    )


def resolve_release(matrix: Matrix, release: Release) -> str:
    """Return the text of a release's lock; raises RunnerError with the resolver's reason.

    Find-links stay out: a local build of torch would write a version that exists nowhere else.
    """
    wanted = [f"transformers=={release.name}", *matrix.companions]
    day = release.date + COOLING
    return header(matrix, release) + compile_lock(matrix, wanted, until=day, where=release.name)


def compile_lock(  # noqa: PLR0913 - what is resolved, when, and what it is held to
    matrix: Matrix,
    wanted: Sequence[str],
    *,
    until: dt.date | None,
    where: str,
    preferred: str = "",
    bound: Sequence[str] = (),
    dated: Sequence[str] = (),
    overrides: Sequence[str] = (),
    platform: str = "",
    metadata: str = "",
    told: Mapping[str, str] | None = None,
) -> str:
    """Resolve requirements with the matrix's torch, as of a day if one is given.

    The day is for the packages in `dated` alone where any is named. Pins of `preferred` are kept
    where they fit, without a day; what is in `bound` holds or there is no resolution; `overrides`
    stand for what any package says of theirs, `metadata` for what one says of itself (`described`).
    With a `platform` it is for that one alone, else for all; `told` are variables for uv. Raises
    NoSolutionError, and RunnerError where the index does not answer, with the resolver's reason.
    """
    # With --exclude-newer, uv 0.13 silently drops preferred pins: there only `bound` keeps them.
    with scratch() as folder:
        (folder / "uv.toml").write_text(_metadata(matrix) + metadata, encoding="utf-8")
        (folder / "out.txt").write_text(preferred, encoding="utf-8")
        for name, lines in (("bound.txt", bound), ("over.txt", overrides)):
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        options = (
            *("--config-file", folder / "uv.toml", "--constraints", folder / "bound.txt"),
            *(("--overrides", folder / "over.txt") if overrides else ()),
            *(("--python-platform", platform) if platform else ("--universal",)),
            *("--fork-strategy", "fewest"),
            *("--no-emit-package", "torch", "--no-emit-package", "triton"),
            *(_dates(matrix, until, dated) if until else ()),
        )
        wanted = [*wanted, f"torch=={matrix.torch.version}"]
        return _compiled(matrix, wanted, folder, options, where=where, told=told)


def _compiled(  # noqa: PLR0913 - what is resolved, and how
    matrix: Matrix,
    wanted: Sequence[str],
    folder: Path,
    options: Sequence[str | Path],
    *,
    where: str,
    told: Mapping[str, str] | None = None,
    without: frozenset[str] = _FIND_LINKS,
) -> str:
    (folder / "in.txt").write_text("\n".join([*wanted, ""]), encoding="utf-8")
    done = uv.call(
        *("pip", "compile", folder / "in.txt", "--output-file", folder / "out.txt"),
        *("--python-version", matrix.python, "--generate-hashes"),
        *("--no-annotate", "--no-header", "--quiet", *options),
        without=without,
        told=told,
    )
    if done.code == 1:
        raise NoSolutionError(_unresolved(where, done.err).faults)
    if done.code != 0:
        raise _unresolved(where, done.err)
    return (folder / "out.txt").read_text(encoding="utf-8")


def _dates(matrix: Matrix, until: dt.date, dated: Sequence[str]) -> list[str]:
    if dated:
        return [
            part
            for package in dated
            for part in ("--exclude-newer-package", f"{package}={until}T23:59:59Z")
        ]
    # What torch alone needs, and a newer torch needs newer: its build tools.
    own = [need.split(">")[0] for need in matrix.torch.requires if "setuptools" in need]
    as_young = ("torch", *own, *matrix.torch.built_against)
    dates = [f"{package}={matrix.torch.as_of}T23:59:59Z" for package in as_young]
    each = [part for date in dates for part in ("--exclude-newer-package", date)]
    return ["--exclude-newer", f"{until}T23:59:59Z", *each]


def _metadata(matrix: Matrix) -> str:
    """Say what torch needs beside its accelerator packages, so that none is looked at.

    And what those packages need that can be asked only where torch is installed.
    """
    requires = [requirement for requirement in matrix.torch.requires if not left_out(requirement)]
    torch = described("torch", matrix.torch.version, requires)
    # To ask an sdist what it needs is to run its setup, which wants a torch.
    return torch + "".join(
        described(one.name, one.version, ["torch", *map(str, one.requires)])
        for one in matrix.sdists
    )


def described(name: str, version: str, requires: Sequence[str]) -> str:
    """Return the entry of `uv.toml` that says what a version of a package needs."""
    quoted = ", ".join(f'"{requirement}"' for requirement in requires)
    lines = ("[[dependency-metadata]]", f'name = "{name}"', f'version = "{version}"')
    return "\n".join([*lines, f"requires-dist = [{quoted}]", ""])


def _unresolved(name: str, said: str) -> RunnerError:
    reason = anonymous(" ".join(said.split()))[:600]
    fault = Problem(f"environments/locks/{name}.txt", f"its packages cannot be resolved ({reason})")
    return refuse(fault, ExitCode.UNBUILDABLE)


FIRST = Version("4.49.0")


def released() -> list[str]:
    """Return every final, not yanked release from 4.49.0 on, oldest first; raises RunnerError.

    pip is asked, which knows the user's index.
    """
    done = subprocesses.finish(
        [sys.executable, "-m", "pip", "index", "versions", "transformers", "--json"], seconds=120
    )
    if done.code != 0:
        reason = anonymous(" ".join(done.err.split()))[-300:]
        fault = Problem("the package index", f"it does not answer ({reason})")
        raise refuse(fault, ExitCode.UNBUILDABLE)
    versions = [Version(text) for text in json.loads(done.out)["versions"]]
    return [str(each) for each in sorted(versions) if each >= FIRST and not each.is_prerelease]


def published_on(matrix: Matrix, name: str) -> dt.date | None:
    """Return the day (UTC) on which a release appeared in the index; None when it is not there.

    The index answers only whether a release existed at a time, so the day is searched for; raises
    RunnerError where it does not answer.
    """
    high = dt.datetime.now(tz=dt.UTC).date()
    low = high - dt.timedelta(days=_YEARS)
    if not _existed(matrix, name, high):
        return None
    while (high - low).days > 1:
        middle = low + (high - low) // 2
        low, high = (low, middle) if _existed(matrix, name, middle) else (middle, high)
    return high


def _existed(matrix: Matrix, name: str, day: dt.date) -> bool:
    until = ("--exclude-newer", f"{day}T23:59:59Z")
    try:
        return uv.resolves(f"transformers=={name}", *until, python=matrix.python)
    except SilentError as error:  # no answer is not "no": the search would find a wrong day
        raise _unresolved(name, str(error)) from error


def derived_inputs(matrix: Matrix, base: Lock, name: str) -> tuple[str, ...]:
    """Return what a derived lock is resolved from, one fact per line."""
    parts = taken_apart(name)
    return (
        f"on {base.name} {base.digest}",
        *(f"{package}=={version}" for package, version in parts.changed),
        *parts.extras,
        *(
            f"{one.name} needs {requirement}"
            for one in matrix.sdists_among(dict(parts.changed))
            for requirement in one.requires
        ),
        f"as of {_until(matrix, parts)}",
    )


def resolve_derived(matrix: Matrix, base: Lock, name: str) -> str:
    """Return the text of a derived lock; raises RunnerError with the resolver's reason.

    Every other pin of the base stands, so that a difference between the two is never theirs. A
    version that needs more than itself changed is given so: `4.53.3+peft0.15.2+accelerate1.6.0`.
    An extra that nothing lets stand beside its release has a lock that says so, and pins nothing.
    """
    parts = taken_apart(name)
    changed = dict(parts.changed)
    wanted = [
        f"transformers=={parts.base}",
        *(package for package in matrix.companions if package not in changed),
        *(f"{package}=={version}" for package, version in parts.changed),
        *parts.extras,
    ]
    kept = [str(pin) for pin in base.pins if canonicalize_name(pin.name) not in changed]
    # What the base pins is bound already; it may stand in an index without a day.
    named = [*changed, *parts.extras]
    until = _until(matrix, parts)
    note = f"only what differs from {base.name}.txt"
    head = _head(name, derived_inputs(matrix, base, name), note=note)
    try:
        whole = compile_lock(matrix, wanted, until=until, where=name, bound=kept, dated=named)
    except NoSolutionError as error:
        # A pair is named by somebody who wants it; an extra is asked of every release.
        if parts.changed:
            raise
        reasons = (fault.what for fault in error.faults if isinstance(fault, Problem))
        return f"{head}# unresolved: {join([*reasons])}\n"
    return head + difference(base.text, whole)


def _until(matrix: Matrix, parts: EnvironmentName) -> dt.date:
    """Take extras as old as their release; a pair may be younger than it, torch's day bounds it."""
    if parts.changed:
        return matrix.torch.as_of
    names = {release.name for release in matrix.releases}
    day = matrix.release(parts.base).date if parts.base in names else matrix.releases[-1].date
    return day + COOLING


STACK_PLATFORM = "x86_64-manylinux_2_28"
"""What stacks are resolved for: their packages have no builds for every platform."""


def stack_inputs(matrix: Matrix, stack: Stack) -> tuple[str, ...]:
    """Return what the lock of a stack is resolved from, one fact per line."""
    torch = matrix.torch
    named = {one.name for one in stack.beside}
    return (
        f"{stack.package}=={stack.version}",
        *map(str, stack.beside),
        *(f"{override} whatever a package says" for override in stack.overrides),
        f"torch=={torch.version}",
        *(f"torch needs {requirement}" for requirement in torch.requires),
        *(
            f"{package} is built against torch"
            for package in torch.built_against
            if package in named
        ),
        f"python {matrix.python} on {STACK_PLATFORM}",
        f"as of {stack.date + COOLING}, what goes with torch alone as of {torch.as_of}",
    )


def resolve_stack(matrix: Matrix, stack: Stack) -> str:
    """Return the text of the lock of a stack; raises RunnerError with the resolver's reason."""
    head = _head(stack.name, stack_inputs(matrix, stack), matrix.torch.version)
    return head + compile_lock(
        matrix,
        [f"{stack.package}=={stack.version}", *map(str, stack.beside)],
        until=stack.date + COOLING,
        where=stack.name,
        overrides=[*map(str, stack.overrides)],
        platform=STACK_PLATFORM,
    )


def torch_inputs(matrix: Matrix, torch: OtherTorch) -> tuple[str, ...]:
    """Return what the lock of another torch is resolved from, one fact per line."""
    return (
        f"torch=={torch.version}",
        *map(str, torch.requires),
        f"python {matrix.python} on {STACK_PLATFORM}",
        f"as of {matrix.torch.as_of}",
    )


def resolve_torch(matrix: Matrix, torch: OtherTorch) -> str:
    """Return the text of the lock of another torch; raises RunnerError with the reason.

    The index has one build of it, which brings its accelerator packages.
    """
    lines = torch_inputs(matrix, torch)
    wanted = [f"torch=={torch.version}", *map(str, torch.requires)]
    options = (
        *("--python-platform", STACK_PLATFORM),
        *("--exclude-newer", f"{matrix.torch.as_of}T23:59:59Z"),
    )
    without = _FIND_LINKS | {uv.BACKEND}
    with scratch() as folder:
        whole = _compiled(matrix, wanted, folder, options, where=torch.lock, without=without)
    named = {canonicalize_name(requirement.name) for requirement in torch.requires}
    note = "what is laid over the lock of a release"
    return _head(torch.lock, lines, note=note) + torch_part(whole, named)


def load_torch(paths: Paths, matrix: Matrix, version: str) -> Lock:
    """Read the lock of another torch; raises RunnerError when it is missing or stale."""
    torch = matrix.torch.other(version)
    if torch is None:
        what = f"torch {version} is none of those that {WHERE} declares as `others`"
        raise refuse(Problem(f"torch{version}", what))
    lock, faults = _read(paths, torch.lock, torch_inputs(matrix, torch), of_torch=True)
    _refuse(faults)
    return lock


def load_matrix(paths: Paths) -> Matrix:
    """Read `environments/matrix.toml`; raises RunnerError."""
    if not paths.matrix.exists():
        raise refuse(Problem(WHERE, "the file does not exist"))
    return read_matrix(decode(paths.matrix.read_bytes(), WHERE))


def load_lock(paths: Paths, matrix: Matrix, release: Release) -> Lock:
    """Read the lock of a release; raises RunnerError when it is missing, stale or not its own."""
    inputs = release_inputs(matrix, release)
    return _own(paths, release.name, inputs, "transformers", release.name)


def load_stack(paths: Paths, matrix: Matrix, stack: Stack) -> Lock:
    """Read the lock of a stack; raises RunnerError when it is missing, stale or not its own."""
    inputs = stack_inputs(matrix, stack)
    return _own(paths, stack.name, inputs, stack.package, stack.version)


def load_derived(paths: Paths, matrix: Matrix, base: Lock, name: str) -> Lock:
    """Read what a pair or extras change, and lay it over their base; raises RunnerError."""
    lock, faults = _read(paths, name, derived_inputs(matrix, base, name))
    whole = overlaid(base, lock)
    _refuse(faults + _leaving(base, lock, paths, matrix))
    return whole


def _leaving(base: Lock, lock: Lock, paths: Paths, matrix: Matrix) -> list[Fault]:
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
    return [Problem(_shown(paths, lock.name), what, fix)]


def _own(paths: Paths, name: str, inputs: Sequence[str], package: str, version: str) -> Lock:
    lock, faults = _read(paths, name, inputs)
    pinned = [str(pin.specifier) for pin in lock.pins if pin.name == package]
    if pinned != [f"=={version}"]:
        pins = f"it pins {package}{pinned[0]}, not" if pinned else "it does not pin"
        what = f"{pins} {package}=={version}"
        faults.insert(0, Problem(_shown(paths, name), what, _remedy(name)))
    _refuse(faults)
    return lock


def _read(
    paths: Paths, name: str, inputs: Sequence[str], *, of_torch: bool = False
) -> tuple[Lock, list[Fault]]:
    """Read a lock; the fault is that it was resolved from other inputs. Raises RunnerError."""
    where, content = _shown(paths, name), lock_bytes(paths.locks, name)
    if content is None:
        raise refuse(Problem(where, "the file does not exist", _remedy(name)))
    lock = read_lock(decode(content, where), name, where, of_torch=of_torch)
    wanted = inputs_digest(inputs)
    if lock.inputs == wanted:
        return lock, []
    what = f"it was resolved from other inputs ({lock.inputs or 'none named'}, now {wanted})"
    return lock, [Problem(where, what, _remedy(name))]


def _shown(paths: Paths, name: str) -> str:
    return paths.shown(paths.locks / f"{name}.txt")


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
    pins = {"torch": matrix.torch.version, **lock.versions(here)}
    if matrix.stack(lock.name):
        source = Source.STACK
    elif under_torch(lock.name):
        source = Source.TORCH
    else:
        source = Source.PAIR if taken_apart(lock.name).changed else Source.RELEASE
    return Environment(
        name=lock.name,
        source=source,
        python=matrix.python,
        pins=pins,
        markers=here,
        built=tuple(one.how for one in matrix.sdists_among(pins)),
        unusable=matrix.unusable(lock.name, lock.unresolved),
    )


def load_all(
    paths: Paths, matrix: Matrix, derived: Iterable[str] = ()
) -> tuple[dict[str, Lock], list[Fault]]:
    """Read every release's lock, the named derived ones and those of the stacks.

    Return the sound ones, in this order, and all faults.
    """
    locks: dict[str, Lock] = {}
    faults: list[Fault] = []
    for release in matrix.releases:
        with _collecting(faults):
            locks[release.name] = load_lock(paths, matrix, release)
    for name in _with_what_is_under(derived):
        with _collecting(faults):
            release, torch = base_of(matrix, name), under_torch(name)
            base = locks.get(torch[0] if torch else release.name)
            if base is None:  # the fault of the base is reported
                continue
            if torch:
                over = overlaid(base, load_torch(paths, matrix, torch[1]))
                locks[name] = dataclasses.replace(over, name=name)
            else:
                locks[name] = load_derived(paths, matrix, base, name)
    for stack in matrix.stacks:
        with _collecting(faults):
            locks[stack.name] = load_stack(paths, matrix, stack)
    return locks, faults + _strangers(paths, matrix)


def _with_what_is_under(names: Iterable[str]) -> Iterator[str]:
    """Yield derived environments, each after the extras that its torch is laid over."""
    every = dict.fromkeys(names)
    for name in every:
        torch = under_torch(name)
        if torch and "+" in torch[0] and torch[0] not in every:
            yield torch[0]
    yield from sorted(every, key=lambda name: under_torch(name) is not None)


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


def _strangers(paths: Paths, matrix: Matrix) -> list[Fault]:
    names = {*matrix.pinned, *(torch.lock for torch in matrix.torch.others)}
    return [
        Problem(
            _shown(paths, name),
            f"{name} is neither a release nor a stack of {WHERE}",
            "Add it there or remove the file.",
        )
        for name in lock_names(paths.locks)
        if name.partition("+")[0] not in names
    ]
