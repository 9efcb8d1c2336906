"""The older side of a comparison as it was published, measured again only where it matters. Pure.

Outcomes and summaries of a published release stand for a new measurement where the environment,
the recipes and the code of the probes are those that were run then, and where what the newer
release does agrees with them. Whatever differs is measured on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import PROTOCOL, Environment
from repromatrix.runner.sweep.cells import kind_and_probes, probe_cases
from repromatrix.runner.sweep.child.probes.names import BUILD, PROBES
from repromatrix.runner.sweep.findings import Found, change_of
from repromatrix.runner.sweep.history import SweepHistory
from repromatrix.runner.sweep.published import shortened
from repromatrix.runner.sweep.recipes import ModelRecipe
from repromatrix.runner.sweep.records import ProbeKey


def sources_of(recipes: Iterable[ModelRecipe], lacking: Iterable[str]) -> str:
    """Return the identity of what is run on a release: recipes, and the code of probes.

    `lacking` are the probes that are not run. 16 hexadecimal digits.
    """
    absent = {*lacking}
    cases = probe_cases(recipes, [probe for probe in PROBES if probe.name not in absent])
    digests = sorted(case.digest for case in cases.values())
    return hashlib.sha256(" ".join([str(PROTOCOL), *digests]).encode()).hexdigest()[:16]


def published_baseline(
    history: SweepHistory, environment: Environment, recipes: Iterable[ModelRecipe]
) -> Found:
    """Return what a release was found to do when it was published whole; nothing where it was not.

    Nothing, too, where it was measured with another environment, other recipes (`recipes` are
    those of the release) or other code.
    """
    swept = history.releases.get(environment.name)
    if swept is None or swept.chosen or not swept.sources:
        return {}
    if swept.environment != environment.digest:
        return {}
    if swept.sources != sources_of(recipes, swept.lacking):
        return {}
    return history.found(environment.name)


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
        key in published and change_of(published[key], shortened(newer[key])) is None
        for key in asked
    )


def _keys(name: str) -> tuple[ProbeKey, ...]:
    kind, probes = kind_and_probes(name)
    return tuple(ProbeKey(kind, probe) for probe in (BUILD, *probes))
