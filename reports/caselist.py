"""The cases as a plain list: what the first page says where no script runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.phrases import listed, page_of, visible
from runner.judging.axes import axes
from runner.judging.ranges import ranges_along
from runner.model.case import PLAIN
from runner.model.outcomes import Precision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.survey import Survey
    from runner.model.case import Case


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One case in words; `fails` is where the plain case does, precisions alike together."""

    name: str
    title: str
    area: str
    href: str
    fails: tuple[str, ...]


def case_list(survey: Survey) -> tuple[Item, ...]:
    """Return the cases in the order of their names."""
    return tuple(
        Item(
            name=visible(name),
            title=visible(case.block.title),
            area=visible(survey.areas.get(case.block.area, case.block.area)),
            href=page_of(name),
            fails=tuple(_fails(survey, case)),
        )
        for name, case in sorted(survey.cases.items())
    )


def _fails(survey: Survey, case: Case) -> Iterator[str]:
    along = axes(case, survey.by_name)
    for device in survey.devices:
        alike: dict[str, list[str]] = {}
        for precision in Precision:
            rows = survey.series(case.name).get((PLAIN, device, precision), {})
            seen = {name: row.seen for name, row in rows.items()}
            found = ", ".join(one.text for axis in along for one in ranges_along(axis, seen))
            if found:
                alike.setdefault(found, []).append(precision.value)
        for ranges, precisions in alike.items():
            yield visible(f"{listed(precisions)}{survey.on(device)}: {ranges}")
