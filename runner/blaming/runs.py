"""One environment's answer: what is stored of it, else a run that is stored at once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner import trials
from runner.engine.events import Ready
from runner.environments import building, recipes
from runner.environments.building import UnbuildableError
from runner.judging.answers import answer
from runner.judging.currency import is_current
from runner.model.observation import UNPUBLISHED
from runner.searching.oracle import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.blaming.question import Evidence, Question
    from runner.engine.events import Terms
    from runner.judging.culprits import Trial
    from runner.model.cell import Environment
    from runner.model.lock import Lock
    from runner.model.observation import Observation
    from runner.project import Project


@dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """Answers for environments that have a lock."""

    project: Project
    question: Question
    evidence: Evidence
    terms: Terms
    say: Callable[[str], None]
    signature: str = ""
    """What counts as bad for a case that describes no failure."""

    def answered(self, trial: Trial, environment: Environment, lock: Lock) -> Trial:
        """Return a trial with its answer; one that cannot be built has a reason instead."""
        trial = dataclasses.replace(trial, name=environment.name, environment=environment)
        stored = self._stored(environment)
        if stored:
            return self._judged(trial, stored, known=True)
        try:
            return self._judged(trial, self._run(environment, lock), known=False)
        except UnbuildableError as error:
            return dataclasses.replace(trial, reason=f"unbuildable: {error}")

    def looking_for(self, bad: Trial) -> Runs:
        """Return the same, told how the bad end fails where the case does not say it."""
        if self.question.case.block.fails or not (bad.seen and bad.seen.failed):
            return self
        return dataclasses.replace(self, signature=bad.seen.failed.signature)

    def judged_again(self, trial: Trial) -> Trial:
        """Return a trial as it is judged by now."""
        if trial.seen is None:
            return trial
        return self._judged(trial, [trial.seen], known=trial.known)

    def _stored(self, environment: Environment) -> list[Observation]:
        """Return what is known of an environment by what it holds, whatever it is called.

        What this machine measured goes before what was published.
        """
        case = self.question.case
        rows = [
            row
            for row in self.evidence.rows
            if self.question.is_of(row.cell)
            and is_current(row, case, environment)
            and not row.outcome.blames_machine
        ]
        own = [row for row in rows if row.source in UNPUBLISHED]
        return own or rows[-1:]

    def _judged(self, trial: Trial, rows: list[Observation], *, known: bool) -> Trial:
        """Take the latest row; where the answers contradict each other there is none."""
        said = {self._answer(row) for row in rows} - {Answer.UNKNOWN}
        one = said.pop() if len(said) == 1 else Answer.UNKNOWN
        reason = "it was measured more than once, with different answers" if said else ""
        return dataclasses.replace(trial, answer=one, seen=rows[-1], known=known, reason=reason)

    def _answer(self, row: Observation) -> Answer:
        question = self.question
        return answer(
            question.case, row, any_failure=question.any_failure, signature=self.signature
        )

    def _run(self, environment: Environment, lock: Lock) -> list[Observation]:
        """Build and measure; each answer is taken three times, once in a fresh process."""
        self.say(f"  {environment.name}: building and running")
        recipe = recipes.recipe(self.project.matrix, lock, environment)
        built = building.build(self.project.places, recipe)
        cell = self.question.cell(environment.name)
        ready = Ready(environment=environment, built=built, cells=(cell,))
        case = self.question.case
        rows = trials.measure(ready, {case.name: case}, self.terms, doubted=lambda *_: True)
        for row in rows:
            self.evidence.keep(row)
        return list(rows)
