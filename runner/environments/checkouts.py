"""A checkout of a package under test: read as it stands in the working tree, never written to."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.version import Version

from repromatrix.runner.environments import development
from repromatrix.runner.environments.development import SourceState, with_commit
from repromatrix.runner.errors import InvalidValue, Problem, refuse
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.packages import MOVED
from repromatrix.runner.model.script import decode, parse_python
from repromatrix.runner.text import join


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageSources:
    """A package, and the folder of a checkout that is put in front on the path for it."""

    package: str
    root: str
    """`src`, or empty for the folder itself."""

    @property
    def folder(self) -> str:
        """Where its modules are in a checkout."""
        return str(PurePosixPath(self.root) / self.package)

    @property
    def init(self) -> str:
        """The file that claims a version."""
        return f"{self.folder}/__init__.py"


def packages_in(has_file: Callable[[str], bool]) -> Iterator[PackageSources]:
    """Yield the packages under test that a checkout holds, told by which files it has."""
    for package in MOVED:
        for root in ("src", ""):
            sources = PackageSources(package=package, root=root)
            if has_file(sources.init):
                yield sources


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkout:
    """The sources of one package, edits included."""

    package: str
    root: Path
    """The folder that holds the package."""
    claims: str
    """The version that it says it is."""
    standing: SourceState

    @property
    def folder(self) -> Path:
        """Where the modules of the package are."""
        return self.root / self.package

    @property
    def version(self) -> str:
        """What it claims, with what tells it from others that claim the same."""
        return with_commit(self.claims, self.standing.identity)

    def within(self, base: Environment) -> Environment:
        """Return an environment in which its sources take the place of what is installed."""
        return dataclasses.replace(
            base,
            name=f"{base.name}@{self.standing.identity}",
            source=Source.INTERPRETER,
            pins={**base.pins, self.package: self.version},
        )


def read_checkout(path: Path) -> Checkout:
    """Read what a checkout holds, importing nothing; raises RunnerError when it is none of ours."""
    path = path.expanduser().resolve()
    if not path.is_dir():
        raise refuse(Problem(str(path), "the folder does not exist"))
    sources = list(packages_in(lambda name: (path / name).is_file()))
    packages = list(dict.fromkeys(found.package for found in sources))
    if len(packages) != 1:
        if not packages:
            raise refuse(Problem(str(path), f"the folder has no sources of {join(MOVED, 'or')}"))
        what = f"the folder has sources of {join(packages)}"
        raise refuse(Problem(str(path), what, "Name a checkout of one package."))
    package, root = packages[0], (path / sources[0].root).resolve()
    init = path / sources[0].init
    return Checkout(
        package=package,
        root=root,
        claims=claimed_version(decode(init.read_bytes(), str(init)), str(init)),
        standing=development.standing(root / package, root / package, ignored=True),
    )


def claimed_version(text: str, where: str) -> str:
    """Return the version that an `__init__.py` assigns; raises RunnerError where it assigns none.

    `where` is what the file is called in an error.
    """
    for node in parse_python(text, where).body:
        match node:
            case (
                ast.Assign(
                    targets=[ast.Name(id="__version__")], value=ast.Constant(value=str(version))
                )
                | ast.AnnAssign(
                    target=ast.Name(id="__version__"), value=ast.Constant(value=str(version))
                )
            ):
                return _normalized(version, f"{where}: __version__")
            case _:
                pass
    raise refuse(Problem(f"{where}: __version__", 'needs a version as text, such as "1.2.3"'))


def _normalized(version: str, where: str) -> str:
    try:
        return str(Version(version))
    except ValueError:  # also for a number of 5,000 digits
        raise refuse(InvalidValue(where, version, "a version such as 1.2.3")) from None
