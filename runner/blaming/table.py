"""What stored evidence of the whole table tells of a culprit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.evidence.survey import choose
from runner.judging.answers import answer
from runner.judging.company import company
from runner.judging.currency import is_current
from runner.planning.imports import PRELOADED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.blaming.question import Question
    from runner.judging.company import Company
    from runner.judging.culprits import Blame
    from runner.model.observation import Observation
    from runner.project import Project
    from runner.searching.oracle import Answer


def table(
    project: Project, question: Question, rows: Iterable[Observation], found: Blame
) -> tuple[Company, ...]:
    """Return what the table knows of every culprit, from stored evidence alone."""
    known = choose(rows, {question.case.name: question.case}, project.environments)
    answers: Mapping[str, Answer] = {
        cell.environment: answer(question.case, row, any_failure=question.any_failure)
        for cell, row in known.items()
        if question.is_of(cell)
        and cell.environment in project.environments
        and is_current(row, question.case, project.environments[cell.environment])
    }
    told = (
        company(
            package,
            found.ends.bad.version(package),
            answers,
            project.environments,
            [name for name in PRELOADED if name != "torch"],
        )
        for package in found.culprits
    )
    return tuple(one for one in told if one)
