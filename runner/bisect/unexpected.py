"""What `main` does that its cases do not expect, and between which environments that changed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.version import Version

from repromatrix.runner.bisect.commit_search import Inquiry
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.search import Answer, changes
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Source, belongs
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Verdict
from repromatrix.runner.model.packages import TRANSFORMERS

_DIGITS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class UnexpectedCell:
    """A cell of `main` that is unexpected, and the last change on the way to it.

    Where no measured release did otherwise, `before` and `inquiry` are None.
    """

    judged: Judged
    before: Observation | None = None
    """The last release that did otherwise."""
    inquiry: Inquiry | None = None
    """That release and the environment after it, which may be a release as well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnexpectedResult:
    """The cells of one case that do the same on `main`: what one issue is about."""

    case: Case
    environment: Environment
    signature: str
    cells: tuple[UnexpectedCell, ...]

    @property
    def name(self) -> str:
        """Its case and a digest of its signature: the same every night."""
        told = hashlib.sha256(repr((self.case.name, self.signature)).encode())
        return f"{self.case.name} {told.hexdigest()[:_DIGITS]}"

    @property
    def verdict(self) -> Verdict:
        """What it is called; a failure that is new to one of its cells is called so."""
        verdicts = {cell.judged.verdict for cell in self.cells}
        return next(verdict for verdict in Verdict if verdict in verdicts)


def unexpected_results(
    judged: Iterable[Judged], cases: Mapping[str, Case], environments: Mapping[str, Environment]
) -> tuple[UnexpectedResult, ...]:
    """Return what is unexpected on `main`, by case and signature.

    `judged` is the whole grid: the releases say since when.
    """
    rows = {one.seen.cell: one for one in judged if not one.stale}
    groups: dict[tuple[str, str, str], list[UnexpectedCell]] = {}
    for cell, one in rows.items():
        if environments[cell.environment].source is Source.MAIN and one.verdict.is_unexpected:
            key = (cell.case, cell.environment, _signature(one))
            groups.setdefault(key, []).append(_with_change(one, rows, cases, environments))
    return tuple(
        UnexpectedResult(
            case=cases[case],
            environment=environments[environment],
            signature=signature,
            cells=tuple(cells),
        )
        for (case, environment, signature), cells in groups.items()
    )


def _signature(one: Judged) -> str:
    """Return what tells a result from others of its case: how it fails, or what no longer does."""
    if one.seen.outcome.is_failure or one.entry is None:
        return " ".join(one.seen.kind)
    gone = one.entry
    return " ".join([one.seen.outcome, gone.outcome, " ".join(gone.raises), *gone.match])


def _with_change(
    one: Judged,
    rows: Mapping[Cell, Judged],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
) -> UnexpectedCell:
    asked = _question(cases[one.seen.cell.case], one.seen)
    line = _line(asked.case, environments[one.seen.cell.environment], environments)
    answers = {
        place: asked.answer(rows[cell].seen)
        for place, cell in enumerate(asked.cell(environment.name) for environment in line)
        if cell in rows
    }
    found = changes(answers)
    if not found or answers[len(line) - 1] is Answer.UNKNOWN:
        return UnexpectedCell(judged=one)
    last = found[-1]
    older, newer = line[last.before], line[last.at]
    return UnexpectedCell(
        judged=one,
        before=rows[asked.cell(older.name)].seen,
        inquiry=Inquiry(asked=asked, edge=last.edge, older=older, newer=newer),
    )


def _question(case: Case, seen: Observation) -> CaseQuestion:
    """Return the question that tells what was seen from what releases did before."""
    cell = seen.cell
    asked = CaseQuestion(
        case=case, workaround=cell.workaround, precision=cell.precision, device=cell.device
    )
    if not seen.outcome.is_failure or asked.answer(seen) is Answer.YES:
        return asked
    if seen.failed is None:  # it was ended, or ran too long
        return dataclasses.replace(asked, any_failure=True)
    return dataclasses.replace(asked, signature=seen.failed.signature)


def _line(
    case: Case, main: Environment, environments: Mapping[str, Environment]
) -> tuple[Environment, ...]:
    """Return the releases before a `main`, oldest first, and itself."""
    version = Version(main.version(TRANSFORMERS))
    releases = (
        one
        for one in environments.values()
        if one.source is Source.RELEASE and belongs(case, one)
        if Version(one.version(TRANSFORMERS)) < version
    )
    return (*releases, main)
