"""Virtualenvs made: complete or absent, never changed once they are complete."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from repromatrix.runner.environments import bytecode, torch_build, uv
from repromatrix.runner.environments.torch_build import TorchBuild
from repromatrix.runner.environments.uv import SilentError
from repromatrix.runner.model.lock import parted
from repromatrix.runner.model.matrix import Sdist
from repromatrix.runner.paths import Paths
from repromatrix.runner.subprocesses import anonymous

_MARKER = "complete.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What to install under which name; `digest` identifies it.

    `lock` is the text of the lock, `torch` its version, `beside` are requirements that stand in
    no lock (a development version), `overrides` those that the lock was resolved against what a
    package says, `sdists` are packages of the lock that are built here, `versions` is what must be
    installed afterwards.
    """

    name: str
    digest: str
    python: str
    lock: str
    torch: str
    beside: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    sdists: tuple[Sdist, ...] = ()
    versions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """A complete virtualenv."""

    name: str
    folder: Path
    python: Path
    versions: Mapping[str, str]
    torch: Path | None = None
    """The folder in which torch lies, where it is not the environment's own."""


class UnbuildableError(Exception):
    """An environment could not be made; the text is the reason, without addresses and paths."""


class NoGpuBuildError(UnbuildableError):
    """What was built cannot compute on the device that was asked for; the text is the reason."""


def build(places: Paths, recipe: Recipe) -> Built:
    """Return the complete virtualenv of a recipe, making it when it is absent.

    The folder carries the digest of its recipe, so a rebuild never touches one that is in use.
    Raises UnbuildableError with the installer's reason, or the disk's.
    """
    try:
        return _build(places, recipe)
    except OSError as error:
        msg = f"its folder cannot be written: {error.strerror or type(error).__name__}"
        raise UnbuildableError(msg) from error


def _build(places: Paths, recipe: Recipe) -> Built:
    folder = places.built / f"{recipe.name}-{recipe.digest[:8]}"
    found = _complete(folder, recipe.name)
    if found is None:
        with _alone(places, recipe.name):
            found = _complete(folder, recipe.name) or _make(places, recipe, folder)
    _point(places.built / recipe.name, folder)
    return found


def is_built(places: Paths, name: str, digest: str) -> bool:
    """Say whether an environment is complete."""
    return (places.built / f"{name}-{digest[:8]}" / _MARKER).exists()


def _complete(folder: Path, name: str) -> Built | None:
    try:
        marker = json.loads((folder / _MARKER).read_text())
    except (OSError, ValueError):
        return None
    return _built(name, folder, marker["versions"])


def _built(name: str, folder: Path, versions: Mapping[str, str]) -> Built:
    return Built(name=name, folder=folder, python=folder / "bin" / "python", versions=versions)


@contextlib.contextmanager
def _alone(places: Paths, name: str) -> Iterator[None]:
    """Keep a second run from making the same environment at the same time."""
    folder = places.built / ".making"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(places: Paths, recipe: Recipe, folder: Path) -> Built:
    shutil.rmtree(folder, ignore_errors=True)
    _run("venv", folder, "--python", recipe.python, "--no-project", "--quiet")
    torch = _torch(recipe)
    lock, _ = parted(recipe.lock, {one.name for one in recipe.sdists})
    beside = [*recipe.beside, *(str(need) for one in recipe.sdists for need in one.beside)]
    wanted = folder / "requirements.txt"
    wanted.write_text("\n".join([lock, torch.requirement, *beside, ""]))
    python = folder / "bin" / "python"
    over = folder / "overrides.txt"
    over.write_text("".join(f"{line}\n" for line in recipe.overrides))
    options = [*torch.options, *(("--overrides", over) if recipe.overrides else ())]
    _run("pip", "install", "--quiet", "--python", python, "--requirement", wanted, *options)
    install_sdists(recipe, python, folder)
    versions = bytecode.installed(folder)
    _verify(recipe, versions)
    bytecode.share(places.built, folder, versions)
    marker = {"versions": versions, "digest": recipe.digest}
    (folder / _MARKER).write_text(json.dumps(marker, indent=1, sort_keys=True))
    return _built(recipe.name, folder, versions)


def install_sdists(recipe: Recipe, python: Path, folder: Path, *options: str | Path) -> None:
    """Build what has no wheel with the torch that a Python has; raises UnbuildableError.

    It is installed beside that Python, unless the options say otherwise.
    """
    for one in recipe.sdists:
        wanted = folder / f"{one.name}.txt"
        wanted.write_text(parted(recipe.lock, {one.name})[1])
        # A cached build may be another one: what it was told is not in the cache's key.
        alone = ("--no-cache", "--no-deps", "--no-build-isolation", "--requirement", wanted)
        _run("pip", "install", "--quiet", "--python", python, *alone, *options, told=one.told)


def _torch(recipe: Recipe) -> TorchBuild:
    try:
        return torch_build.choose(recipe.torch, recipe.python)
    except SilentError as error:
        raise UnbuildableError(_reason(str(error))) from error


def _run(*arguments: str | Path, told: Mapping[str, str] | None = None) -> None:
    done = uv.call(*arguments, told=told)
    if done.code is None:
        msg = f"the installer was given up: {done.err} ({uv.PATIENCE} allows more)"
        raise UnbuildableError(msg)
    if done.code != 0:
        raise UnbuildableError(_reason(done.err))


def _reason(said: str) -> str:
    return anonymous(" ".join(said.split()))[-600:]


def _verify(recipe: Recipe, versions: Mapping[str, str]) -> None:
    """Hold every line of the lock against what is installed; torch's local part is its build's."""
    wrong = [
        f"{name} {version} is locked, {versions.get(name, 'nothing')} is installed"
        for name, version in recipe.versions.items()
        if versions.get(name, "").partition("+")[0] != version.partition("+")[0]
    ]
    if wrong:
        raise UnbuildableError("; ".join(wrong))


def _point(link: Path, folder: Path) -> None:
    """Let the environment's plain name lead to its folder."""
    if link.is_symlink() and link.readlink().name == folder.name:
        return
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder.name)
    fresh.replace(link)
