"""The environment of a commit: what its sources declare, as of their day.

Where the newest release before that day has all of it, that release's environment serves. Else one
is resolved, with the packages of that release wherever they fit and nothing newer than the day.
Its lock is kept below `.repromatrix/trials`, so a later search runs in the same environment.

What sources declare is read without running them: `pyproject.toml` as TOML, `setup.py` as a syntax
tree, so what a `setup.py` would compute when it is run is never computed.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import datetime as dt
import hashlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from repromatrix.runner import files
from repromatrix.runner.environments import locks
from repromatrix.runner.environments.building import Built, Recipe, build
from repromatrix.runner.environments.locks import NoSolutionError
from repromatrix.runner.model import requirements
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.lock import Lock, inputs_digest, read_lock
from repromatrix.runner.model.matrix import Matrix
from repromatrix.runner.paths import Paths


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """What the sources of a package say that they need, and since which day they say it."""

    package: str
    requirements: tuple[str, ...]
    day: dt.date


@dataclass(frozen=True, kw_only=True, slots=True)
class Home:
    """Where environments of commits are made: a checkout's folders, its axes and its locks."""

    paths: Paths
    matrix: Matrix
    locks: Mapping[str, Lock]

    def environment(
        self, declared: Declaration, extras: tuple[str, ...] = (), on: str = ""
    ) -> tuple[Environment, Built]:
        """Build the environment of some sources, without the sources, as `described` has it.

        Raises NoSolutionError, RunnerError where the index does not answer, and UnbuildableError.
        """
        environment, recipe = self.described(declared, extras, on)
        return environment, build(self.paths, recipe)

    def described(
        self, declared: Declaration, extras: tuple[str, ...] = (), on: str = ""
    ) -> tuple[Environment, Recipe]:
        """Return the environment of some sources, and how it is built.

        `on` names an environment with a lock to begin with, in place of the newest release before.

        Raises NoSolutionError, and RunnerError where the index does not answer.
        """
        if not on:  # before the first release its packages, which are a few days newer
            old = [one for one in self.matrix.releases if one.date + locks.COOLING <= declared.day]
            newest = max(old, key=lambda one: one.date, default=self.matrix.releases[0])
            on = newest.name
        base = self.locks[on]
        known = self.locks.get(with_extras(base.name, extras))
        if known is not None:
            environment = locks.environment(self.matrix, known)
            if not unmet(declared, environment):
                return environment, locks.recipe(self.matrix, known, environment)
        lock = self._lock(declared, base, extras)
        environment = locks.environment(self.matrix, lock)
        recipe = locks.recipe(self.matrix, lock, environment)
        metadata = _metadata(declared, environment)
        digest = hashlib.sha256(f"{recipe.digest}\n{metadata}".encode()).hexdigest()[:16]
        return environment, dataclasses.replace(recipe, digest=digest, metadata=metadata)

    def _lock(self, declared: Declaration, base: Lock, extras: tuple[str, ...]) -> Lock:
        lines = (
            f"on {base.name} {base.digest}",
            *(f"{declared.package} needs {needed}" for needed in declared.requirements),
            *extras,
            f"as of {declared.day}",
        )
        identity = inputs_digest(lines)
        name = f"{base.name}~{identity[:8]}"
        path = self.paths.mixtures / f"{name}.txt"
        if not path.exists():
            text = self._resolve(declared, base, extras, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, f"# {lines[-1]}, for {declared.package}\n# input: {identity}\n{text}")
        return read_lock(path.read_text(encoding="utf-8"), name, self.paths.shown(path))

    def _resolve(
        self, declared: Declaration, base: Lock, extras: tuple[str, ...], name: str
    ) -> str:
        environment = locks.environment(self.matrix, base)
        held = environment.version("transformers")
        wanted = [f"transformers=={held}", *self.matrix.companions, *extras]
        if declared.package != "transformers":
            wanted.append(f"{declared.package}=={environment.version(declared.package)}")
        moved = {canonicalize_name(needed) for needed in unmet(declared, environment)}
        kept = [pin for pin in base.pins if canonicalize_name(pin.name) not in moved]
        companions = [pin for pin in kept if pin.name in self.matrix.companions]
        metadata = _metadata(declared, environment)
        reasons: list[NoSolutionError] = []
        # All that fits is held to the base, then its companions, then nothing.
        for bound in (kept, companions, []):
            try:
                return locks.compile_lock(
                    self.matrix,
                    wanted,
                    until=declared.day,
                    where=name,
                    bound=[str(pin) for pin in bound],
                    metadata=metadata,
                )
            except NoSolutionError as error:
                reasons.append(error)
        raise reasons[-1]


def unmet(declared: Declaration, environment: Environment) -> tuple[str, ...]:
    """Return the packages that some sources need and an environment lacks in that version."""
    parsed = map(requirements.parse, declared.requirements)
    return tuple(
        needed.name
        for needed in parsed
        if not requirements.holds(needed, environment.pins, environment.markers)
    )


def _metadata(declared: Declaration, environment: Environment) -> str:
    """Let the resolver take what the sources declare for what the installed release does.

    The release stays installed beside them: other packages ask for its version by its name.
    """
    version = environment.version(declared.package)
    return locks.described(declared.package, version, declared.requirements)


FILES = ("pyproject.toml", "setup.py")
"""The files that declare requirements."""
_KEY = "install_requires"


class UndeclaredError(Exception):
    """Nothing that can be read without running it says what the package needs."""

    def __init__(self, *, where: str, why: object) -> None:
        """Say in which file, and why it cannot be read."""
        super().__init__(f"{where} does not say what it needs: {why}")


def read_requirements(read: Callable[[str], str | None]) -> tuple[Requirement, ...]:
    """Return the requirements of a package, by name; extras are left out.

    `read` returns the text of a file of `FILES`, or None where there is none. Raises
    UndeclaredError.
    """
    texts = _in_pyproject(read("pyproject.toml") or "")
    if texts is None:
        texts = _in_setup(read("setup.py") or "")
    try:
        requirements = map(Requirement, texts)
        return tuple(sorted(requirements, key=lambda needed: canonicalize_name(needed.name)))
    except InvalidRequirement as error:
        raise UndeclaredError(where="the list of requirements", why=error) from error


def _in_pyproject(text: str) -> list[str] | None:
    """Return what `[project]` lists; None where it leaves that to `setup.py`."""
    try:
        project = tomllib.loads(text).get("project", {})
    except tomllib.TOMLDecodeError as error:
        raise UndeclaredError(where="pyproject.toml", why=error) from error
    dependencies = project.get("dependencies") if isinstance(project, dict) else None
    return dependencies if isinstance(dependencies, list) else None


def _in_setup(text: str) -> list[str]:
    """Return the list that `setup()` is given, or that the module assigns to `install_requires`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UndeclaredError(where="setup.py", why=error) from error
    assigned = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    given = [
        keyword.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == _KEY
    ]
    wanted = assigned.get(_KEY, given[0] if given else None)
    if not isinstance(wanted, ast.List):
        raise UndeclaredError(where="setup.py", why=f"{_KEY} is not a list")
    return [_read_item(item, assigned) for item in wanted.elts]


def _read_item(item: ast.expr, assigned: dict[str, ast.expr]) -> str:
    """Return `"name>=1"`, or what `deps["name"]` finds in a list of such texts."""
    if isinstance(item, ast.Constant) and isinstance(item.value, str):
        return item.value
    if isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant):
        name = canonicalize_name(str(item.slice.value))
        for value in assigned.values():
            for known in value.elts if isinstance(value, ast.List) else ():
                if isinstance(known, ast.Constant) and isinstance(known.value, str):
                    with contextlib.suppress(InvalidRequirement):
                        if canonicalize_name(Requirement(known.value).name) == name:
                            return known.value
    raise UndeclaredError(where="setup.py", why=f"{_KEY} holds {ast.unparse(item)}")
