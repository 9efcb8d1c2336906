"""Whether the plain script of a case, as `case NAME --plain` prints it, ends as its cell does: each
is run in every precision on three releases, and held against what is published.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING

from drills.truth import RELEASES, Held, count
from drills.ways import observed
from repromatrix.runner import project
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import published
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.scripts.plain import plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from drills.tally import Tally
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.project import Project


def plain_cases(cases: Mapping[str, Case], precision: Precision) -> dict[str, Case]:
    """Return cases that are their plain scripts in a precision, without those that decline it."""
    found = {}
    for name, case in cases.items():
        try:
            text = plain(case, precision)
        except RunnerError:
            continue
        script = dataclasses.replace(case.script, code=text, text=text)
        # A worker knows scripts by their paths, and those of variants are one.
        found[name] = dataclasses.replace(case, script=script, path=f"{name}.py")
    return found


def is_same(one: Observation, other: Observation) -> bool:
    """Say whether two cells end alike: with the same outcome, and the same kind of exception."""
    classes = [row.failed.error_class if row.failed else "" for row in (one, other)]
    return one.outcome is other.outcome and classes[0] == classes[1]


def is_of(loaded: Project, name: str) -> bool:
    """Say whether an environment is one of the releases, with or without further packages."""
    environment = loaded.environments.get(name)
    is_release = environment is not None and environment.source is Source.RELEASE
    return is_release and taken_apart(name).base in RELEASES


def units_of(known: Mapping[Cell, Observation], cases: Collection[str]) -> list[Unit]:
    """Return the plain cells of some cases that are known and apply, by environment."""
    wanted: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell, row in known.items():
        if cell.case in cases and row.outcome is not Outcome.NOT_APPLICABLE:
            wanted[cell.environment].append(cell)
    return [Unit(environment=name, cells=tuple(sorted(some))) for name, some in wanted.items()]


def held(
    loaded: Project, known: Mapping[Cell, Observation]
) -> Iterator[tuple[Observation, Observation]]:
    """Yield what is known of a cell, and what its plain script does.

    Raises UnbuiltError where an environment cannot be made.
    """
    for precision in Precision:
        cases = plain_cases(loaded.cases, precision)
        mine = {cell: row for cell, row in known.items() if cell.precision is precision}
        for row in observed(loaded, units_of(mine, cases), cases):
            yield known[row.cell], row


def drill(tally: Tally) -> None:
    """Run them, and count those that end otherwise than their cell."""
    loaded = project.load(Paths())
    known = {
        row.cell: row
        for row in published.read(loaded.paths.published)
        if row.cell.workaround == PLAIN and is_of(loaded, row.cell.environment)
    }
    pairs = [*held(loaded, known)]
    wrong = [row.cell for row, found in pairs if not is_same(row, found)]
    count(
        tally,
        Held(
            tried="plain scripts",
            times=len(pairs),
            wrong="end otherwise than their cell",
            cells=tuple(wrong),
            note=", ".join(RELEASES),
        ),
    )
