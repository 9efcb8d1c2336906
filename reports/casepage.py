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
from reports.marks import seen_as
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
    requirement_words,
    visible,
)
from reports.wording import Wording, wording
from reports.workarounds import Advice, advise
from runner.judging.axes import axes
from runner.judging.claims import Standing, check_claims
from runner.judging.ranges import ranges_along
from runner.model.case import EVERY, PLAIN
from runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from packaging.requirements import Requirement

    from reports.survey import Survey
    from runner.judging.axes import Axis
    from runner.judging.claims import CheckedClaim
    from runner.model.case import Case, Claim, Failure
    from runner.model.cell import Cell


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
class Stated:
    """A claim of a report beside what was measured; `example` is a cell that decides it."""

    report: Link
    says: str
    where: str
    standing: Standing
    tally: str
    example: tuple[Link, ...]


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
        timelines=tuple(timeline(survey, case, device) for device in survey.devices),
        ranges=_derived(survey, case),
        claims=_claims(survey, case),
        expectations=tuple(_expectation(entry) for entry in case.block.fails),
        workarounds=advise(survey, case),
        failures=failures(survey, case.name),
        wording=wording(survey, case.name),
        plots=plots(survey, case),
        numbers=measured(survey, case.name),
        dtypes=dtypes(survey, case.name),
        repeat=repeat(survey, case),
        pinned=pinned(survey, case),
        sources=sources(survey, case),
        commands=commands(survey, case),
        blocks=blocks(survey, case),
    )


def _facts(survey: Survey, case: Case) -> tuple[Fact, ...]:
    block = case.block
    told = {
        "area": survey.areas.get(block.area, block.area),
        "models": ", ".join(block.models),
        "kind": block.kind.value,
        "found by": block.found_by or "",
        "needs": ", ".join(block.needs),
        "depends on": _joined(case.head.dependencies),
        "Python": case.head.requires_python,
        "isolation": block.isolation.value,
        "exercises": block.exercises.value,
        "also in": ", ".join(block.environments),
        "time limit": f"{block.timeout:g} s" if block.timeout else "",
    }
    return tuple(Fact(term=term, text=visible(text)) for term, text in told.items() if text)


def _joined(requirements: Iterable[Requirement]) -> str:
    return ", ".join(requirement_words(requirement) for requirement in requirements)


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
            "environment" if case.block.environments else "release",
        ),
    )


def _tally(failing: Collection[bool], applicable: int, what: str) -> str:
    if not failing:
        return "nothing measured"
    unknown = applicable - len(failing)
    gap = f", {unknown} unknown" if unknown else ""
    return f"fails on {sum(failing)} of {counted(len(failing), what)}{gap}"


def _claims(survey: Survey, case: Case) -> tuple[Stated, ...]:
    seen = [row.seen for row in survey.of_case(case.name)]
    checked = check_claims(case, seen, survey.by_name)
    return tuple(_stated(survey, claim) for claim in checked)


def _stated(survey: Survey, checked: CheckedClaim) -> Stated:
    claim = checked.claim
    example = (checked.contradicting or checked.agreeing)[:1]
    return Stated(
        report=link_to(claim.report),
        says=visible(claim.says),
        where=_where(claim),
        standing=checked.standing,
        tally=_agreement(checked),
        example=tuple(_example(survey, cell) for cell in example),
    )


def _where(claim: Claim) -> str:
    told = (
        _joined(claim.when),
        listed([precision.value for precision in claim.precisions]),
        f"with {claim.workaround}" if claim.workaround != PLAIN else "",
    )
    where = "; ".join(text for text in told if text) or "everywhere"
    return visible(f"{where}: {claim.outcome}" if claim.outcome else where)


def _agreement(checked: CheckedClaim) -> str:
    total = len(checked.agreeing) + len(checked.contradicting)
    match checked.standing:
        case Standing.UNCHECKED if checked.claim.outcome is None:
            return "names no outcome to check"
        case Standing.UNCHECKED:
            return "no measured cell is covered"
        case Standing.CONFIRMED:
            return f"agrees with {counted(total, 'cell')}"
        case Standing.CONTRADICTED:
            return f"contradicted by {len(checked.contradicting):,} of {counted(total, 'cell')}"


def _example(survey: Survey, cell: Cell) -> Link:
    where = f"{cell.precision} on {cell.environment}{survey.on(cell.device)}"
    said = seen_as(survey.rows[cell], cell.precision).text
    return Link(text=f"{where}: {said}", href=f"#{in_address(cell.environment)}")


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
        _joined(entry.when) or "every release",
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
