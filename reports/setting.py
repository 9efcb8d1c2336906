"""On what everything was measured, in one sentence per kind of machine: no page is without it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.phrases import counted, visible

if TYPE_CHECKING:
    from reports.survey import Survey

NOTHING = "Nothing has been run yet."


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """The sentences for pages, and the few words that a badge has room for."""

    sentences: tuple[str, ...]
    brief: str


def setting(survey: Survey) -> Setting:
    """Return on what the cells of a survey were run."""
    found = Counter(
        (
            row.seen.cell.device.value,
            row.seen.provenance.hardware,
            row.seen.provenance.torch_build,
            row.seen.provenance.python,
            row.seen.source,
        )
        for row in survey.rows.values()
        if row.seen.outcome.was_run
    )
    briefs = dict.fromkeys(f"{device}, torch {torch}" for device, _, torch, _, _ in sorted(found))
    return Setting(
        sentences=tuple(_sentence(*key, found[key]) for key in sorted(found)) or (NOTHING,),
        brief=visible("; ".join(briefs)) or "nothing measured",
    )


def _sentence(  # noqa: PLR0913, PLR0917 - a machine, where that is written, and how many cells
    device: str, hardware: str, torch: str, python: str, source: str, cells: int
) -> str:
    ran = counted(cells, "cell")
    return visible(
        f"Measured on {device} ({hardware}), torch {torch}, Python {python}: {ran} from {source}."
    )
