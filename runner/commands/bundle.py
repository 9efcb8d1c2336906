"""`bundle`: one archive to carry to a machine that has a torch of its own and no network."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner import project
from runner.carrying.gathering import gather, tools
from runner.carrying.packing import pack
from runner.errors import ExitCode, Fault, refuse
from runner.planning.selection import environments_of
from runner.telling.wording import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from runner.carrying.manifest import Target
    from runner.places import Places
    from runner.project import Project

_MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options of `bundle` as they were typed."""

    releases: Sequence[str]
    target: Target
    output: Path | None


def bundle(places: Places, options: Options, console: Console) -> ExitCode:
    """Write a bundle and say how large it is; raises RunnerError where it cannot be made."""
    began = time.monotonic()
    target = options.target
    target.facts  # noqa: B018 - refused before anything is fetched
    loaded = project.load(places)
    names = _locked(loaded, options.releases)
    name = f"repromatrix-bundle-{target.python}-{target.platform}.tar.xz"
    archive = (options.output or Path(name)).resolve()
    if not archive.name.endswith(".tar.xz"):
        raise refuse(Fault(where="--output", found=archive.name, allowed="a name with .tar.xz"))
    places.state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bundle-", dir=places.state) as scratch:
        console.print(f"Fetching the packages of {count(len(names), 'environment')} …")
        recipes = {name: project.recipe(loaded, name) for name in names}
        gathered = gather(places, recipes, target, Path(scratch))
        files = count(len(gathered.contents), "file")
        console.print(f"Packing {files}; the compression takes minutes …")
        size = pack(places, target, gathered, tools(target, Path(scratch)), archive)
    spent = time.monotonic() - began
    console.print(
        f"{archive.name}: {size / _MEGABYTE:.1f} MB, {count(len(names), 'environment')},"
        f" for Python {target.python} on {target.platform}, made in {spent:.0f} s.",
        markup=False,
    )
    console.print("Unpack it there with `tar -xf`, and run `python run.py --device cuda` in it.")
    return ExitCode.AS_EXPECTED


def _locked(loaded: Project, releases: Sequence[str]) -> list[str]:
    """Return the environments that were asked for; raises RunnerError for one without a lock.

    What single cases need on top of a release is larger than several releases: it is named.
    """
    named = {part.strip() for text in releases for part in text.split(",")}
    found = environments_of(releases, loaded.names)
    names = [name for name in found if name in named or not loaded.environments[name].extras]
    unlocked = [name for name in names if name not in loaded.locks]
    if releases and unlocked:
        allowed = "releases, pairs: what has a lock"
        raise refuse(Fault(where="--release", found=", ".join(unlocked), allowed=allowed))
    return [name for name in names if name in loaded.locks]
