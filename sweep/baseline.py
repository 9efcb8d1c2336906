"""Published results as the older side of a comparison. Pure.

They stand for a new measurement if environment, recipes and the code of the probes are the same,
and if the newer release agrees with them. What differs is measured on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from repromatrix.runner.evidence.swept.changes import Found, change_of
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import BUILD
from repromatrix.runner.evidence.swept.records import ProbeKey
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment
from repromatrix.sweep.cells import code_of, kind_and_probes
from repromatrix.sweep.recipe_files import ModelRecipe


def published_baseline(
    history: SweepHistory, environment: Environment, recipes: Iterable[ModelRecipe]
) -> Found:
    """Return what a release was found to do when it was published whole; nothing where it was not.

    Nothing, too, where it was measured in another environment or by other code, and nothing of
    architectures whose recipe was another one (`recipes` are those of today).
    """
    swept = history.releases.get(environment.name)
    if swept is None or swept.chosen or swept.environment != environment.digest:
        return {}
    if swept.code != code_of(swept.lacking):
        return {}
    digests = {recipe.name: recipe.digest for recipe in recipes}
    stands = {
        kind for kind, one in history.architectures.items() if one.recipe == digests.get(kind)
    }
    return {key: one for key, one in history.found(environment.name).items() if key.kind in stands}


def to_measure(cases: Mapping[str, Case], published: Found, newer: Found) -> dict[str, Case]:
    """Return the cells of the older release for which what was published does not stand.

    `newer` is what the newer release does. A cell stands where each of its probes was published
    and does the same there, numbers within the tolerance.
    """
    return {name: case for name, case in cases.items() if not _stands(name, published, newer)}


def published_of(published: Found, cases: Iterable[str]) -> Found:
    """Return what was published of some cells."""
    keys = {key for name in cases for key in _keys(name)}
    return {key: record for key, record in published.items() if key in keys}


def _stands(name: str, published: Found, newer: Found) -> bool:
    asked = [key for key in _keys(name) if key in newer]
    if not asked:
        return False
    # Of a long message only the beginning is published.
    return all(
        key in published and change_of(published[key], newer[key].shortened) is None
        for key in asked
    )


def _keys(name: str) -> tuple[ProbeKey, ...]:
    kind, probes = kind_and_probes(name)
    return tuple(ProbeKey(kind, probe) for probe in (BUILD, *probes))
