"""Change each case so that its outcome must change, where it passes and where it fails."""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ways import observed

from checks.sabotage import Sabotage, inverted, left_behind, sabotaged
from checks.table import Table
from repromatrix.runner import project
from repromatrix.runner.evidence import published
from repromatrix.runner.judging.verdicts import described, expected
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import Project

_INVERTED, _MIXED = "inverted ", "mixed"


class What(StrEnum):
    """What must change an outcome; else the case passes, or fails, by construction."""

    NOT_GREEN = "a passing cell, an assertion inverted"
    NOT_DEAF = "a passing cell, the library refusing"
    NOT_IDLE = "a passing cell, its calls left out"
    NOT_MIXED = "a passing cell, a tensor left in another dtype"
    NO_DEAD_WORD = "an assertion inverted, wherever it stands"
    NOT_RED = "a failing cell, its calls left out"
    NOT_MUTE = "a failing assertion inverted"


class Known(NamedTuple):
    """A cell whose outcome is known: where its case passes, or where it fails as described."""

    cell: Cell
    passes: bool
    asserts: bool
    """Whether it is an assertion of the case that fails."""


class Tried(NamedTuple):
    """One thing that was tried with a case, with whether its outcome survived it."""

    case: str
    what: What
    survived: bool
    detail: str = ""


def known_cells(loaded: Project, rows: Iterable[Observation]) -> list[Known]:
    """Return a passing and a failing cell of each case that has them, on few environments."""
    offered: dict[str, dict[tuple[str, bool], Known]] = {}
    for row in rows:
        known = _known(loaded, row)
        if known:
            at = offered.setdefault(row.cell.environment, {})
            at.setdefault((row.cell.case, known.passes), known)
    chosen: dict[tuple[str, bool], Known] = {}
    while any(at.keys() - chosen.keys() for at in offered.values()):
        best = max(offered, key=lambda name: (len(offered[name].keys() - chosen.keys()), name))
        chosen = {**offered[best], **chosen}
    return sorted(chosen.values(), key=lambda one: (one.cell.environment, one.cell))


def _known(loaded: Project, row: Observation) -> Known | None:
    cell = row.cell
    case, environment = loaded.cases.get(cell.case), loaded.environments.get(cell.environment)
    counts = cell.device is Device.CPU and not row.unstable
    if not counts or case is None or environment is None or not environment.source.has_lock:
        return None
    entry = expected(case, cell, environment)
    if entry is None and row.outcome is Outcome.PASSES:
        return Known(cell, passes=True, asserts=False)
    if entry and row.outcome is Outcome.FAILS and described(entry, row):
        return Known(cell, passes=False, asserts=asserts_itself(row))
    return None


def asserts_itself(row: Observation) -> bool:
    """Say whether it was an assertion of the case that failed, and none of a library."""
    if row.failed is None or row.failed.error_class != "AssertionError":
        return False
    return "site-packages/" not in row.failed.traceback.rpartition('  File "')[2]


def tried(loaded: Project, chosen: Sequence[Known]) -> list[Tried]:
    """Sabotage each case at its known cells and say what survived; raises UnbuiltError."""
    with tempfile.TemporaryDirectory() as folder:
        files = _written({one.cell.case for one in chosen}, loaded.cases, Path(folder))
        cases = {case.name: case for of_one in files.values() for case in of_one.values()}
        cells = [
            one.cell._replace(case=case.name)
            for one in chosen
            for case in files[one.cell.case].values()
        ]
        seen = {row.cell: row for row in observed(loaded, cells, cases)}
    found = {
        known: {
            how: _survives(loaded, known, seen[known.cell._replace(case=case.name)])
            for how, case in files[known.cell.case].items()
        }
        for known in chosen
    }
    of_cells = [one for known, survived in found.items() for one in _of_cell(known, survived)]
    return [*of_cells, *_of_assertions(found)]


def _written(
    names: Collection[str], cases: Mapping[str, Case], folder: Path
) -> dict[str, dict[str, Case]]:
    """Write what each case becomes: by its name and what was done, a case of another name."""
    found: dict[str, dict[str, Case]] = {}
    for name in sorted(names):
        code = cases[name].script.code
        texts = {f"{_INVERTED}{number}": text for number, text in enumerate(inverted(code), 1)}
        texts |= {how: sabotaged(code, how) for how in Sabotage}
        if mixed := left_behind(code):
            texts[_MIXED] = mixed
        for number, (how, text) in enumerate(texts.items()):
            path = folder / str(number) / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            script = dataclasses.replace(cases[name].script, text=text)
            changed = dataclasses.replace(
                cases[name], name=f"{name}: {how}", path=str(path), script=script
            )
            found.setdefault(name, {})[how] = changed
    return found


def _of_cell(known: Known, survived: dict[str, bool]) -> Iterator[Tried]:
    """Yield what has to be seen at a cell by what it is."""
    inversions = [kept for how, kept in survived.items() if how.startswith(_INVERTED)]
    left_out = all(survived[how] for how in Sabotage if how is not Sabotage.REFUSED)
    if not known.passes:
        yield _tried(known, What.NOT_RED, left_out)
        if known.asserts:
            yield _tried(known, What.NOT_MUTE, all(inversions))
        return
    yield _tried(known, What.NOT_DEAF, survived[Sabotage.REFUSED])
    # Where nothing is asserted of a result, only that nothing is raised, there is nothing to miss.
    if inversions:
        yield _tried(known, What.NOT_GREEN, all(inversions))
        yield _tried(known, What.NOT_IDLE, left_out)
    if _MIXED in survived:
        yield _tried(known, What.NOT_MIXED, survived[_MIXED])


def _of_assertions(found: Mapping[Known, dict[str, bool]]) -> Iterator[Tried]:
    decided: dict[tuple[str, str], bool] = {}
    for known, survived in found.items():
        for how in [how for how in survived if how.startswith(_INVERTED)]:
            key = (known.cell.case, how)
            decided[key] = decided.get(key, False) or not survived[how]
    for (case, how), decides in decided.items():
        yield Tried(case=case, what=What.NO_DEAD_WORD, survived=not decides, detail=how)


def _tried(known: Known, what: What, survived: bool) -> Tried:  # noqa: FBT001
    cell = known.cell
    at = " ".join(filter(None, (cell.workaround, cell.environment, cell.precision)))
    return Tried(case=cell.case, what=what, survived=survived, detail=at)


def _survives(loaded: Project, known: Known, row: Observation) -> bool:
    """Say whether a sabotaged case still ends as it does without."""
    if known.passes:
        return row.outcome is Outcome.PASSES
    case = loaded.cases[known.cell.case]
    entry = expected(case, known.cell, loaded.environments[known.cell.environment])
    return entry is not None and described(entry, row)


def check(table: Table, _options: argparse.Namespace) -> None:
    """Sabotage every case where it is known to pass and where it is known to fail."""
    loaded = project.load(Paths())
    rows = list(published.read(loaded.paths.published))
    chosen = known_cells(loaded, rows)
    known = {(one.cell.case, one.passes) for one in chosen}
    ran = {row.cell.case for row in rows if row.outcome.was_run}
    lacking = [name for name in sorted(ran) if len({(name, True), (name, False)} & known) < 2]
    wrong = "cases without a cell that passes and one that fails as described"
    table.count("cases sabotaged", len(ran), wrong, len(lacking), ", ".join(lacking))
    found = tried(loaded, chosen)
    times = Counter(one.what for one in found)
    for what in What:
        kept = [f"{one.case} ({one.detail})" for one in found if one.what is what and one.survived]
        table.count(what, times[what], "outcomes unchanged", len(kept), ", ".join(kept))
