"""Count the cases about models that the sweep finds by itself, on the same releases.

`recall.toml` says which cases no tiny model can show, and why others are missed.
"""

from __future__ import annotations

import argparse
import functools
import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from checks.table import Table
from repromatrix.runner import project
from repromatrix.runner.evidence.answers import published_rows
from repromatrix.runner.evidence.swept.changes import Kind, change_of
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import DTYPES
from repromatrix.runner.evidence.swept.published import read_history
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.model.case import Case, Failure
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.families import squashed
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.paths import Paths

Line = Mapping[str, bool]
"""Whether something fails, by release."""
WANTED = 60
"""Percent of the cases that a tiny model can show."""
_NO_NUMBERS = {"initialised", "missing-initialised", "trainer-leaks", "keep-fp32", "tied"}
"""Probes that compare no numbers."""
FILE = Path(__file__).with_name("recall.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recalled:
    """A case about a model, and the probe that finds the same; `probe` is empty where none does."""

    case: str
    probe: str
    releases: int
    """On how many swept releases both were compared."""


def lines_of(rows: Iterable[Observation]) -> dict[tuple[str, Precision], dict[str, bool]]:
    """Return on which releases each case fails as a plain script, by its name and precision."""
    found: dict[tuple[str, Precision], dict[str, bool]] = defaultdict(dict)
    for row in rows:
        judged = row.outcome.is_failure or row.outcome is Outcome.PASSES
        if judged and not row.cell.workaround:
            release = taken_apart(row.cell.environment).base
            found[row.cell.case, row.cell.precision][release] = row.outcome.is_failure
    return found


def recalled(case: Case, lines: Mapping[Precision, Line], history: SweepHistory) -> Recalled:
    """Return the probe that fails where a case does, on every release that was swept.

    It may be one of a family that shares the code, where the case builds a part of it alone.
    Where the case fails with an exception of a library, the probe does so with the described
    words, in the same function. Wrong numbers are found, too, where a probe's numbers change on
    just those releases on which the case begins or ends to fail.
    """
    families = {squashed(family) for family in case.block.answers_for}
    kinds = [
        kind
        for kind in history.architectures
        if families & {squashed("".join(parts)) for parts in _beginnings(kind)}
    ]
    ran = functools.cache(lambda kind: frozenset(history.measured(kind)))
    best = Recalled(case=case.name, probe="", releases=0)
    for key in (key for kind in kinds for key in history.keys(kind)):
        line = lines.get(Precision(DTYPES[key.probe]), {})
        if any(key.probe in history.releases[name].lacking for name in line.keys() & ran(key.kind)):
            continue
        compared = _agree(line, history, key, case.block.fails)
        if case.block.is_silent:
            compared = compared or _change_together(line, history, key)
        if compared > best.releases:
            best = Recalled(case=case.name, probe=f"{key.kind}/{key.probe}", releases=compared)
    return best


def _beginnings(kind: str) -> Iterator[list[str]]:
    """Yield the first parts of a name: `blip`, `blip-2` and all of `blip-2-qformer`."""
    parts = re.split("[._-]", kind)
    return (parts[: count + 1] for count in range(len(parts)))


def _agree(line: Line, history: SweepHistory, key: ProbeKey, described: Collection[Failure]) -> int:
    """Return on how many releases a probe does what a case does; 0 where it differs on one."""
    both = [(line[name], record) for name, record in history.line(key) if name in line]
    if not any(fails for fails, _ in both):
        return 0
    if any(not (record.status.is_bad if fails else _holds(record)) for fails, record in both):
        return 0
    if not all(_is_described(record, described) for fails, record in both if fails):
        return 0
    return len(both)


def _change_together(line: Line, history: SweepHistory, key: ProbeKey) -> int:
    """Return on how many releases numbers change where a case changes; 0 where they do not."""
    both = [(line[name], record) for name, record in history.line(key) if name in line]
    steps = [*pairwise(both)]
    flips = [before[0] != after[0] for before, after in steps]
    changes = [change_of(before[1], after[1]) for before, after in steps]
    alike = [change is not None and change.kind is Kind.NUMBERS for change in changes] == flips
    return len(both) if alike and any(flips) else 0


def _is_described(record: ProbeRecord, described: Collection[Failure]) -> bool:
    """Say whether a probe fails as a case says; of what a case asserts, that numbers differ."""
    numbers = record.status is ProbeStatus.DIFFERS and record.key.probe not in _NO_NUMBERS
    return any(
        (numbers and (not entry.raises or "AssertionError" in entry.raises))
        or (entry.has_words(record.error, record.message) and entry.is_at(record.place))
        for entry in described
    )


def _holds(record: ProbeRecord) -> bool:
    return record.status is ProbeStatus.HOLDS


def counts(case: Case) -> bool:
    """Say whether a case is about a model, and known from elsewhere than the sweep."""
    return not case.block.is_about_any_model and case.block.found_by != "sweep"


def compared(paths: Paths) -> Iterator[tuple[str, str, int]]:
    """Yield each case about a model that a tiny model can show, the probe, and the releases."""
    excluded = tomllib.loads(FILE.read_text(encoding="utf-8"))["excluded"]
    history, lines = read_history(paths.published), lines_of(published_rows(paths))
    by_stem: dict[str, list[Recalled]] = defaultdict(list)
    for case in project.load(paths).cases.values():
        if not counts(case) or case.stem in excluded:
            continue
        own = {precision: lines.get((case.name, precision), {}) for precision in Precision}
        by_stem[case.stem].append(recalled(case, own, history))
    for stem, some in by_stem.items():
        found = all(one.probe for one in some)
        yield stem, ", ".join(one.probe for one in some) if found else "", some[0].releases


def check(table: Table, _options: argparse.Namespace) -> None:
    """Print which cases the sweep finds, and how many."""
    told = tomllib.loads(FILE.read_text(encoding="utf-8"))
    every = [*compared(Paths())]
    for case, probe, releases in every:
        why = told.get("missed", {}).get(case, "")
        print(f"  {case:<40}{probe or 'missed'} ({releases} releases)  {'' if probe else why}")
    found = sum(bool(probe) for _, probe, _ in every)
    few = max(0, -(-WANTED * len(every) // 100) - found)
    note = f"{found} found, {100 * found / len(every):.1f} %; wanted: at least {WANTED} %"
    note += f"; not counted: {len(told['excluded'])} that no tiny model can show"
    table.count("cases about a model", len(every), "too few found at the same releases", few, note)
