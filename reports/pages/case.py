"""Everything that the page of one case shows, computed before the template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from repromatrix.reports.exports.pins import Pinned, pinned, sources
from repromatrix.reports.figures.main_line import MainSpan, main_timeline
from repromatrix.reports.figures.releases import Plot, Timeline, plots, timeline
from repromatrix.reports.marks import both_results, is_here
from repromatrix.reports.pages.claims import Stated, stated
from repromatrix.reports.sections import cells
from repromatrix.reports.sections.failures import Signed, Wording, failures, wording
from repromatrix.reports.sections.grid import GridTable, grid
from repromatrix.reports.sections.history import CaseSummary, summary
from repromatrix.reports.sections.impact import ImpactLine, impact
from repromatrix.reports.sections.main_line import main_spans
from repromatrix.reports.sections.numbers import Dtypes, Measured, dtypes, measured
from repromatrix.reports.sections.status import Standing, standings
from repromatrix.reports.sections.workarounds import WorkaroundAdvice, advise
from repromatrix.reports.text import (
    Link,
    link_to,
    link_to_family,
    page_of,
    paragraphs,
    requirements_words,
    visible,
)
from repromatrix.reports.view import SeriesKey, Survey
from repromatrix.runner.model.case import EVERY, Case, Failure
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.text import first_sentence, join, plural


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """One `fails` entry in words."""

    where: str
    how: str
    matches: tuple[str, ...]
    places: tuple[str, ...]
    """The functions in which it happens."""
    fixed_by: tuple[Link, ...]
    note: str


class LocalCells(NamedTuple):
    """What this machine measured of a case."""

    cells: int
    denied: tuple[str, ...]
    """The cells whose published result it denies, with both results."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CasePage:
    """The page of one case."""

    name: str
    file: str
    """The name of the script."""
    title: str
    summary: CaseSummary
    impact: tuple[ImpactLine, ...]
    sentence: str
    rest: tuple[str, ...]
    simulates: str
    unmeasured: str
    is_of_cpu_kernel: bool
    reports: tuple[Link, ...]
    facts: Mapping[str, str]
    families: tuple[Link, ...]
    shared: tuple[Link, ...]
    """The families that share the code and were not run."""
    badge: Link
    local: LocalCells
    grids: tuple[GridTable, ...]
    timelines: tuple[Timeline, ...]
    main: tuple[MainSpan, ...]
    main_timeline: Timeline | None
    ranges: list[dict[str, Any]]
    """Where each variant fails on a device, a column per precision: ranges, and a tally."""
    claims: tuple[Stated, ...]
    expectations: tuple[Expectation, ...]
    workarounds: tuple[WorkaroundAdvice, ...]
    failures: tuple[Signed, ...]
    wording: Wording
    plots: tuple[Plot, ...]
    numbers: tuple[Measured, ...]
    dtypes: Dtypes
    repeat: tuple[cells.Repeat, ...]
    source: str
    """The case as a file that runs by itself."""
    pinned: Pinned | None
    sources: dict[str, Any] | None
    commands: tuple[tuple[str, str], ...]
    """A question, and the command that answers it."""
    blocks: tuple[cells.CellBlock, ...]


def case_page(survey: Survey, case: Case, standing: Standing | None = None) -> CasePage:
    """Return the context of the page of one case; `standing` where it is known already."""
    sentence, rest = first_sentence(case.docstring)
    made_of = sources(survey, case)
    return CasePage(
        name=visible(case.name),
        file=f"{visible(case.stem)}.py",
        title=visible(case.block.title),
        summary=summary(survey, case, standing or standings(survey)[case.name]),
        impact=impact(survey, case),
        sentence=visible(sentence),
        rest=tuple(visible(text) for text in paragraphs(rest)),
        simulates=visible(case.block.simulates or ""),
        unmeasured=survey.unmeasured(case.name),
        is_of_cpu_kernel=survey.is_of_cpu_kernel(case.name),
        reports=tuple(link_to(report) for report in case.block.reports),
        facts=_facts(case),
        families=tuple(map(link_to_family, dict.fromkeys(case.block.families))),
        shared=tuple(map(link_to_family, case.block.same_code)),
        badge=_badge(case),
        local=_local(survey, case),
        grids=tuple(grid(survey, case, device) for device in survey.devices_of(case.name)),
        timelines=_timelines(survey, case),
        main=(on_main := main_spans(survey, case)),
        main_timeline=main_timeline(survey, case, on_main),
        ranges=_derived(survey, case),
        claims=stated(survey, case),
        expectations=tuple(_expectation(entry) for entry in case.block.fails),
        workarounds=advise(survey, case),
        failures=failures(survey, case.name),
        wording=wording(survey, case.name),
        plots=plots(survey, case),
        numbers=measured(survey, case.name),
        dtypes=dtypes(survey, case.name),
        repeat=cells.repeat(survey, case),
        source=visible(_standalone(case)),
        pinned=pinned(survey, case, made_of),
        sources=made_of,
        commands=cells.commands(survey, case),
        blocks=cells.blocks(survey, case),
    )


def _badge(case: Case) -> Link:
    href = f"badge/{page_of(case.name).removesuffix('.html')}"
    return Link(text=f"Badge of {visible(case.name)}", href=href)


def _local(survey: Survey, case: Case) -> LocalCells:
    denied = []
    for row in survey.of_case(case.name):
        if both := both_results(row):
            cell = row.seen.cell
            with_ = f" with {cell.workaround}" if cell.workaround else ""
            where = f"{cell.precision} on {cell.environment}{survey.on(cell.device)}{with_}"
            denied.append(visible(f"{where}. {'; '.join(both)}"))
    here = sum(map(is_here, survey.of_case(case.name)))
    return LocalCells(cells=here, denied=tuple(denied))


def _timelines(survey: Survey, case: Case) -> tuple[Timeline, ...]:
    # Releases follow each other; stacks and pairs do not.
    devices = () if survey.only_in(case) else survey.devices_of(case.name)
    there = {
        device: sum(survey.is_asked(case.name, one, device) for one in survey.standings[case.name])
        for device in devices
    }
    return tuple(
        timeline(survey, case, device)
        for device in devices
        # One release that a GPU had time for is no line.
        if device is survey.devices[0] or there[device] > 1
    )


def _standalone(case: Case) -> str:
    """Return the code of a case with what must be installed, without what is expected of it."""
    wanted = json.dumps([str(dependency) for dependency in case.head.dependencies])
    python = json.dumps(str(case.head.requires_python))
    head = f"# /// script\n# requires-python = {python}\n# dependencies = {wanted}\n# ///\n"
    return head + case.script.code.lstrip("\n")


def _facts(case: Case) -> dict[str, str]:
    block = case.block
    facts = {
        "area": block.area,
        "models": ", ".join(block.models),
        "shown with": ", ".join(block.shown_with),
        "which models": block.concerns or "",
        "can hit you with": join([*block.triggers], "or"),
        "you see": join([*block.symptoms], "or"),
        "kind": block.kind.value,
        "found by": block.found_by or "",
        "needs": ", ".join(block.needs),
        "depends on": requirements_words(case.head.dependencies),
        "on every release": f"with {join(case.extras)}" if case.extras else "",
        "Python": case.head.requires_python,
        "isolation": block.isolation.value,
        "exercises": block.exercises.value,
        "also in": ", ".join(block.environments),
        "time limit": f"{block.timeout:g} s" if block.timeout else "",
    }
    return {term: visible(text) for term, text in facts.items() if text}


def _derived(survey: Survey, case: Case) -> list[dict[str, Any]]:
    return [
        {
            "variant": visible(workaround),
            "device": device,
            "fails": [_fails(survey, case, (workaround, device, each)) for each in Precision],
        }
        for device in survey.devices_of(case.name)
        for workaround in case.branches
    ]


def _fails(survey: Survey, case: Case, key: SeriesKey) -> dict[str, Any]:
    rows = survey.series(case.name).get(key, {}).values()
    failing = survey.failing(case.name).get(key, {}).values()
    applicable = sum(row.seen.outcome is not Outcome.NOT_APPLICABLE for row in rows)
    column = "stack" if survey.only_in(case) else "release"
    known = plural(len(failing), "environment" if case.block.environments else column)
    unknown = applicable - len(failing)
    gap = f", {unknown} unknown" if unknown else ""
    return {
        "ranges": [item.text for along in survey.ranges(case.name, key) for item in along],
        "tally": f"fails on {sum(failing)} of {known}{gap}" if failing else "nothing measured",
    }


def _expectation(entry: Failure) -> Expectation:
    names = [name or "plain" for name in entry.workarounds]
    variants = "" if names == ["plain"] else join(names)
    where = (
        requirements_words(entry.when) or "every release",
        join([*entry.precisions]) if len(entry.precisions) < len(Precision) else "",
        join([*entry.devices]) if len(entry.devices) < len(Device) else "",
        "plain and with every workaround" if EVERY in entry.workarounds else variants,
    )
    return Expectation(
        where=visible("; ".join(filter(None, where))),
        how=visible(join(entry.raises, "or") or entry.outcome.value),
        matches=tuple(map(visible, entry.match)),
        places=tuple(map(visible, entry.where)),
        fixed_by=(link_to(entry.fixed_by),) if entry.fixed_by else (),
        note=visible(entry.note or ""),
    )
