"""`bundle`: an archive for a machine that has its own torch and no network."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli.options import Console, Releases, command
from repromatrix.runner.errors import ExitCode, InvalidValue, Problem, refuse
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import environments_of, nothing_selected
from repromatrix.runner.project import Project
from repromatrix.runner.text import join, plural
from repromatrix.tools.bundle.pack import Target, gather, pack, tools

_MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class BundleOptions:
    """The options of `bundle`."""

    python_version: Annotated[
        str, typer.Option(help="The Python version of the target machine, such as 3.12.")
    ]
    platform: Annotated[
        str, typer.Option(help="The platform of the target machine, under the name that uv uses.")
    ] = "x86_64-manylinux_2_28"
    release: Releases = ()
    output: Annotated[
        Path | None, typer.Option(help="The archive to write; its name ends in .tar.xz.")
    ] = None


@command("bundle")
def make_bundle(paths: Paths, options: BundleOptions, console: Console) -> ExitCode:
    """Make an archive that runs cases on a machine with its own torch and no network.

    Raises RunnerError where it cannot be made.
    """
    began = time.monotonic()
    target = Target(python=options.python_version, platform=options.platform)
    target.facts  # noqa: B018 - refused before anything is fetched
    loaded = project.load(paths)
    names = _locked(loaded, options.release)
    name = f"repromatrix-bundle-{target.python}-{target.platform}.tar.xz"
    archive = (options.output or Path(name)).resolve()
    if not archive.name.endswith(".tar.xz"):
        raise refuse(InvalidValue("--output", archive.name, "a name that ends in .tar.xz"))
    paths.state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bundle-", dir=paths.state) as scratch:
        console.print(f"Fetching the packages of {plural(len(names), 'environment')} …")
        recipes = {name: project.recipe(loaded, name) for name in names}
        gathered = gather(paths, recipes, target, Path(scratch))
        files = plural(len(gathered.contents), "file")
        console.print(f"Packing {files}; compressing them takes minutes …")
        size = pack(paths, target, gathered, tools(target, Path(scratch)), archive)
    spent = time.monotonic() - began
    console.print(
        f"{archive.name}: {size / _MEGABYTE:.1f} MB, {plural(len(names), 'environment')},"
        f" for Python {target.python} on {target.platform}, made in {spent:.0f} s.",
        markup=False,
    )
    console.print("On that machine, unpack it (`tar -xf`) and run `python run.py --device cuda`.")
    return ExitCode.AS_EXPECTED


def _locked(loaded: Project, releases: Sequence[str]) -> list[str]:
    """Return the selected environments; raises RunnerError for one without a lock.

    What a case needs on top of a release is larger than several releases: only by its name.
    """
    named = {part.strip() for text in releases for part in text.split(",")}
    selected = environments_of(releases, loaded.names)
    if not selected:
        raise nothing_selected({"--release": releases})
    names = [name for name in selected if name in named or not loaded.environments[name].extras]
    unlocked = [name for name in names if name not in loaded.locks]
    if releases and unlocked:
        verb = "has" if len(unlocked) == 1 else "have"
        what = f"{join(unlocked)} {verb} no lock, and cannot be bundled"
        raise refuse(Problem("--release", what, "Name releases or pairs."))
    return [name for name in names if name in loaded.locks]
