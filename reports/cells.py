"""Every cell of a case, release by release, and the commands that repeat it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.grid import sentence
from reports.marks import Mark, happening, mark_of, meaning
from reports.phrases import number, shortened, visible
from runner.model.case import PLAIN
from runner.model.cell import Cell, Source
from runner.model.naming import taken_apart
from runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from reports.survey import Survey
    from runner.judging.verdicts import Judged
    from runner.model.case import Case
    from runner.model.cell import Environment

_ONE_REASON_FOR_ALL = frozenset({Mark.NOT_APPLICABLE, Mark.UNBUILDABLE, Mark.NOT_RUN})
_COMPANIONS = ("accelerate", "peft")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One cell in words."""

    style: str
    glyph: str
    words: str
    facts: str
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """The cells of one workaround (or none) on one device, one per precision."""

    name: str
    device: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One release of one case; `note` instead of variants where one reason holds for all."""

    release: str
    versions: str
    command: str
    note: str
    variants: tuple[Variant, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeat:
    """How to repeat one cell: with the runner, and with uv alone (empty for main and stacks)."""

    cell: str
    nox: str
    uv: str


def blocks(survey: Survey, case: Case) -> tuple[Block, ...]:
    """Return every release of a case, newest first."""
    known = {(cell.case, cell.environment) for cell in survey.cells}
    return tuple(
        _block(survey, case, environment)
        for environment in reversed(survey.environments)
        if (case.name, environment.name) in known
    )


def _block(survey: Survey, case: Case, environment: Environment) -> Block:
    keys = [
        Cell(case.name, workaround, environment.name, precision, device)
        for device in survey.devices
        for workaround in case.variants
        for precision in Precision
    ]
    note = _note(survey, keys)
    return Block(
        release=environment.name,
        versions=_versions(survey, keys, environment),
        command=shlex.join(_nox(case.name, environment.name)) + " --rerun",
        note=note,
        variants=() if note else _variants(survey, keys),
    )


def _note(survey: Survey, keys: list[Cell]) -> str:
    found = [survey.rows.get(key) for key in keys]
    marks = {mark_of(row) if row is not None else Mark.NOT_RUN for row in found}
    meanings = {meaning(row, Precision.FP32) for row in found}
    one = len(meanings) == 1 and marks <= _ONE_REASON_FOR_ALL
    return meanings.pop() if one else ""


def _versions(survey: Survey, keys: list[Cell], environment: Environment) -> str:
    rows = [survey.rows[key] for key in keys if key in survey.rows]
    ran = next((row.seen for row in rows if row.seen.outcome.was_run), None)
    packages = ran.provenance.packages if ran is not None else environment.pins
    named = [f"{name} {packages[name]}" for name in _COMPANIONS if name in packages]
    if environment.source is not Source.RELEASE and "transformers" in packages:
        named.insert(0, f"transformers {packages['transformers']}")
    if ran is not None:
        named += [f"torch {ran.provenance.torch_build}", f"from {ran.source}"]
    return visible(", ".join(named))


def _variants(survey: Survey, keys: list[Cell]) -> tuple[Variant, ...]:
    width = len(Precision)
    rows = [keys[start : start + width] for start in range(0, len(keys), width)]
    return tuple(
        Variant(
            name=visible(row[0].workaround),
            device=row[0].device.value,
            entries=tuple(_entry(survey, cell) for cell in row),
        )
        for row in rows
    )


def _entry(survey: Survey, cell: Cell) -> Entry:
    row = survey.rows.get(cell)
    mark = mark_of(row) if row is not None else Mark.NOT_RUN
    stale = " stale" if row is not None and row.stale else ""
    return Entry(
        style=f"{mark}{stale}",
        glyph=mark.glyph,
        words=_words(row),
        facts=_facts(row),
        sentence=sentence(survey, cell),
    )


def _words(row: Judged | None) -> str:
    if row is None:
        return "not run"
    failed = row.seen.failed
    said = failed.error_class if failed is not None else happening(row.seen.outcome)
    unexercised = ", not exercised" if row.seen.exercised.value == "no" else ""
    return shortened(said, 40) + unexercised + (", stale" if row.stale else "")


def _facts(row: Judged | None) -> str:
    if row is None:
        return ""
    named = [f"{name} {number(value)}" for name, value in sorted(row.seen.measured.items())]
    return shortened(", ".join(named), 120)


def repeat(survey: Survey, case: Case) -> tuple[Repeat, ...]:
    """Return the commands for the cell that shows the bug best, plain and with a workaround."""
    shown = _telling(survey, case)
    advised = [name for name, kind in case.block.workarounds.items() if not kind.skips]
    cells = [shown, *(shown._replace(workaround=name) for name in advised[:1])]
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
    return Repeat(
        cell=visible(f"{cell.precision} on {cell.environment}{survey.on(cell.device)}{with_}"),
        nox=shlex.join([*_nox(cell.case, cell.environment), *_narrowed(cell)]) + " --rerun",
        uv=_uv(survey, cell),
    )


def _nox(case: str, release: str) -> list[str]:
    return ["nox", "-s", "matrix", "--", "--case", case, "--release", release]


def _narrowed(cell: Cell) -> list[str]:
    device = ["--device", "cuda"] if cell.device is Device.CUDA else []
    workaround = ["--workaround", cell.workaround] if cell.workaround else []
    return ["--precision", cell.precision.value, *workaround, *device]


def _uv(survey: Survey, cell: Cell) -> str:
    if survey.by_name[cell.environment].source not in {Source.RELEASE, Source.PAIR}:
        return ""
    parts = taken_apart(cell.environment)
    words = ["uv", "run", "--with", f"transformers=={parts.base}"]
    for package, version in parts.changed:
        words += ["--with", f"{package}=={version}"]
    words += [f"cases/{cell.case}.py"]
    words += [cell.precision.value, *([cell.workaround] if cell.workaround else [])]
    prefix = "REPRO_DEVICE=cuda " if cell.device is Device.CUDA else ""
    return prefix + shlex.join(words)
