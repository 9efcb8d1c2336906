"""Locks made: every release resolved with its companions as they stood seven days after it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from runner.environments import uv
from runner.environments.uv import SilentError
from runner.errors import ExitCode, Fault, refuse
from runner.model.lock import inputs_digest, left_out
from runner.processes import anonymous
from runner.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.model.matrix import Matrix, Release

COOLING = dt.timedelta(days=7)
_YEARS = 3650
"""Days that the search for a release's day goes back."""
_FIND_LINKS = frozenset({"UV_FIND_LINKS"})


def inputs(matrix: Matrix, release: Release) -> tuple[str, ...]:
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
    lines = inputs(matrix, release)
    return (
        f"# Made by: nox -s lock -- {release.name}\n"
        f"# {lines[-1]}; torch {matrix.torch.version} and its accelerator packages are left out.\n"
        f"# input: {inputs_digest(lines)}\n"
    )


def resolve(matrix: Matrix, release: Release) -> str:
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
) -> str:
    """Resolve requirements with the matrix's torch, as of a day if one is given.

    The day is for the packages in `dated` alone where any is named. Pins of `preferred` are kept
    where they fit (uv 0.13 leaves them where a date bounds the resolution too); what is in
    `bound` holds or there is no resolution; `overrides` stand for what any package says of theirs.
    With a `platform` it is for that one alone, else for all.
    """
    torch = matrix.torch
    with scratch() as folder:
        (folder / "in.txt").write_text("\n".join([*wanted, f"torch=={torch.version}", ""]))
        (folder / "uv.toml").write_text(_metadata(matrix))
        (folder / "out.txt").write_text(preferred)
        (folder / "bound.txt").write_text("".join(f"{line}\n" for line in bound))
        (folder / "over.txt").write_text("".join(f"{line}\n" for line in overrides))
        done = uv.call(
            *("pip", "compile", folder / "in.txt", "--config-file", folder / "uv.toml"),
            *("--output-file", folder / "out.txt", "--constraints", folder / "bound.txt"),
            *(("--overrides", folder / "over.txt") if overrides else ()),
            *(("--python-platform", platform) if platform else ("--universal",)),
            *("--python-version", matrix.python, "--fork-strategy", "fewest", "--generate-hashes"),
            *("--no-annotate", "--no-header", "--quiet"),
            *("--no-emit-package", "torch", "--no-emit-package", "triton"),
            *(_dates(matrix, until, dated) if until else ()),
            without=_FIND_LINKS,
        )
        if done.code != 0:
            raise _unresolved(where, done.err)
        return (folder / "out.txt").read_text()


def _dates(matrix: Matrix, until: dt.date, dated: Sequence[str]) -> list[str]:
    if dated:
        return [
            part
            for package in dated
            for part in ("--exclude-newer-package", f"{package}={until}T23:59:59Z")
        ]
    own = [requirement.split(">")[0] for requirement in _only_torchs(matrix)]
    as_young = ("torch", *own, *matrix.torch.built_against)
    dates = [f"{package}={matrix.torch.as_of}T23:59:59Z" for package in as_young]
    each = [part for date in dates for part in ("--exclude-newer-package", date)]
    return ["--exclude-newer", f"{until}T23:59:59Z", *each]


def _only_torchs(matrix: Matrix) -> list[str]:
    """Return what torch alone needs and a newer torch needs newer: its build tools."""
    return [requirement for requirement in matrix.torch.requires if "setuptools" in requirement]


def _metadata(matrix: Matrix) -> str:
    """Say what torch needs beside its accelerator packages, so that none is looked at.

    And what those packages need that can be asked only where torch is installed.
    """
    requires = [requirement for requirement in matrix.torch.requires if not left_out(requirement)]
    torch = _described("torch", matrix.torch.version, requires)
    # To ask an sdist what it needs is to run its setup, which wants a torch.
    return torch + "".join(
        _described(one.name, one.version, ["torch", *map(str, one.requires)])
        for one in matrix.sdists
    )


def _described(name: str, version: str, requires: Sequence[str]) -> str:
    quoted = ", ".join(f'"{requirement}"' for requirement in requires)
    lines = ("[[dependency-metadata]]", f'name = "{name}"', f'version = "{version}"')
    return "\n".join([*lines, f"requires-dist = [{quoted}]", ""])


def _unresolved(name: str, said: str) -> Exception:
    reason = anonymous(" ".join(said.split()))[:600]
    fault = Fault(where=f"environments/locks/{name}.txt", found=reason, allowed="a resolution")
    return refuse(fault, ExitCode.UNBUILDABLE)


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
