"""Which evidence answers for a torch: what is known of another that is alike to a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.model import requirements
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Line
from repromatrix.runner.model.environment_name import under_torch
from repromatrix.runner.model.packages import TORCH

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from repromatrix.runner.audit.known import MeasuredCell

M = TypeVar("M")
_Lines = Mapping[Line, Mapping[str, M]]
"""Something of each measured cell, by environment."""


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
    measured: Iterable[_Lines[M]],
    environments: Mapping[str, Environment],
) -> dict[str, frozenset[str]]:
    """Return the cases that depend on torch, with the measured versions that are like `torch`.

    Versions are alike where all that the expectations say of torch holds for both or for none. That
    is believed beyond what was measured, and between two versions that are alike; between two that
    are not, nobody knows where the change is.
    """
    versions: dict[str, set[str]] = {
        name: set() for name, case in cases.items() if torch_requirements(case)
    }
    for (name, *_), line in (found for lines in measured for found in lines.items()):
        if name in versions:
            versions[name].update(environments[one].version(TORCH) for one in line)
    found = {}
    for name, texts in versions.items():
        case = cases[name]
        ordered = sorted(texts - {""}, key=lambda text: release_of(TORCH, text))
        if not ordered:
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


def only_alike(
    lines: _Lines[M],
    by_torch: Mapping[str, frozenset[str]],
    environments: Mapping[str, Environment],
) -> _Lines[M]:
    """Return the cells of which `is_alike` is true."""
    return {
        line: {
            name: cell
            for name, cell in found.items()
            if environments[name].version(TORCH) in by_torch[line[0]]
        }
        if line[0] in by_torch
        else found
        for line, found in lines.items()
    }


def standing_for(
    torch: str,
    ours: _Lines[MeasuredCell],
    others: _Lines[MeasuredCell],
    by_torch: Mapping[str, frozenset[str]],
    environments: Mapping[str, Environment],
) -> Iterator[tuple[Line, dict[str, str]]]:
    """Yield the releases for which what was judged under another torch stands, and where that was.

    That is what was judged under `torch`. Of a case that depends on torch, what was seen under
    another one that is alike will do where the release itself was not: the newest.
    """
    mine = release_of(TORCH, torch) if torch else None
    for line, found in others.items():
        judged = (
            (release_of(TORCH, version), at, name)
            for name in found
            for at, version in [under_torch(name) or ("", "")]
            if at and not environments[name].unusable
        )
        ranked = sorted(judged, key=lambda one: (one[0] == mine, one[0]))
        seen = ours.get(line, {})
        stands = {
            at: name
            for version, at, name in ranked
            if (at not in seen and line[0] in by_torch)
            or (version == mine and found[name].result.fails is not None)
        }
        if stands:
            yield line, stands
