"""Environments of a bundle, made where it is unpacked: its packages, and that machine's torch."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from runner.carrying.manifest import content, tree
from runner.environments.building import Built

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.carrying.torch import Torch

_MARKER = "complete.json"


def furnish(root: Path, name: str, torch: Torch, pins: Mapping[str, str]) -> Built:
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
