"""The bad end with every minor version of a companion, so that "with every one of them" is said."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from runner.environments import index, mixing, shelf
from runner.environments.mixing import UnresolvableError
from runner.errors import Fault, refuse
from runner.judging.culprits import Trial
from runner.judging.sweeps import Sweep, minors
from runner.model.cell import Source
from runner.model.naming import taken_apart, with_extras
from runner.model.requirements import parse
from runner.searching.oracle import Answer

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from runner.blaming.runs import Runs
    from runner.project import Project


def asked(text: str, project: Project, bad: str) -> Requirement:
    """Read what is to be swept, `accelerate` or `accelerate>=1.3`; raises RunnerError.

    Without bounds they are the oldest and the newest version that the releases have.
    """
    allowed = "a companion by name, bounds behind it where they are wanted: accelerate>=1.3"
    try:
        found = parse(text)
    except ValueError as error:
        raise refuse(Fault(where="--sweep", found=str(error), allowed=allowed)) from error
    if found.name == "transformers" or not project.environments[bad].version(found.name):
        raise refuse(Fault(where="--sweep", found=repr(text), allowed=allowed))
    if not found.specifier:
        held = {one.version(found.name) for one in project.environments.values()} - {""}
        bounds = sorted(held, key=Version)
        found.specifier = SpecifierSet(f">={bounds[0]},<={bounds[-1]}")
    return found


def sweep(runs: Runs, wanted: Requirement, bad: Trial) -> Sweep:
    """Ask the bad end with each version; raises RunnerError where the index does not answer."""
    package = wanted.name
    end = runs.project.environments[runs.question.bad]
    own = end.version(package)
    versions = minors(index.published(package), wanted.specifier, own)
    return Sweep(
        package=package,
        base=end.name,
        trials=tuple(
            (version, bad if version == own else _trial(runs, package, version))
            for version in versions
        ),
    )


def _trial(runs: Runs, package: str, version: str) -> Trial:
    project = runs.project
    end = project.environments[runs.question.bad]
    name = varied_name(end.name, package, version)
    unknown = Trial(taken=frozenset({package}), name=name, answer=Answer.UNKNOWN)
    base = project.locks[taken_apart(name).base]
    try:
        lock = mixing.varied(project.places, project.matrix, base, name)
    except UnresolvableError as error:
        return dataclasses.replace(unknown, reason=f"unresolvable: {error}")
    environment = dataclasses.replace(shelf.environment(project.matrix, lock), source=Source.PAIR)
    return runs.answered(unknown, environment, lock)


def varied_name(name: str, package: str, version: str) -> str:
    """Return the name of an environment with a package in another version.

    >>> varied_name("4.53.3+peft0.15.2+timm", "accelerate", "1.6.0")
    '4.53.3+peft0.15.2+accelerate1.6.0+timm'
    """
    parts = taken_apart(name)
    changed = {**dict(parts.changed), package: version}
    pairs = with_extras(parts.base, (f"{one}{held}" for one, held in changed.items()))
    return with_extras(pairs, parts.extras)
