"""Unpack a bundle: build its environments from carried packages and the torch of the machine."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from repromatrix.runner.environments.building import Built
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.execution.bundle.manifest import content, tree
from repromatrix.runner.model.lock import left_out

_MODULES = ("torch", "torchgen", "functorch")


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledTorch:
    """An installed torch: its version, and the folder in which its package lies."""

    version: str
    folder: Path


def find(locked: Collection[str]) -> tuple[InstalledTorch, dict[str, Path]]:
    """Return this Python's torch, and what to link: the name in the link folder to the place.

    `locked` are packages that every environment brings itself. Raises RunnerError without torch.
    """
    try:
        torch = metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        raise refuse(Problem("torch", "it is not installed for this Python")) from None
    folder = Path(str(torch.locate_file("torch"))).parent
    links = {name: folder / name for name in _MODULES if (folder / name).exists()}
    for found in _needed(torch, locked):
        links.update(_entries(found))
    return InstalledTorch(version=torch.version, folder=folder), links


def _needed(
    torch: metadata.Distribution, locked: Collection[str]
) -> Iterator[metadata.Distribution]:
    """Yield torch, what it needs beyond what is locked, and its accelerator packages."""
    others = [one.name for one in metadata.distributions() if one.name and left_out(one.name)]
    waiting, seen = [torch.name, *others], {*locked}
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        yield found
        asked = map(Requirement, found.requires or ())
        waiting += [
            one.name for one in asked if not one.marker or one.marker.evaluate({"extra": ""})
        ]


def _entries(found: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield what a distribution has at the top of its folder, its metadata with it."""
    tops = {file.parts[0] for file in found.files or () if ".." not in file.parts}
    for top in sorted(tops - {"__pycache__"}):
        if not re.search(r"\.pth$", top):  # it would act on the environment
            yield top, Path(str(found.locate_file(top)))


def link(links: dict[str, Path], folder: Path) -> None:
    """Make a folder of links anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, place in links.items():
        if place.exists():
            (folder / name).symlink_to(place)


_MARKER = "complete.json"


def furnish(root: Path, name: str, torch: InstalledTorch, pins: Mapping[str, str]) -> Built:
    """Return an environment of an unpacked bundle, made when it is absent or for another torch."""
    folder = root / "work" / "environments" / name
    python = folder / "bin" / "python"
    about = json.dumps([sys.executable, sys.version, torch.version, str(torch.folder), str(root)])
    with _alone(folder):
        marker = folder / _MARKER
        if not marker.exists() or marker.read_text() != about:
            _make(root, name, folder)
            marker.write_text(about)
    return Built(name=name, folder=folder, python=python, versions=pins, torch=torch.folder)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep a second run in the same folder from making the same environment at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.making").open("w") as file:
        with contextlib.suppress(OSError):  # some shared file systems know no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(root: Path, name: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    minor = f"python3.{sys.version_info.minor}"
    packages = folder / "lib" / minor / "site-packages"
    for made in (folder / "bin", packages):
        made.mkdir(parents=True)
    # What `python -m venv` writes: some systems leave that module out.
    base = Path(getattr(sys, "_base_executable", sys.executable))
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\n"
    )
    for path, found in tree(root, name).items():
        _link(content(root, found), packages / path)
    _see(root, packages)


def _link(lies: Path, wanted: Path) -> None:
    wanted.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(lies, wanted)
    except OSError:  # some file systems know no links
        shutil.copyfile(lies, wanted)


def _see(root: Path, packages: Path) -> None:
    """Let torch be found behind the packages, and compiled files be kept in the bundle's folder."""
    kept = repr(str(root / "work" / "bytecode"))
    (packages / "repromatrix.pth").write_text(
        f"{links(root)}\nimport sys; sys.pycache_prefix = {kept}\n"
    )


def links(root: Path) -> Path:
    """Return the folder through which torch is found; named so that no message tells its place."""
    return root / "work" / "torch" / "site-packages"
