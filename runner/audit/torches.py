"""Which evidence answers for a torch: what is known of another that is alike to a case."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment
from repromatrix.runner.model.environment_name import under_torch
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.packages import TORCH

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@lru_cache(maxsize=4096)
def release_of(name: str, text: str) -> Version:
    """Parse a version; the local part of torch's names its build, which does not matter here."""
    version = Version(text)
    return Version(version.public) if name == TORCH else version


def public(build: str) -> str:
    """Return the version of a build of torch, as most locks name it."""
    return build.partition("+")[0]


def torch_requirements(case: Case) -> tuple[Requirement, ...]:
    """Return what a case's expectations say of torch: nothing where nothing depends on it."""
    return tuple(
        requirement
        for entry in case.block.fails
        for requirement in entry.when
        if canonicalize_name(requirement.name) == TORCH
    )


def torch_sides(case: Case, torch: str) -> tuple[bool, ...]:
    """Say which requirements of torch of a case hold: versions for which it is equal are alike."""
    return tuple(
        requirements.holds(requirement, {TORCH: torch}, {})
        for requirement in torch_requirements(case)
    )


def depending(
    torch: str,
    cases: Mapping[str, Case],
    seen: Mapping[Cell, Observation],
    environments: Mapping[str, Environment],
) -> dict[str, frozenset[str]]:
    """Return the cases that depend on torch, with the measured versions that are like `torch`.

    Versions are alike where all that the expectations say of torch holds for both or for none. That
    is believed beyond what was measured, and between two versions that are alike; between two that
    are not, nobody knows where the change is.
    """
    measured: dict[str, set[str]] = {}
    for cell in seen:
        if version := environments[cell.environment].version(TORCH):
            measured.setdefault(cell.case, set()).add(version)
    found = {}
    for name, case in cases.items():
        ordered = sorted(measured.get(name, ()), key=lambda text: release_of(TORCH, text))
        if not ordered or not torch_requirements(case):
            continue
        ours, sides = release_of(TORCH, torch), torch_sides(case, torch)
        older = [version for version in ordered if release_of(TORCH, version) <= ours][-1:]
        newer = [version for version in ordered if release_of(TORCH, version) >= ours][:1]
        is_known = all(torch_sides(case, version) == sides for version in (*older, *newer))
        alike = {version for version in ordered if torch_sides(case, version) == sides}
        found[name] = frozenset(alike if is_known else ())
    return found


def is_alike(
    cell: Cell, by_torch: Mapping[str, frozenset[str]], environments: Mapping[str, Environment]
) -> bool:
    """Say whether a cell was measured with a torch that says something about ours."""
    alike = by_torch.get(cell.case)
    return alike is None or environments[cell.environment].version(TORCH) in alike


def seen_under(
    torch: str,
    seen: Mapping[Cell, Observation],
    by_torch: Mapping[str, frozenset[str]],
    environments: Mapping[str, Environment],
) -> dict[Cell, Observation]:
    """Return the cells of releases that were judged under a torch, with what was seen there.

    Of a case that depends on torch, what was seen under another torch that is alike will do where
    the release itself was not: the newest.
    """
    judged = (
        (release_of(TORCH, version), cell._replace(environment=base), row)
        for cell, row in seen.items()
        for base, version in [under_torch(cell.environment) or ("", "")]
        if base and not environments[cell.environment].unusable
    )
    ours = release_of(TORCH, torch) if torch else None
    ranked = sorted(judged, key=lambda found: (found[0] == ours, found[0]))
    return {
        at: row
        for version, at, row in ranked
        if (at not in seen and at.case in by_torch)
        or (version == ours and row.reading.fails is not None)
    }
