"""The page of what publications changed, newest first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from repromatrix.reports.exports.rows import ExportTable
from repromatrix.reports.text import in_address, page_of, shortened, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.compare.snapshots import Changed, SnapshotRecord
from repromatrix.runner.text import plural

if TYPE_CHECKING:
    from repromatrix.reports.site import Published

_ERROR = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Cells of one variant that changed alike; `href` is empty where the case is gone."""

    change: CellChange
    case: str
    href: str
    workaround: str
    precision: str
    device: str
    releases: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """One publication and all that it changed."""

    name: str
    anchor: str
    date: str
    against: str
    steps: tuple[Step, ...]
    kinds: list[dict[str, Any]]
    """The changes of each kind, what is worst first, and how many cases they are about."""
    new: dict[str, Any]
    """Cells that only this publication has: all of them in words, and by case."""
    gone: dict[str, Any]
    """Those that only the one before it has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangesPage:
    """What snapshots changed; `begins` says since when that is known."""

    acts: tuple[Act, ...]
    begins: str


def changes(survey: Survey, published: Published) -> ChangesPage:
    """Return what each publication changed, newest first."""
    return ChangesPage(
        acts=tuple(_act(survey, record) for record in published.records),
        begins=_begins(published),
    )


def _begins(published: Published) -> str:
    if published.records:
        first = visible(published.records[-1].against)
        return f"The record begins behind publication {first}: what changed earlier was not kept."
    if published.newest is None:
        return "Nothing has been published yet."
    return (
        f"No publication has replaced {visible(published.newest.name)} yet: "
        "the next one is compared with it, and what changed before it was not kept."
    )


def _act(survey: Survey, record: SnapshotRecord) -> Act:
    steps = tuple(_step(survey, one) for one in record.changes)
    return Act(
        name=visible(record.publication),
        anchor=in_address(record.publication),
        date=visible(record.date),
        against=visible(record.against),
        steps=steps,
        kinds=[
            {
                "change": change,
                "says": f"{plural(len(found), 'change')}"
                f" in {plural(len({step.case for step in found}), 'case')}",
                "steps": found,
            }
            for change in CellChange
            if (found := [step for step in steps if step.change is change])
        ],
        new=_counts(record.new),
        gone=_counts(record.gone),
    )


def _step(survey: Survey, one: Changed) -> Step:
    known = [name for name in one.environments if name in survey.by_name]
    others = [visible(name) for name in one.environments if name not in survey.by_name]
    within = [survey.spans(known)] if known else []
    return Step(
        change=one.change,
        case=visible(one.case),
        href=page_of(one.case) if one.case in survey.cases else "",
        workaround=visible(one.workaround),
        precision=visible(one.precision),
        device=visible(one.device),
        releases=", ".join([*within, *others]),
        before=shortened(one.before, _ERROR),
        after=shortened(one.after, _ERROR),
    )


def _counts(found: Collection[tuple[str, int]]) -> dict[str, Any]:
    cells = plural(sum(number for _, number in found), "cell")
    return {
        "says": f"{cells} of {plural(len(found), 'case')}" if found else "",
        "cases": [f"{visible(case)}: {plural(number, 'cell')}" for case, number in sorted(found)],
    }


def changes_sheet(acts: Sequence[Act]) -> ExportTable:
    """Return every change as a table."""
    own = ("change", "case", "workaround", "precision", "device", "releases", "before", "after")
    values = attrgetter(*own)
    rows = ((act.name, act.date, *values(step)) for act in acts for step in act.steps)
    return ExportTable(path="changes", columns=("publication", "date", *own), rows=tuple(rows))
