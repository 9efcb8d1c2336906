"""A checkout of a package under test: read as it stands in the working tree, never written to."""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from repromatrix.runner.environments import development
from repromatrix.runner.environments.development import SourceState, with_commit
from repromatrix.runner.errors import OldFault, refuse
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.packages import MOVED
from repromatrix.runner.model.script import decode, parse_python

_ROOTS = ("src", ".")
_ALLOWED = f"a checkout of one of {', '.join(MOVED)}: src/NAME/__init__.py or NAME/__init__.py"


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
    found = [
        (package, path / root)
        for package in MOVED
        for root in _ROOTS
        if (path / root / package / "__init__.py").is_file()
    ]
    packages = list(dict.fromkeys(package for package, _ in found))
    if len(packages) != 1:
        held = f"sources of {' and '.join(packages)}" if packages else _what(path)
        raise refuse(OldFault(where=str(path), found=held, allowed=_ALLOWED))
    package, root = found[0]
    root = root.resolve()
    claims = _claimed(root / package / "__init__.py")
    how = development.standing(root / package, root / package, ignored=True)
    return Checkout(package=package, root=root, claims=claims, standing=how)


def _what(path: Path) -> str:
    if not path.is_dir():
        return "no such folder"
    return "not that package at all"


def _claimed(init: Path) -> str:
    """Return the version that a package states, as text in its `__init__.py`."""
    tree = parse_python(decode(init.read_bytes(), str(init)), str(init))
    for node in tree.body:
        match node:
            case (
                ast.Assign(
                    targets=[ast.Name(id="__version__")], value=ast.Constant(value=str(said))
                )
                | ast.AnnAssign(
                    target=ast.Name(id="__version__"), value=ast.Constant(value=str(said))
                )
            ):
                return _version(said, init)
            case _:
                pass
    raise refuse(OldFault(where=str(init), key="__version__", found="none", allowed='"1.2.3"'))


def _version(said: str, init: Path) -> str:
    try:
        return str(Version(said))
    except ValueError:  # also for a number of 5,000 digits
        fault = OldFault(where=str(init), key="__version__", found=repr(said), allowed="a version")
        raise refuse(fault) from None
