"""Commands that take a second, each in a place where it can be run again and again.

Those that build and write run in a checkout of toys, those that read in this one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from histories import History
from toy_index import serving
from toys import FAILS, RELEASES, Checkout, made, made_wheel, made_wheels

from repromatrix.runner.execution.ray.task import packages_of
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.tools.bundle.pack import carried

SOON, RAY_SOON = 5.0, 25.0
"""Seconds within which an interrupted command ends."""
_WRITTEN = (
    *("cases", "environments", "reports/published", "reports/site"),
    *(".repromatrix", ".nox", ".user"),
)
"""What commands write to below a checkout of toys."""
_VERSION = ("transformers.__version__", 'vars(transformers)["__{}__".format("version")]')
_ABOUT = ('models = ["toy"]', 'models = ["toy"]\n# trigger = ["load"]\n# symptom = ["error"]')
"""What of a toy is refused where cases are checked, and what stands there instead."""
_GRID = ("matrix", "--release", ",".join(RELEASES))
_BISECTED = ("bisect", "toy_1", "--precision", "fp32")
_BLAMED = ("--precision", "fp32", "--good", RELEASES[0], "--bad", RELEASES[1])
_SIDES = ("--release", "5.23.0", "--against", "5.22.2")
_COMMITS = ("1.0.0 1.0.0", "1.1.0 1.0.0", "1.1.0 1.1.0", "1.1.0 1.1.0", "1.2.0 1.1.0")
"""What version the sources of a commit claim, and as which release they behave."""

Cells = dict[tuple[str, ...], list[tuple[str, str, bool, int]]]
"""By key: outcome, error, whether it is unstable, and how often it was repeated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where commands run; all that they write is below `folder` and `temporary`."""

    root: Path
    folder: Path
    temporary: Path
    environ: Mapping[str, str]
    written: tuple[Path, ...]

    @property
    def said(self) -> Path:
        """What a command says of errors."""
        return self.folder / "said"

    def put_back(self, saved: Path) -> None:
        """Let all that commands write be as it was saved; what one left is no other's."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        for number, path in enumerate(self.written):
            shutil.rmtree(path, ignore_errors=True)
            if (saved / str(number)).exists():
                shutil.copytree(saved / str(number), path, symlinks=True)

    def save(self, saved: Path) -> Path:
        """Copy all that commands write."""
        for number, path in enumerate(self.written):
            if path.exists():
                shutil.copytree(path, saved / str(number), symlinks=True)
        return saved

    def cells(self) -> Cells:
        """Read every cell that is committed, as any other program would."""
        found: Cells = {}
        asked = (
            "SELECT case_name, workaround, environment, precision, outcome,"
            " coalesce(error_class, ''), unstable, repeats FROM cells"
        )
        for store in sorted(path for one in self.written for path in one.rglob("*.sqlite")):
            # Nothing is committed while there is no table.
            with (
                contextlib.suppress(sqlite3.OperationalError),
                closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database,
            ):
                for *key, outcome, error, unstable, repeats in database.execute(asked):
                    row = outcome, error, bool(unstable), repeats
                    found.setdefault((store.name, *key), []).append(row)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command as it is typed, what is there before it, and how soon it has to end."""

    place: Place
    words: tuple[str, ...]
    saved: Path
    """What its place holds when it begins."""
    reads: bool = False
    """Whether what it prints is all that it does."""
    soon: float = SOON
    name: str = ""
    through: tuple[str, ...] = ("repromatrix",)
    """The module that it is typed behind."""

    @property
    def title(self) -> str:
        """How the table calls it."""
        return self.name or self.words[0]


def quick_disk() -> str | None:
    """Return a folder in memory, where there is one: many small runs wait for a disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


def toys(folder: Path, temporary: Path) -> Iterator[Command]:
    """Yield the commands that build, run and write, in a checkout of toys."""
    wheels = made_wheels(folder / "wheels")
    checkout = made(folder / "toys" / "checkout", wheels, 2)
    for path in (checkout.root / "cases").glob("*.py"):
        path.write_text(path.read_text().replace(*_VERSION).replace(*_ABOUT))
    temporary.mkdir(exist_ok=True)
    # What a node of Ray installs from an index is there: its Python is this one.
    shutil.copy(ROOT / "pyproject.toml", checkout.root)
    packages, _ = packages_of(ROOT, folder / "toys" / "cache" / "repromatrix")
    packages.mkdir(parents=True)
    place = Place(
        root=checkout.root,
        folder=folder / "toys",
        temporary=temporary,
        environ=checkout.environ(
            TMPDIR=str(temporary),
            XDG_CACHE_HOME=str(folder / "toys" / "cache"),
            RAY_worker_niceness="0",
        ),
        written=tuple(checkout.root / name for name in _WRITTEN),
    )
    new = place.save(folder / "new")
    clone = str(_clone(folder / "clone"))
    for needed in carried():
        name, _, version = needed.partition("==")
        made_wheel(wheels, name, version)
    bundle = str(checkout.root / "environments" / "bundle.tar.xz")
    for words in (
        _GRID,
        ("environment", *RELEASES),
        ("run", "toy_0", "--release", RELEASES[0], "--precision", "bf16"),
        _BISECTED,
        ("blame", "toy_1", *_BLAMED),
        ("diff", *RELEASES),
        ("history", "--repo", clone, "--every", "1"),
        ("bundle", "--python-version", "3.11", "--output", bundle),
    ):
        yield Command(place=place, words=words, saved=new)
    commits = (*_BISECTED, "--commits", "--repo", clone)
    yield Command(place=place, words=commits, saved=new, name="bisect --commits")
    with serving(wheels) as address:
        there = {name: place.environ[name] for name in place.environ if not name.startswith("PIP_")}
        served = dataclasses.replace(place, environ={**there, "PIP_INDEX_URL": address})
        yield Command(place=served, words=("lock",), saved=new)
    ray = (*_GRID, "--ray", "local")
    yield Command(place=place, words=ray, saved=new, soon=RAY_SOON, name="matrix --ray")
    yield from _with_evidence(place, checkout, folder, new)


def _with_evidence(place: Place, checkout: Checkout, folder: Path, new: Path) -> Iterator[Command]:
    """Yield the commands that take what another one has measured."""
    place.put_back(new)
    grid = [sys.executable, "-m", "repromatrix", *_GRID]
    subprocess.run(grid, cwd=place.root, env=dict(place.environ), check=False, capture_output=True)
    store = checkout.store.rename(folder / "toys" / "other.sqlite")
    yield Command(place=place, words=("merge", str(store)), saved=place.save(folder / "built"))
    shutil.copy(store, checkout.store)
    for path in (checkout.root / "cases").glob("*.py"):
        path.write_text(path.read_text().replace(FAILS, ""))
    measured = place.save(folder / "measured")
    for words in (("report",), ("publish",), ("accept", "--allow-regressions")):
        yield Command(place=place, words=words, saved=measured)


def _reading(root: Path, folder: Path, **variables: str) -> Place:
    """Return a place in which nothing is written but into its folder."""
    written = folder / "written"
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    environ = Checkout(root=folder, wheels=folder).environ(
        TMPDIR=str(temporary),
        REPROMATRIX_ENVIRONMENTS=str(Paths().built),
        REPROMATRIX_STORE=str(written / "evidence.sqlite"),
        REPROMATRIX_SITE=str(written / "site"),
        **variables,
    )
    return Place(root=root, folder=folder, temporary=temporary, environ=environ, written=(written,))


def _clone(folder: Path) -> Path:
    """Make a clone of the toys' package, in whose middle a toy breaks."""
    clone = History()
    for number, (claims, acts) in enumerate(map(str.split, _COMMITS)):
        text = f'__version__ = "{claims}.dev0"\n__version__ = "{acts}"\nnumber = {number}\n'
        files = {"src/transformers/__init__.py": text, "setup.py": "setup(install_requires=[])\n"}
        clone.commit(str(number), files)
    for release, on in (("1.0.0", "0"), ("1.1.0", "3")):
        text = f'__version__ = "{release}"\n'
        files = {"src/transformers/__init__.py": text}
        clone.commit(release, files, branch=f"v{release}", on=on)
        clone.tag(f"v{release}", release)
    return clone.write(folder)


def corpus(folder: Path) -> Iterator[Command]:
    """Yield the commands that read what this checkout has, and the sweep of a few models."""
    place = _reading(ROOT, folder / "corpus")
    listed = folder / "corpus" / "requirements.txt"
    listed.write_text("transformers==4.50.3\naccelerate==1.6.0\n")
    issues = str(folder / "corpus" / "written" / "issues")
    new = place.save(folder / "nothing")
    for words in (
        *(("results",), ("audit", str(listed)), ("advise",), ("check",)),
        ("issues", issues),
    ):
        yield Command(place=place, words=words, saved=new, reads=True)
    # With the user's own index, of which commands in a check know nothing.
    builds = [sys.executable, "-m", "repromatrix", "environment", *_SIDES[1::2]]
    subprocess.run(builds, cwd=ROOT, check=True)
    swept = ("sweep", *_SIDES, "--model", "llama", "--probe", "outputs-fp32")
    yield Command(place=place, words=swept, saved=new)
    virtual = str(min(Paths().built.glob("*-*")))
    asked = dataclasses.replace(place, environ={**place.environ, "VIRTUAL_ENV": virtual})
    yield Command(place=asked, words=("doctor",), saved=new, reads=True)
