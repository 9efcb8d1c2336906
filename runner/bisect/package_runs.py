"""Answer questions about mixed environments: evidence first, then runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from repromatrix.runner.bisect import mixtures
from repromatrix.runner.bisect.mixtures import (
    Ends,
    EnvironmentDifference,
    Taken,
    UnresolvableError,
    difference,
    mixture_name,
)
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.packages import (
    Blame,
    MixtureTrial,
    Sweep,
    TableEvidence,
    company,
    minors,
    search,
)
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.environments import building, locks
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.errors import ExitCode, InvalidValue, Problem, refuse
from repromatrix.runner.evidence.answering import answering_row, answering_rows, is_standing
from repromatrix.runner.execution import run
from repromatrix.runner.execution.events import Ready, Terms
from repromatrix.runner.judging.verdicts import is_current
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment, Source, obstacles
from repromatrix.runner.model.environment_name import taken_apart, with_extras
from repromatrix.runner.model.lock import Lock
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.packages import DECIDING, MOVED
from repromatrix.runner.model.requirements import parse
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class MixtureRuns:
    """Answers for environments that have a lock."""

    project: Project
    question: CaseQuestion
    rows: tuple[Observation, ...]
    """The published ones, then those of this machine, then those of earlier searches."""
    keep: Callable[[Observation], None]
    terms: Terms
    say: Callable[[str], None]

    def answered(self, trial: MixtureTrial, environment: Environment, lock: Lock) -> MixtureTrial:
        """Return a trial with its answer, or with the reason why it cannot be built."""
        trial = dataclasses.replace(trial, name=environment.name, environment=environment)
        row = stored = self._stored(environment)
        try:
            row = row or self._run(environment, lock)
        except UnbuildableError as error:
            return dataclasses.replace(trial, reason=f"cannot be built ({error})")
        answer = self.question.answer(row)
        return dataclasses.replace(trial, answer=answer, seen=row, known=stored is not None)

    def _stored(self, environment: Environment) -> Observation | None:
        """Return the row of an environment with the same packages, whatever it is called.

        Where the machine decided (memory ran out), or rows are disputed, it is run again.
        """
        case = self.question.case

        def standing(row: Observation) -> bool:
            return is_standing(row, case, environment)

        rows = [
            row
            for row in self.rows
            if row.cell == self.question.cell(row.cell.environment) and standing(row)
        ]
        row = answering_row(rows, standing) if rows else None
        return row if row and row.outcome.is_evidence and not row.sides else None

    def _run(self, environment: Environment, lock: Lock) -> Observation:
        """Build and measure; each case is run three times, once in a fresh process."""
        self.say(f"  {environment.name}: building and running")
        recipe = locks.recipe(self.project.matrix, lock, environment)
        built = building.build(self.project.places, recipe)
        cell = self.question.cell(environment.name)
        ready = Ready(environment=environment, built=built, cells=(cell,))
        case = self.question.case
        (row,) = run.measure(ready, {case.name: case}, self.terms, doubted=lambda *_: True)
        self.keep(row)
        return row


class MixtureOracle:
    """Answers for mixtures of two environments; what it runs is stored at once."""

    def __init__(self, runs: MixtureRuns, good: str, bad: str) -> None:
        """Run nothing yet; raises RunnerError where an end cannot run the case."""
        self.runs = runs
        self.project = runs.project
        self.ends = _ends(runs.project, runs.question, good, bad)
        self.seen: dict[Taken, MixtureTrial] = {}

    def blame(self) -> Blame:
        """Search; raises RunnerError (exit 4) where an end cannot be built."""
        everything = self.ends.everything
        bad = self.ask(everything)
        if bad.seen:
            question = self.runs.question.recognising([bad.seen])
            self.runs = dataclasses.replace(self.runs, question=question)
            self.seen[everything] = dataclasses.replace(bad, answer=question.answer(bad.seen))
        return search(self.ends, self.ask)

    def ask(self, taken: Taken) -> MixtureTrial:
        """Return what a mixture answers, from evidence or from a run."""
        if taken not in self.seen:
            self.seen[taken] = self._trial(taken)
        return self.seen[taken]

    def _trial(self, taken: Taken) -> MixtureTrial:
        unknown = MixtureTrial(
            taken=taken, name=mixture_name(self.ends, taken), answer=Answer.UNKNOWN
        )
        try:
            lock = self._lock(taken)
        except UnresolvableError as error:
            return dataclasses.replace(unknown, reason=f"cannot be resolved: {error}")
        trial = self.runs.answered(unknown, self._environment(taken, lock), lock)
        if trial.seen is None and taken in {frozenset(), self.ends.everything}:
            raise refuse(Problem(trial.name, trial.reason), ExitCode.UNBUILDABLE)
        return trial

    def _lock(self, taken: Taken) -> Lock:
        good, bad = (self.project.locks[end.name] for end in (self.ends.good, self.ends.bad))
        if not taken:
            return good
        if taken == self.ends.everything:
            return bad
        places, matrix = self.project.places, self.project.matrix
        return mixtures.mixed(places, matrix, Ends(good, bad), self.ends, taken)

    def _environment(self, taken: Taken, lock: Lock) -> Environment:
        """Return what is installed there; evidence is found by its pins, not by its name."""
        if not taken:
            return self.ends.good
        if taken == self.ends.everything:
            return self.ends.bad
        good = self.ends.good
        pins = {**lock.versions(good.markers), "torch": good.version("torch")}
        return dataclasses.replace(good, name=lock.name, source=Source.PAIR, pins=pins)


def _ends(project: Project, question: CaseQuestion, good: str, bad: str) -> EnvironmentDifference:
    """Compare the ends; raises RunnerError where the case cannot be run in one of them."""
    for option, name in (("--good", good), ("--bad", bad)):
        environment = project.environments[name]
        if reasons := obstacles(question.case, environment, question.device):
            what = f"{question.case.name} is not applicable ({'; '.join(reasons)})"
            raise refuse(Problem(f"{option} {name}", what))
    environments = project.environments
    return difference(environments[good], environments[bad], likely(question.case))


def likely(case: Case) -> tuple[str, ...]:
    """Return the packages that a case's own entries name, the best-known ones first."""
    named = {requirement.name for entry in case.block.fails for requirement in entry.when}
    order = [name for name in DECIDING if name in named]
    return (*order, *sorted(named - {*order}))


def asked(text: str, project: Project, bad: str) -> Requirement:
    """Read what is to be swept, `accelerate` or `accelerate>=1.3`; raises RunnerError.

    Without bounds they are the oldest and the newest version that the releases have.
    """
    invalid = InvalidValue("--sweep", text, f"a companion in {bad}, such as accelerate>=1.3")
    try:
        requirement = parse(text)
    except ValueError as error:
        raise refuse(invalid) from error
    name = requirement.name
    if name == "transformers" or not project.environments[bad].version(name):
        raise refuse(invalid)
    if not requirement.specifier:
        versions = {environment.version(name) for environment in project.environments.values()}
        bounds = sorted(versions - {""}, key=Version)
        requirement.specifier = SpecifierSet(f">={bounds[0]},<={bounds[-1]}")
    return requirement


def sweep(runs: MixtureRuns, wanted: Requirement, bad: MixtureTrial) -> Sweep:
    """Run the bad end with each version; raises RunnerError where the index does not answer."""
    package = wanted.name
    end = runs.project.environments[bad.name]
    own = end.version(package)
    versions = minors(locks.published(package), wanted.specifier, own)
    return Sweep(
        package=package,
        base=end.name,
        trials=tuple(
            (version, bad if version == own else _trial(runs, end, package, version))
            for version in versions
        ),
    )


def _trial(runs: MixtureRuns, end: Environment, package: str, version: str) -> MixtureTrial:
    project = runs.project
    name = varied_name(end.name, package, version)
    unknown = MixtureTrial(taken=frozenset({package}), name=name, answer=Answer.UNKNOWN)
    base = project.locks[taken_apart(name).base]
    try:
        lock = mixtures.varied(project.places, project.matrix, base, name)
    except UnresolvableError as error:
        return dataclasses.replace(unknown, reason=f"cannot be resolved: {error}")
    environment = dataclasses.replace(locks.environment(project.matrix, lock), source=Source.PAIR)
    return runs.answered(unknown, environment, lock)


def varied_name(name: str, package: str, version: str) -> str:
    """Return the name of an environment with a package in another version.

    >>> varied_name("4.53.3+peft0.15.2+timm", "accelerate", "1.6.0")
    '4.53.3+peft0.15.2+accelerate1.6.0+timm'
    """
    parts = taken_apart(name)
    changed = {**dict(parts.changed), package: version}
    pairs = with_extras(parts.base, map("".join, changed.items()))
    return with_extras(pairs, parts.extras)


def table(
    project: Project, question: CaseQuestion, rows: Iterable[Observation], found: Blame
) -> tuple[TableEvidence, ...]:
    """Return what stored evidence of the table says of every culprit."""
    known = answering_rows(rows, {question.case.name: question.case}, project.environments)
    answers: Mapping[str, Answer] = {
        cell.environment: question.answer(row)
        for cell, row in known.items()
        if cell == question.cell(cell.environment)
        and cell.environment in project.environments
        and is_current(row, question.case, project.environments[cell.environment])
    }
    evidence = (
        company(package, found.ends.bad.version(package), answers, project.environments, MOVED)
        for package in found.culprits
    )
    return tuple(filter(None, evidence))
