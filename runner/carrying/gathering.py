"""The packages of environments, as they are installed on another platform, each content once."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.environments import building, uv
from runner.environments.building import UnbuildableError
from runner.errors import ExitCode, Fault, RunnerError
from runner.model.lock import parted
from runner.places import ROOT
from runner.processes import anonymous

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from runner.carrying.manifest import Target, Tree
    from runner.environments.building import Recipe
    from runner.places import Places

# What is installed beside the modules, and what tests itself: no case imports it.
_BESIDE = frozenset({"bin", "share", "include", "__pycache__"})
_TESTS = "tests"
_OURS = frozenset({"packaging", "pydantic"})
"""What of the runner's own packages is needed to run cells, and not to build environments."""


@dataclass(kw_only=True, slots=True)
class Gathered:
    """Trees by environment, and for each content a file that holds it."""

    trees: dict[str, Tree] = field(default_factory=dict)
    contents: dict[str, tuple[str, Path]] = field(default_factory=dict)
    """By name: the path under which it was first found, and where it lies now."""
    known: dict[tuple[int, int], str] = field(default_factory=dict)
    """The installer links what it has installed before: a file is read once."""

    def take(self, name: str, folder: Path) -> None:
        """Take what is installed in a folder as the packages of an environment."""
        self.trees[name] = {
            path.relative_to(folder).as_posix(): self._content(path, folder)
            for path in files(folder)
        }

    def _content(self, path: Path, folder: Path) -> str:
        facts = path.stat()
        key = facts.st_dev, facts.st_ino
        if key not in self.known:
            name = hashlib.sha256(path.read_bytes()).hexdigest()[:24]
            self.known[key] = name
            self.contents.setdefault(name, (path.relative_to(folder).as_posix(), path))
        return self.known[key]


def files(folder: Path) -> Iterator[Path]:
    """Yield the files of installed packages that a case may need."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if parts[0] not in _BESIDE and not {_TESTS, "__pycache__"} & {*parts} and path.is_file():
            yield path


def gather(places: Places, recipes: Mapping[str, Recipe], target: Target, folder: Path) -> Gathered:
    """Install what recipes lock for another platform, running nothing of it.

    But for sdists: they are built here, and may hold nothing that is compiled. Raises RunnerError,
    with exit code 4, naming every environment of which something cannot be had for there.
    """
    found = Gathered()
    faults: list[Fault] = []
    for name, recipe in recipes.items():
        wanted = folder / f"{name}.txt"
        wanted.write_text(parted(recipe.lock, {one.name for one in recipe.sdists})[0])
        why = _install(folder / name, target, "--no-deps", "--requirement", wanted)
        why = why or _build(places, recipe, folder, folder / name)
        if why:
            allowed = f"a wheel of every package for Python {target.python} on {target.platform}"
            faults.append(Fault(where=name, found=why, allowed=allowed))
        else:
            found.take(name, folder / name)
    if faults:
        raise RunnerError(faults, ExitCode.UNBUILDABLE)
    return found


def _build(places: Places, recipe: Recipe, scratch: Path, folder: Path) -> str:
    """Build sdists with this machine's torch into a folder; return why they cannot be carried."""
    if not recipe.sdists:
        return ""
    before = {*folder.rglob("*.so")}
    try:
        python = building.build(places, recipe).python
        building.install_sdists(recipe, python, scratch, "--target", folder)
    except UnbuildableError as error:
        return str(error)
    compiled = sorted(path.name for path in {*folder.rglob("*.so")} - before)
    return f"compiled for this machine: {', '.join(compiled)}" if compiled else ""


def tools(target: Target, folder: Path) -> Path:
    """Install what the runner itself needs there; raises RunnerError where it cannot be had."""
    group = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["node"]
    wanted = [one for one in group if one.partition("==")[0] in _OURS]
    why = _install(folder / "tools", target, *wanted)
    if why:
        fault = Fault(where="the runner", found=why, allowed="wheels of packaging and pydantic")
        raise RunnerError([fault], ExitCode.UNBUILDABLE)
    return folder / "tools"


def _install(folder: Path, target: Target, *wanted: str | Path) -> str:
    """Unpack wheels for another platform into a folder; return why it cannot be done."""
    done = uv.call(
        *("pip", "install", "--quiet", "--no-build", "--target", folder),
        *("--python-platform", target.platform, "--python-version", target.python),
        *wanted,
    )
    return anonymous(" ".join(done.err.split()))[-600:] if done.code else ""
