"""What is on record for a fix (`fixed-by`, which a person writes) against what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.judging.verdicts import covers, live
from repromatrix.runner.model.case import Case, Failure
from repromatrix.runner.model.cell import Cell, Environment
from repromatrix.runner.model.outcomes import Device, Precision

_PULL = re.compile(r"https://github\.com/huggingface/([\w.-]+)/pull/(\d+)/?")


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredFix:
    """An entry of `fails`, and the commits that were measured to fix what it describes."""

    number: int
    """Its place in the block, from 1."""
    entry: Failure
    commits: tuple[PinnedCommit, ...]
    """One for each pull request."""

    @property
    def on_record(self) -> str:
        """The address that the entry names; empty where it names none."""
        return self.entry.fixed_by or ""

    @property
    def is_unrecorded(self) -> bool:
        """Whether the entry names no fix, and its note none of those that were measured."""
        note = self.entry.note or ""
        return not self.on_record and all(
            f"#{row.pull_request}" not in note for row in self.commits
        )

    @property
    def is_contradicted(self) -> bool:
        """Whether another pull request of the same package is on record than all measured ones."""
        record = _PULL.fullmatch(self.on_record)
        return record is not None and all(
            record[1] == commit.package and record[2] != commit.pull_request
            for commit in self.commits
        )


def measured_fixes(
    case: Case, commits: Iterable[PinnedCommit], environments: Mapping[str, Environment]
) -> Iterator[MeasuredFix]:
    """Yield the entries of a case whose fix was measured to be that of a pull request."""
    rows = [
        row
        for row in commits
        if (row.case, row.change) == (case.name, "fix")
        and row.pull_request
        and row.before in environments
    ]
    for number, entry in enumerate(case.block.fails, start=1):
        pulls = {row.url: row for row in rows if _is_about(entry, row, case, environments)}
        if pulls:
            yield MeasuredFix(number=number, entry=entry, commits=tuple(pulls.values()))


def _is_about(
    entry: Failure, row: PinnedCommit, case: Case, environments: Mapping[str, Environment]
) -> bool:
    """Return whether an entry describes what ended with a fix, another entry's release or not.

    Between two releases one bug may end and another begin: the words of the failure decide.
    """
    precision, device = Precision(row.precision), Device(row.device)
    cell = Cell(case.name, row.workaround, row.before, precision, device)
    alike = [
        one
        for one in case.block.fails
        if covers(one, cell)
        if not row.outcome_before or any(text in row.outcome_before for text in one.match)
    ]
    return entry in ([one for one in live(case, environments[row.before]) if one in alike] or alike)
