"""Virtualenvs made: complete or absent, never changed once they are complete."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import source_from_cache
from itertools import takewhile
from pathlib import Path

from packaging.utils import canonicalize_name

from repromatrix.runner.environments import uv
from repromatrix.runner.environments.uv import SilentError
from repromatrix.runner.model.lock import parted
from repromatrix.runner.model.matrix import Sdist
from repromatrix.runner.paths import Paths
from repromatrix.runner.subprocesses import anonymous
from repromatrix.runner.subprocesses import lock as lock_file

_MARKER = "complete.json"
_STEPS = 4
"""What an environment is made by at most, each with the time of an installation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What to install under which name; `digest` identifies it.

    `lock` is the text of the lock, `torch` its version, empty where the lock pins it. `beside` are
    requirements that stand in no lock (a development version), `overrides` those that the lock was
    resolved against what a package says, `metadata` is what packages are taken to need whatever
    they say (a `uv.toml`), `sdists` are packages of the lock that are built here, `told` are
    variables for the installer that change nothing of what it installs, `versions` is what must be
    installed afterwards.
    """

    name: str
    digest: str
    python: str
    lock: str
    torch: str
    beside: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    metadata: str = ""
    sdists: tuple[Sdist, ...] = ()
    told: Mapping[str, str] = field(default_factory=dict, repr=False)
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


def build(paths: Paths, recipe: Recipe) -> Built:
    """Return the complete virtualenv of a recipe, making it when it is absent.

    The folder carries the digest of its recipe, so a rebuild never touches one that is in use.
    Raises UnbuildableError with the installer's reason, or the disk's.
    """
    folder = paths.built / f"{recipe.name}-{recipe.digest[:8]}"
    try:
        built = _complete(folder, recipe.name)
        if built is None:
            lock = paths.built / ".making" / recipe.name
            lock.parent.mkdir(parents=True, exist_ok=True)
            with lock.open("w", encoding="utf-8") as file:
                # A second run may be making the same environment.
                if not lock_file(file.fileno(), seconds := _STEPS * uv.patience()):
                    msg = f"another run has been making it for {seconds:.0f} s"
                    raise UnbuildableError(msg)
                built = _complete(folder, recipe.name) or _make(paths, recipe, folder)
        _point(paths.built / recipe.name, folder)
    except OSError as error:
        msg = f"its folder cannot be written: {error.strerror or type(error).__name__}"
        raise UnbuildableError(msg) from error
    return built


def is_built(paths: Paths, name: str, digest: str) -> bool:
    """Say whether an environment is complete."""
    return (paths.built / f"{name}-{digest[:8]}" / _MARKER).exists()


def _complete(folder: Path, name: str) -> Built | None:
    try:
        versions = json.loads((folder / _MARKER).read_text(encoding="utf-8"))["versions"]
    except (OSError, ValueError):
        return None
    return Built(name=name, folder=folder, python=folder / "bin" / "python", versions=versions)


def _make(paths: Paths, recipe: Recipe, folder: Path) -> Built:
    shutil.rmtree(folder, ignore_errors=True)
    _run("venv", folder, "--python", recipe.python, "--no-project", "--quiet")
    torch, options = "", tuple[str, ...]()
    if recipe.torch:  # else the lock pins it
        try:
            torch, options = uv.choose_torch(recipe.torch, recipe.python)
        except SilentError as error:
            raise UnbuildableError(_reason(str(error))) from error
    lock, _ = parted(recipe.lock, {one.name for one in recipe.sdists})
    beside = [*recipe.beside, *(str(need) for one in recipe.sdists for need in one.beside)]
    wanted = folder / "requirements.txt"
    wanted.write_text("\n".join([lock, torch, *beside, ""]), encoding="utf-8")
    python = folder / "bin" / "python"
    over = folder / "overrides.txt"
    over.write_text("".join(f"{line}\n" for line in recipe.overrides), encoding="utf-8")
    given = ["--requirement", wanted, *(("--overrides", over) if recipe.overrides else ())]
    if recipe.metadata:
        (folder / "uv.toml").write_text(recipe.metadata, encoding="utf-8")
        given += ["--config-file", folder / "uv.toml"]
    # A backend is another index for torch, where nothing has the hashes of a lock that pins it.
    without = frozenset() if recipe.torch else frozenset({uv.BACKEND})
    command = ("pip", "install", "--quiet", "--python", python, *given, *options)
    _run(*command, told=recipe.told, without=without)
    install_sdists(recipe, python, folder)
    versions = installed(folder)
    _verify(recipe, versions)
    share_bytecode(paths.built, folder, versions)
    marker = {"versions": versions, "digest": recipe.digest}
    (folder / _MARKER).write_text(json.dumps(marker, indent=1, sort_keys=True), encoding="utf-8")
    return Built(name=recipe.name, folder=folder, python=python, versions=versions)


def install_sdists(recipe: Recipe, python: Path, folder: Path, *options: str | Path) -> None:
    """Build what has no wheel with the torch that a Python has; raises UnbuildableError.

    It is installed beside that Python, unless the options say otherwise.
    """
    for one in recipe.sdists:
        wanted = folder / f"{one.name}.txt"
        wanted.write_text(parted(recipe.lock, {one.name})[1], encoding="utf-8")
        # A cached build may be another one: what it was told is not in the cache's key.
        alone = ("--no-cache", "--no-deps", "--no-build-isolation", "--requirement", wanted)
        _run("pip", "install", "--quiet", "--python", python, *alone, *options, told=one.told)


def _run(
    *arguments: str | Path,
    told: Mapping[str, str] | None = None,
    without: frozenset[str] = frozenset(),
) -> None:
    done = uv.call(*arguments, told=told, without=without)
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
    if link.is_symlink() and link.readlink().name == folder.name:
        return
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder.name)
    fresh.replace(link)


def site_packages(folder: Path) -> Path:
    """Return where a virtualenv keeps its packages."""
    return next((folder / "lib").glob("python3*")) / "site-packages"


def installed(folder: Path) -> dict[str, str]:
    """Read every installed distribution's version from its metadata, without running anything."""
    found = {}
    for info in site_packages(folder).glob("*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        found[str(canonicalize_name(name))] = version
    return dict(sorted(found.items()))


# A fresh virtualenv compiles torch anew at its first import, seconds each time. The installer links
# sources from its cache, so they carry the same time and size everywhere, and what one virtualenv
# compiled is valid in the next: Python checks both before it trusts a compiled file, and replaces
# such a file rather than writing into it, so a link can never spoil the one that lent it.
def share_bytecode(built: Path, folder: Path, versions: Mapping[str, str]) -> int:
    """Link compiled files from virtualenvs that hold the same sources; return how many.

    Of another version, those whose sources are the same bytes are copied with the new time.
    """
    donors = list(_donors(built, folder))
    here = site_packages(folder)
    shared = 0
    for name, version in versions.items():
        lenders = [(there, theirs[name]) for there, theirs in donors if name in theirs]
        if not lenders:
            continue
        # The one that is spelled most like it, which is also the same one where there is one.
        near = max(lenders, key=lambda lender: _alike(lender[1], version))
        share = _link if near[1] == version else _copy
        for parent in _sources(here, name, version):
            theirs, ours = near[0] / parent / "__pycache__", here / parent / "__pycache__"
            if theirs.is_dir():
                ours.mkdir(exist_ok=True)
                compiled = list(os.scandir(theirs))
                shared += sum(share(file.path, f"{ours}/{file.name}") for file in compiled)
    return shared


def _alike(one: str, other: str) -> tuple[bool, int]:
    pairs = zip(one, other, strict=False)
    return one == other, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _donors(built: Path, folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    markers = [path for path in built.glob("*/complete.json") if not path.parent.is_symlink()]
    for marker in sorted(markers, key=lambda path: path.stat().st_mtime):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            there = site_packages(marker.parent)
            # Only one that was imported from has anything to lend.
            if marker.parent != folder and (there / "torch" / "__pycache__").exists():
                yield there, json.loads(marker.read_text(encoding="utf-8"))["versions"]


def _sources(here: Path, name: str, version: str) -> Iterator[str]:
    """Yield the folders of a distribution that hold sources, from its RECORD."""
    seen: set[str] = set()
    for info in here.glob(f"*-{version}.dist-info"):
        if canonicalize_name(info.name.removesuffix(f"-{version}.dist-info")) != name:
            continue
        for line in (info / "RECORD").read_text(encoding="utf-8").splitlines():
            file = line.partition(",")[0]
            parent = os.path.dirname(file)  # noqa: PTH120 - tens of thousands of lines
            if file.endswith(".py") and parent not in seen:
                seen.add(parent)
                yield parent


def _link(theirs: str, ours: str) -> bool:
    with contextlib.suppress(OSError):
        os.link(theirs, ours)
        return True
    return False


_TIME = slice(8, 12)
"""Where a compiled file holds the time of its source; before it, zeros for one that is checked."""


def _copy(theirs: str, ours: str) -> bool:
    """Copy a compiled file whose source is the same bytes here; a full disk is raised."""
    try:
        old, new = (Path(source_from_cache(path)) for path in (theirs, ours))
        is_same = old.stat().st_size == new.stat().st_size and old.read_bytes() == new.read_bytes()
    except (OSError, ValueError):
        return False
    compiled = bytearray(Path(theirs).read_bytes())
    # Its writer may have been killed, or may have read the source before it was replaced.
    written = int.from_bytes(compiled[_TIME], "little") == int(old.stat().st_mtime) & 0xFFFFFFFF
    if is_same and written and not any(compiled[4:8]):
        compiled[_TIME] = (int(new.stat().st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
        Path(ours).write_bytes(compiled)
        return True
    return False
