"""Pack a bundle: the runner, the cases, and the packages of environments, each file once."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from repromatrix.runner.environments import building, uv
from repromatrix.runner.environments.building import Recipe, UnbuildableError
from repromatrix.runner.errors import ExitCode, Fault, InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.execution.run import runner_files
from repromatrix.runner.model.lock import parted
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.subprocesses import anonymous
from repromatrix.tools.bundle.measure import CONTENT, NAME, TREES, Tree

TOOLS = "tools"
OLDEST = (3, 11)
"""The runner's own Python; what it measures with may not be older, since both are one there."""

_PYTHON = re.compile(r"3\.(\d+)")
_PLATFORM = re.compile(r"(?P<machine>x86_64|aarch64)-manylinux(?:_2_(?P<glibc>\d+)|2014)")
_GLIBC_2014 = 17


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The Python and the platform that a bundle is for."""

    python: str
    platform: str

    @property
    def cannot_have(self) -> str:
        """How an error about a package that has no wheel for it begins."""
        return f"its packages cannot be had for Python {self.python} on {self.platform}"

    @property
    def facts(self) -> dict[str, object]:
        """What the script that runs there holds its machine against; raises RunnerError."""
        found = _PLATFORM.fullmatch(self.platform)
        if found is None:
            expected = "a platform as uv names it, such as x86_64-manylinux_2_28"
            raise refuse(InvalidValue("--platform", self.platform, expected))
        minor = _PYTHON.fullmatch(self.python)
        if minor is None or (3, int(minor[1])) < OLDEST:
            expected = "3.11 or newer, such as 3.12"
            raise refuse(InvalidValue("--python-version", self.python, expected))
        return {
            "python": [3, int(minor[1])],
            "machine": found["machine"],
            "glibc": [2, int(found["glibc"] or _GLIBC_2014)],
        }


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


def gather(paths: Paths, recipes: Mapping[str, Recipe], target: Target, folder: Path) -> Gathered:
    """Install what recipes lock for another platform, running nothing of it.

    But for sdists: they are built here, and may hold nothing that is compiled. Raises RunnerError,
    with exit code 4, naming every environment of which something cannot be had for there.
    """
    found = Gathered()
    faults: list[Fault] = []
    for name, recipe in recipes.items():
        wanted = folder / f"{name}.txt"
        wanted.write_text(
            parted(recipe.lock, {one.name for one in recipe.sdists})[0], encoding="utf-8"
        )
        why = _install(folder / name, target, "--no-deps", "--requirement", wanted)
        why = why or _build(paths, recipe, folder, folder / name)
        if why:
            faults.append(Problem(name, f"{target.cannot_have}: {why}"))
        else:
            found.take(name, folder / name)
    if faults:
        raise RunnerError(faults, ExitCode.UNBUILDABLE)
    return found


def _build(paths: Paths, recipe: Recipe, scratch: Path, folder: Path) -> str:
    """Build sdists with this machine's torch into a folder; return why they cannot be carried."""
    if not recipe.sdists:
        return ""
    before = {*folder.rglob("*.so")}
    try:
        python = building.build(paths, recipe).python
        building.install_sdists(recipe, python, scratch, "--target", folder)
    except UnbuildableError as error:
        return str(error)
    compiled = sorted(path.name for path in {*folder.rglob("*.so")} - before)
    return f"compiled for this machine: {', '.join(compiled)}" if compiled else ""


def carried() -> list[str]:
    """Return the requirements of the runner's own packages that go into a bundle."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    group = tomllib.loads(text)["dependency-groups"]["node"]
    return [one for one in group if one.partition("==")[0] in _OURS]


def tools(target: Target, folder: Path) -> Path:
    """Install what the runner itself needs there; raises RunnerError where it cannot be had."""
    why = _install(folder / "tools", target, *carried())
    if why:
        raise refuse(Problem("the runner", f"{target.cannot_have}: {why}"), ExitCode.UNBUILDABLE)
    return folder / "tools"


def _install(folder: Path, target: Target, *wanted: str | Path) -> str:
    """Unpack wheels for another platform into a folder; return why it cannot be done."""
    done = uv.call(
        *("pip", "install", "--quiet", "--no-build", "--target", folder),
        *("--python-platform", target.platform, "--python-version", target.python),
        *wanted,
    )
    return anonymous(" ".join(done.err.split()))[-600:] if done.code else ""


_DATE = 315_532_800
"""1980: the same content gives the same bytes."""
_PRESET = 4
_WINDOW = 1 << 26
"""Far more than lies between a file and its own older version."""
_JUMPS = {"x86_64": [{"id": lzma.FILTER_X86}]}
"""Makes equal calls equal bytes, wherever they stand; only what every `xz` can undo."""
_HERE = Path(__file__).parent
_THERE = ("__init__.py", "measure.py")
"""What of this folder runs on the other machine, beside the script."""
_ABOUT = """\
Measures dtype bugs on releases of transformers, with the torch of this machine, without a network.

    python run.py --device cuda

needs a Python {python} with torch, on {platform}. It goes on where it was interrupted, and writes
evidence.sqlite, to be carried back and merged with `nox -s merge -- evidence.sqlite`.
Nothing is written outside of this folder. `python run.py --help` lists what can be chosen.
"""


def pack(  # noqa: PLR0913 - what goes in, and how
    paths: Paths,
    target: Target,
    gathered: Gathered,
    tools: Path,
    archive: Path,
    *,
    preset: int = _PRESET,
) -> int:
    """Write a bundle, whole or not at all; return its size in bytes."""
    part = archive.with_name(f".{archive.name}.part")
    top = archive.name.removesuffix(".tar.xz")
    packs = {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": _WINDOW}
    filters = [*_JUMPS.get(str(target.facts["machine"]), []), packs]
    try:
        with (
            lzma.open(part, "wb", filters=filters) as compressed,
            tarfile.open(fileobj=compressed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
        ):
            for name, content in _members(paths, target, gathered, tools):
                about = tarfile.TarInfo(f"{top}/{name}")
                about.size, about.mtime, about.mode = len(content), _DATE, 0o644
                tar.addfile(about, io.BytesIO(content))
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)
    return archive.stat().st_size


def _members(
    paths: Paths, target: Target, gathered: Gathered, tools: Path
) -> Iterator[tuple[str, bytes]]:
    yield "README.txt", _ABOUT.format(python=target.python, platform=target.platform).encode()
    about = {"platform": target.platform, **target.facts, "environments": list(gathered.trees)}
    yield NAME, f"{json.dumps(about, indent=1)}\n".encode()
    yield "run.py", (_HERE / "run.py").read_bytes()
    ours = dict(runner_files(paths))
    ours |= {f"repromatrix/tools/bundle/{name}": _HERE / name for name in _THERE}
    ours |= {f"cases/{path.relative_to(paths.cases)}": path for path in paths.cases.rglob("*.py")}
    for name, path in sorted(ours.items()):
        yield name, path.read_bytes()
    for path in files(tools):
        yield f"{TOOLS}/{path.relative_to(tools).as_posix()}", path.read_bytes()
    for name, tree in gathered.trees.items():
        yield f"{TREES}/{name}.json", json.dumps(tree).encode()
    # A file beside its other versions: what they share is written once.
    for name, (_, path) in sorted(gathered.contents.items(), key=lambda one: _beside(*one[1])):
        yield f"{CONTENT}/{name[:2]}/{name[2:]}", path.read_bytes()


def _beside(path: str, at: Path) -> tuple[str, str, str]:
    """Order contents by kind, then by path: a library's name holds a digest that says nothing."""
    name = Path(path)
    return name.suffix, path.partition("-")[0], str(at)
