"""What each snapshot changed against the one before it: `changes.json`.

The published set holds only what is known now, so a change is recorded when the set is replaced.
What was replaced before the file existed is not known.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

from repromatrix.runner.compare.diff import CellChange, compare
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.evidence.database import addressed
from repromatrix.runner.evidence.published import WRITTEN
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.observation import Observation

FORMAT = 1
NAME = "changes.json"
_LISTED = (CellChange.BROKE, CellChange.FIXED, CellChange.CHANGED)
_ERROR = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """Cells of one variant in one precision that changed in the same way."""

    change: CellChange
    case: str
    workaround: str
    precision: str
    device: str
    environments: tuple[str, ...]
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotRecord:
    """A snapshot against the one before it; cells on one side only are counted by case."""

    publication: str
    date: str
    against: str
    changes: tuple[Changed, ...] = ()
    new: tuple[tuple[str, int], ...] = ()
    gone: tuple[tuple[str, int], ...] = ()


def compared(
    before: Iterable[Observation],
    after: Iterable[Observation],
    cases: Mapping[str, Case],
    order: Sequence[str],
) -> tuple[tuple[Changed, ...], Counter[str], Counter[str]]:
    """Return how cells changed, and how many cells of each case are new and gone.

    Cells whose outcome the machine decided are not counted.
    """
    old, now = ({row.cell: row for row in rows} for rows in (before, after))
    differences = compare(old, now, cases)
    groups: dict[Changed, list[str]] = {}
    for difference in differences:
        cell, before_, after_ = difference.cell, difference.before, difference.after
        if before_ and after_ and difference.change in _LISTED and cell.case in cases:
            anywhere = Changed(
                change=difference.change,
                case=cell.case,
                workaround=cell.workaround,
                precision=cell.precision.value,
                device=cell.device.value,
                environments=(),
                before=_happened(before_),
                after=_happened(after_),
            )
            groups.setdefault(anywhere, []).append(cell.environment)
    place = {name: number for number, name in enumerate(order)}
    changed = (
        replace(anywhere, environments=tuple(sorted(names, key=lambda n: place.get(n, len(place)))))
        for anywhere, names in sorted(groups.items(), key=lambda group: astuple(group[0]))
    )
    new = _counted(each.after for each in differences if each.before is None)
    gone = _counted(each.before for each in differences if each.after is None)
    return tuple(changed), new, gone


def _counted(rows: Iterable[Observation | None]) -> Counter[str]:
    return Counter(row.cell.case for row in rows if row and row.outcome.is_evidence)


def _happened(row: Observation) -> str:
    if row.failed is None:
        return row.outcome.value
    return " ".join(row.failed.headline.split())[:_ERROR]


def written(records: Iterable[SnapshotRecord]) -> str:
    """Return the text of the file, one line per change, newest publication first."""
    content = {"format": FORMAT, "publications": [_record(record) for record in records]}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _record(record: SnapshotRecord) -> dict[str, Any]:
    changes = [
        asdict(change) | {"environments": " ".join(change.environments)}
        for change in record.changes
    ]
    counts = {"new": dict(sorted(record.new)), "gone": dict(sorted(record.gone))}
    return asdict(record) | {"changes": changes} | counts


def read_changes(folder: Path) -> tuple[SnapshotRecord, ...]:
    """Return what snapshots changed, newest first; raises RunnerError for a newer format."""
    path = folder / NAME
    if not path.exists():
        return ()
    with addressed(NAME, WRITTEN):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] > FORMAT:
            what = f"it has format {content['format']}, this version reads {FORMAT} or older"
            raise refuse(Problem(NAME, what, "Update repromatrix."))
        return tuple(_read(record) for record in content["publications"])


def _read(record: dict[str, Any]) -> SnapshotRecord:
    changes = []
    for line in record["changes"]:
        kind, names = CellChange(line["change"]), tuple(line["environments"].split())
        changes.append(Changed(**line | {"change": kind, "environments": names}))
    counts = {key: tuple(record[key].items()) for key in ("new", "gone")}
    return SnapshotRecord(**record | {"changes": tuple(changes)} | counts)
