"""Everything that the page of one case shows, computed before the template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.cells import Block, Repeat, blocks, repeat
from reports.commands import Command, commands
from reports.failures import Signed, failures
from reports.figures.plot import Plot, plots
from reports.figures.timeline import Timeline, timeline
from reports.files.pinned import Pinned, Sources, pinned, sources
from reports.grid import Grid, grid
from reports.naming import link_to_family
from reports.numbers import Dtypes, Measured, dtypes, measured
from reports.phrases import (
    Link,
    counted,
    first_sentence,
    in_address,
    link_to,
    listed,
    paragraphs,
    requirements_words,
    visible,
)
from reports.stated import Stated, stated
from reports.wording import Wording, wording
from reports.workarounds import Advice, advise
from runner.judging.axes import axes
from runner.judging.ranges import ranges_along
from runner.model.case import EVERY
from runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from reports.survey import Survey
    from runner.judging.axes import Axis
    from runner.model.case import Case, Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A term about a case and what holds for it."""

    term: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """One `fails` entry in words."""

    where: str
    how: str
    matches: tuple[str, ...]
    fixed_by: tuple[Link, ...]
    note: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fails:
    """Where one variant fails in one precision, in words."""

    precision: Precision
    ranges: tuple[str, ...]
    tally: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Derived:
    """The ranges of one variant on one device, a column per precision."""

    variant: str
    device: str
    fails: tuple[Fails, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CasePage:
    """The page of one case."""

    name: str
    title: str
    sentence: str
    rest: tuple[str, ...]
    simulates: str
    reports: tuple[Link, ...]
    facts: tuple[Fact, ...]
    families: tuple[Link, ...]
    badge: Link
    sheet: str
    grids: tuple[Grid, ...]
    timelines: tuple[Timeline, ...]
    ranges: tuple[Derived, ...]
    claims: tuple[Stated, ...]
    expectations: tuple[Expectation, ...]
    workarounds: tuple[Advice, ...]
    failures: tuple[Signed, ...]
    wording: Wording
    suspected: tuple[str, ...]
    plots: tuple[Plot, ...]
    numbers: tuple[Measured, ...]
    dtypes: Dtypes
    repeat: tuple[Repeat, ...]
    pinned: Pinned | None
    sources: Sources | None
    commands: tuple[Command, ...]
    blocks: tuple[Block, ...]


def case_page(survey: Survey, case: Case) -> CasePage:
    """Return the context of the page of one case."""
    sentence, rest = first_sentence(case.docstring)
    made_of = sources(survey, case)
    return CasePage(
        name=visible(case.name),
        title=visible(case.block.title),
        sentence=visible(sentence),
        rest=tuple(visible(text) for text in paragraphs(rest)),
        simulates=visible(case.block.simulates or ""),
        reports=tuple(link_to(report) for report in case.block.reports),
        facts=_facts(survey, case),
        families=tuple(map(link_to_family, dict.fromkeys(case.block.models))),
        badge=Link(
            text=f"Badge of {visible(case.name)}", href=f"badge/case/{in_address(case.name)}"
        ),
        sheet=f"case/{in_address(case.name)}",
        grids=tuple(grid(survey, device, [case.name], page="") for device in survey.devices),
        timelines=_timelines(survey, case),
        ranges=_derived(survey, case),
        claims=stated(survey, case),
        expectations=tuple(_expectation(entry) for entry in case.block.fails),
        workarounds=advise(survey, case),
        failures=failures(survey, case.name),
        wording=wording(survey, case.name),
        suspected=_suspected(survey, case),
        plots=plots(survey, case),
        numbers=measured(survey, case.name),
        dtypes=dtypes(survey, case.name),
        repeat=repeat(survey, case),
        pinned=pinned(survey, case, made_of),
        sources=made_of,
        commands=commands(survey, case),
        blocks=blocks(survey, case),
    )


def _timelines(survey: Survey, case: Case) -> tuple[Timeline, ...]:
    """Return the releases as they followed each other; stacks and pairs do not."""
    if survey.only_in(case):
        return ()
    return tuple(timeline(survey, case, device) for device in survey.devices)


def _suspected(survey: Survey, case: Case) -> tuple[str, ...]:
    return tuple(
        visible(
            f"{cell.precision} on {cell.environment}{survey.on(cell.device)}"
            f"{f' with {cell.workaround}' if cell.workaround else ''}: {row.suspected.text}"
        )
        for row in survey.of_case(case.name)
        if row.suspected is not None
        for cell in [row.seen.cell]
    )


def _facts(survey: Survey, case: Case) -> tuple[Fact, ...]:
    block = case.block
    told = {
        "area": survey.areas.get(block.area, block.area),
        "models": ", ".join(block.models),
        "kind": block.kind.value,
        "found by": block.found_by or "",
        "needs": ", ".join(block.needs),
        "depends on": requirements_words(case.head.dependencies),
        "on every release": f"with {listed(case.extras)}" if case.extras else "",
        "Python": case.head.requires_python,
        "isolation": block.isolation.value,
        "exercises": block.exercises.value,
        "also in": ", ".join(block.environments),
        "time limit": f"{block.timeout:g} s" if block.timeout else "",
    }
    return tuple(Fact(term=term, text=visible(text)) for term, text in told.items() if text)


def _derived(survey: Survey, case: Case) -> tuple[Derived, ...]:
    along = axes(case, survey.by_name)
    return tuple(
        Derived(
            variant=visible(workaround),
            device=device.value,
            fails=tuple(
                _fails(survey, case, (workaround, device, precision), along)
                for precision in Precision
            ),
        )
        for device in survey.devices
        for workaround in case.variants
    )


def _fails(
    survey: Survey, case: Case, key: tuple[str, Device, Precision], along: Iterable[Axis]
) -> Fails:
    rows = survey.series(case.name).get(key, {})
    seen = {name: row.seen for name, row in rows.items()}
    applicable = sum(row.outcome is not Outcome.NOT_APPLICABLE for row in seen.values())
    return Fails(
        precision=key[-1],
        ranges=tuple(item.text for axis in along for item in ranges_along(axis, seen)),
        tally=_tally(
            survey.failing(case.name).get(key, {}).values(),
            applicable,
            _counted_in(survey, case),
        ),
    )


def _counted_in(survey: Survey, case: Case) -> str:
    if case.block.environments:
        return "environment"
    return "stack" if survey.only_in(case) else "release"


def _tally(failing: Collection[bool], applicable: int, what: str) -> str:
    if not failing:
        return "nothing measured"
    unknown = applicable - len(failing)
    gap = f", {unknown} unknown" if unknown else ""
    return f"fails on {sum(failing)} of {counted(len(failing), what)}{gap}"


def _expectation(entry: Failure) -> Expectation:
    return Expectation(
        where=visible(_covered(entry)),
        how=visible(entry.raises or entry.outcome.value),
        matches=tuple(visible(text) for text in entry.match),
        fixed_by=(link_to(entry.fixed_by),) if entry.fixed_by else (),
        note=visible(entry.note or ""),
    )


def _covered(entry: Failure) -> str:
    narrowed = len(entry.precisions) < len(Precision)
    told = (
        requirements_words(entry.when) or "every release",
        listed([item.value for item in entry.precisions]) if narrowed else "",
        listed([item.value for item in entry.devices]) if len(entry.devices) < len(Device) else "",
        _variants(entry),
    )
    return "; ".join(text for text in told if text)


def _variants(entry: Failure) -> str:
    if EVERY in entry.workarounds:
        return "plain and with every workaround"
    names = [name or "plain" for name in entry.workarounds]
    return "" if names == ["plain"] else listed(names)
