"""Every cell of a case, releases that agree together, and the commands that repeat or explain it.

Numbers stand elsewhere on the page: with them hardly two releases would agree.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from markupsafe import Markup, escape

from repromatrix.reports.marks import Mark, SeenMark, mark_of
from repromatrix.reports.text import for_variant, visible
from repromatrix.reports.view import Stack, Survey
from repromatrix.runner.judging.ranges import Range
from repromatrix.runner.model.case import PLAIN, Case, stem_of
from repromatrix.runner.model.cell import Cell, Environment, Source
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.model.packages import COMPANIONS

_ONE_REASON_FOR_ALL = frozenset(
    {Mark.NOT_APPLICABLE, Mark.NEEDS_GPU, Mark.UNBUILDABLE, Mark.NOT_RUN, Mark.NOT_DUE}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """What the cells of one workaround (or none) on one device show, one per precision."""

    name: str
    device: str
    stack: Stack


@dataclass(frozen=True, kw_only=True, slots=True)
class CellBlock:
    """Neighbouring releases of one case on which every cell shows the same."""

    built: list[dict[str, Any]]
    """Releases with the same versions beside them, and the one reason for all of their cells."""
    command: str
    variants: tuple[Variant, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeat:
    """How to repeat one cell: with the runner, and with uv alone (empty for main and stacks)."""

    cell: str
    nox: str
    uv: str
    alone: str
    """The latter for the file of the case by itself."""


def blocks(survey: Survey, case: Case) -> tuple[CellBlock, ...]:
    """Return every release of a case, newest first; neighbours that agree are one block."""
    names = [name for name in reversed(survey.order) if name in survey.standings[case.name]]
    devices = survey.devices_of(case.name)
    shown = survey.stacks(case.name)
    keys = [(way, device) for device in devices for way in case.branches]
    stacks = {
        name: tuple((key, shown[key][name]) for key in keys if name in shown[key]) for name in names
    }
    notes = {found: _note(found) for found in dict.fromkeys(stacks.values())}
    grouped = groupby(names, key=lambda name: () if notes[stacks[name]] else stacks[name])
    return tuple(
        CellBlock(
            built=_built(survey, case, {name: notes[stacks[name]] for name in members}),
            command=shlex.join(_nox(case.name, members[0])) + " --rerun",
            variants=tuple(
                Variant(name=visible(name), device=device.value, stack=stack)
                for (name, device), stack in shown_alike
            ),
        )
        for shown_alike, group in grouped
        if (members := list(group))
    )


def _built(survey: Survey, case: Case, notes: Mapping[str, str]) -> list[dict[str, Any]]:
    """Fold neighbours that were built from the same versions."""
    versions = {}
    for name in notes:
        series = (rows.get(name) for rows in survey.series(case.name).values())
        ran = (row.seen for row in series if row is not None and row.seen.outcome.was_run)
        versions[name] = _versions(next(ran, None), survey.by_name[name])
    return [
        {"releases": [*members], "versions": held, "note": note}
        for (held, note), members in groupby(notes, key=lambda name: (versions[name], notes[name]))
    ]


def _note(found: Iterable[tuple[tuple[str, Device], Stack]]) -> str:
    """Return the reason why no cell of a release has a result, if all share it."""
    shown = {seen for _, stack in found for seen in stack}
    texts = {seen.text for seen in shown if seen.mark in _ONE_REASON_FOR_ALL}
    return texts.pop() if len(shown) == len(texts) == 1 else ""


def _versions(ran: Observation | None, environment: Environment) -> str:
    packages = ran.provenance.packages if ran is not None else environment.pins
    named = [f"{name} {packages[name]}" for name in COMPANIONS if name in packages]
    if environment.source is not Source.RELEASE and "transformers" in packages:
        named.insert(0, f"transformers {packages['transformers']}")
    if ran is not None:
        named += [f"torch {ran.provenance.torch_build}", f"from {ran.source}"]
    return visible(", ".join(named))


def in_words(stack: Stack) -> Markup:
    """Write cells in a few words each, and as a sentence where that says more."""
    return Markup("".join(map(_in_words, stack)))  # noqa: S704 - escaped below


@lru_cache(maxsize=4096)
def _in_words(seen: SeenMark) -> str:
    says_more = seen.text not in {seen.words, f"{seen.words} as expected"}
    title = f' title="{escape(seen.text)}"' if says_more else ""
    mark = f'<i class="mark {escape(seen.style)}" aria-hidden="true">{seen.mark.glyph}</i>'
    both = "".join(f"<div><small>{escape(text)}</small></div>" for text in seen.both)
    return f"<td{title}>{mark} {escape(seen.words)}{both}</td>\n"


def repeat(survey: Survey, case: Case) -> tuple[Repeat, ...]:
    """Return the commands for the cell that shows the bug best, plain and with a workaround."""
    shown = _telling(survey, case)
    ways = [name for name, kind in case.block.workarounds.items() if not kind.skips]
    beside = [shown._replace(workaround=name) for name in ways]
    rows = ((cell, survey.rows.get(cell)) for cell in beside)
    helping = [cell for cell, row in rows if row and row.seen.outcome is Outcome.PASSES]
    cells = [shown, *(helping or beside)[:1]]
    return tuple(_repeat(survey, cell) for cell in cells) if shown.environment else ()


def _telling(survey: Survey, case: Case) -> Cell:
    """Return the newest plain cell that fails as described, else the newest one that was run."""
    rows = [row for row in survey.of_case(case.name) if row.seen.cell.workaround == PLAIN]
    ran = [row for row in rows if row.seen.outcome.was_run]
    for chosen in ([row for row in ran if mark_of(row) is Mark.FAILS], ran):
        if chosen:
            return chosen[-1].seen.cell
    newest = survey.releases[-1] if survey.releases else ""
    return Cell(case.name, PLAIN, newest, Precision.BF16, survey.devices[0])


def _repeat(survey: Survey, cell: Cell) -> Repeat:
    with_ = f" with {cell.workaround}" if cell.workaround else ""
    nox = [*_nox(cell.case, cell.environment), "--precision", cell.precision.value]
    nox += ["--workaround", cell.workaround] if cell.workaround else []
    nox += ["--device", "cuda"] if cell.device is Device.CUDA else []
    return Repeat(
        cell=visible(f"{cell.precision} on {cell.environment}{survey.on(cell.device)}{with_}"),
        nox=f"{shlex.join(nox)} --rerun",
        uv=_uv(survey, cell, f"cases/{stem_of(cell.case)}.py"),
        alone=_uv(survey, cell, f"{stem_of(cell.case)}.py"),
    )


def _nox(case: str, release: str) -> list[str]:
    return ["nox", "-s", "matrix", "--", "--case", case, "--release", release]


def _uv(survey: Survey, cell: Cell, path: str) -> str:
    source = survey.by_name[cell.environment].source
    if not source.has_lock or source is Source.STACK:  # a stack holds more than its name says
        return ""
    parts = taken_apart(cell.environment)
    words = ["uv", "run", "--with", f"transformers=={parts.base}"]
    for package, version in parts.changed:
        words += ["--with", f"{package}=={version}"]
    words += [path, cell.precision.value, *([cell.workaround] if cell.workaround else [])]
    prefix = "REPRO_DEVICE=cuda " if cell.device is Device.CUDA else ""
    return prefix + for_variant(cell.case) + shlex.join(words)


def commands(survey: Survey, case: Case) -> tuple[tuple[str, str], ...]:
    """Return questions about a case that fails somewhere, each with the command that answers it."""
    found = [
        (key[-1], failing)
        for key in survey.series(case.name)
        if key[0] == PLAIN
        for failing in survey.ranges(case.name, key)[0]
    ]
    when = {name: place for place, name in enumerate(survey.releases)}
    newest = max(found, key=lambda item: when.get(item[1].releases[-1], -1), default=None)
    return tuple(_commands(case.name, *newest)) if newest else ()


def _commands(name: str, precision: Precision, failing: Range) -> Iterator[tuple[str, str]]:
    search = ["nox", "-s", "bisect", "--", name, "--precision", precision.value]
    yield "Which release broke it?", shlex.join(search)
    if failing.until:
        yield "Which release fixed it?", shlex.join([*search, "--fix"])
    if good := failing.until or failing.after:
        bad = failing.releases[-1 if failing.until else 0]
        ends = ["--precision", precision.value, "--good", good, "--bad", bad]
        text = shlex.join(["nox", "-s", "blame", "--", name, *ends])
        yield "Which package makes the difference?", text
    audit = ["nox", "-s", "audit", "--", "requirements.txt", "--precision", precision.value]
    yield "Does my project have it?", shlex.join([*audit, "--case", name])
