"""The torch of a machine, and what only torch needs, taken from where they are installed."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from runner.errors import Fault, refuse
from runner.model.lock import left_out

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_MODULES = ("torch", "torchgen", "functorch")


@dataclass(frozen=True, kw_only=True, slots=True)
class Torch:
    """An installed torch: its version, and the folder in which its package lies."""

    version: str
    folder: Path


def find(locked: Collection[str]) -> tuple[Torch, dict[str, Path]]:
    """Return this Python's torch, and what to link: the name in the link folder to the place.

    `locked` are packages that every environment brings itself. Raises RunnerError without torch.
    """
    try:
        torch = metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        fault = Fault(where="torch", found="no metadata of it", allowed="an installed torch")
        raise refuse(fault) from None
    folder = Path(str(torch.locate_file("torch"))).parent
    links = {name: folder / name for name in _MODULES if (folder / name).exists()}
    for found in _needed(torch, locked):
        links.update(_entries(found))
    return Torch(version=torch.version, folder=folder), links


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
