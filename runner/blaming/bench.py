"""Mixtures of two environments as points of a search: locks made, answers asked for."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from runner.environments import mixing
from runner.environments.mixing import Ends, UnresolvableError
from runner.errors import ExitCode, Fault, refuse
from runner.judging.culprits import Trial, search
from runner.model.cell import Source, obstacles
from runner.model.mixture import LIKELY, difference
from runner.model.mixture import name as named
from runner.searching.oracle import Answer

if TYPE_CHECKING:
    from runner.blaming.question import Question
    from runner.blaming.runs import Runs
    from runner.judging.culprits import Blame
    from runner.model.case import Case
    from runner.model.cell import Environment
    from runner.model.lock import Lock
    from runner.model.mixture import Difference, Taken
    from runner.project import Project


class Bench:
    """Answers for mixtures of two environments; what it runs is stored at once."""

    def __init__(self, runs: Runs) -> None:
        """Nothing is asked yet; raises RunnerError where an end cannot run the case."""
        self.runs = runs
        self.project = runs.project
        self.ends = _ends(runs.project, runs.question)
        self.seen: dict[Taken, Trial] = {}

    def blame(self) -> Blame:
        """Search; raises RunnerError (exit 4) where an end cannot be built."""
        everything = self.ends.everything
        bad = self.ask(everything)
        self.runs = self.runs.looking_for(bad)
        self.seen[everything] = self.runs.judged_again(bad) if self.runs.signature else bad
        return search(self.ends, self.ask)

    def ask(self, taken: Taken) -> Trial:
        """Return what a mixture answers, from evidence or from a run."""
        if taken not in self.seen:
            self.seen[taken] = self._trial(taken)
        return self.seen[taken]

    def _trial(self, taken: Taken) -> Trial:
        unknown = Trial(taken=taken, name=named(self.ends, taken), answer=Answer.UNKNOWN)
        try:
            lock = self._lock(taken)
        except UnresolvableError as error:
            return dataclasses.replace(unknown, reason=f"unresolvable: {error}")
        trial = self.runs.answered(unknown, self._environment(taken, lock), lock)
        if trial.seen is None and taken in {frozenset(), self.ends.everything}:
            raise _unbuildable(trial)
        return trial

    def _lock(self, taken: Taken) -> Lock:
        good, bad = (self.project.locks[end.name] for end in (self.ends.good, self.ends.bad))
        if not taken:
            return good
        if taken == self.ends.everything:
            return bad
        places, matrix = self.project.places, self.project.matrix
        return mixing.mixed(places, matrix, Ends(good, bad), self.ends, taken)

    def _environment(self, taken: Taken, lock: Lock) -> Environment:
        """Return what is installed there; another environment that holds the same is the same."""
        if not taken:
            return self.ends.good
        if taken == self.ends.everything:
            return self.ends.bad
        good = self.ends.good
        pins = {**lock.versions(good.markers), "torch": good.version("torch")}
        return dataclasses.replace(good, name=lock.name, source=Source.PAIR, pins=pins)


def _unbuildable(end: Trial) -> Exception:
    fault = Fault(where=end.name, found=end.reason, allowed="an environment that can be built")
    return refuse(fault, ExitCode.UNBUILDABLE)


def _ends(project: Project, question: Question) -> Difference:
    """Compare the ends; raises RunnerError where the case cannot be run in one of them."""
    for option, name in (("--good", question.good), ("--bad", question.bad)):
        environment = project.environments[name]
        found = obstacles(question.case, environment, question.device)
        if found:
            where = f"{option} {name}"
            allowed = f"an environment to which {question.case.name} is applicable"
            raise refuse(Fault(where=where, found="; ".join(found), allowed=allowed))
    good, bad = project.environments[question.good], project.environments[question.bad]
    return difference(good, bad, likely(question.case))


def likely(case: Case) -> tuple[str, ...]:
    """Return the packages that a case's own entries name, those that everybody knows first."""
    found = {one.name for entry in case.block.fails for one in entry.when}
    order = [name for name in LIKELY if name in found]
    return (*order, *sorted(found - {*order}))
