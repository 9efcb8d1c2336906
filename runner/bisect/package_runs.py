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
from repromatrix.runner.bisect.oracle import answer
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
from repromatrix.runner.model.cell import Cell, Environment, Source, obstacles
from repromatrix.runner.model.environment_name import taken_apart, with_extras
from repromatrix.runner.model.lock import Lock
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import DECIDING, MOVED
from repromatrix.runner.model.requirements import parse
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class BlameQuestion:
    """What is asked: one cell of a case between two environments."""

    case: Case
    workaround: str
    precision: Precision
    device: Device
    good: str
    bad: str
    any_failure: bool = False

    def cell(self, environment: str) -> Cell:
        """Return its cell in an environment."""
        return Cell(self.case.name, self.workaround, environment, self.precision, self.device)

    def is_of(self, cell: Cell) -> bool:
        """Say whether a cell is one of those that it asks about, wherever it stands."""
        return cell == self.cell(cell.environment)


@dataclass(frozen=True, kw_only=True, slots=True)
class MixtureEvidence:
    """What is stored, and where new rows go."""

    rows: tuple[Observation, ...]
    """The published ones, then those of this machine, then those of earlier searches."""
    keep: Callable[[Observation], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class MixtureRuns:
    """Answers for environments that have a lock."""

    project: Project
    question: BlameQuestion
    evidence: MixtureEvidence
    terms: Terms
    say: Callable[[str], None]
    signature: str = ""
    """What counts as bad for a case that describes no failure."""

    def answered(self, trial: MixtureTrial, environment: Environment, lock: Lock) -> MixtureTrial:
        """Return a trial with its answer, or with the reason why it cannot be built."""
        trial = dataclasses.replace(trial, name=environment.name, environment=environment)
        stored = self._stored(environment)
        if stored is not None:
            return self._judged(trial, stored, known=True)
        try:
            return self._judged(trial, self._run(environment, lock), known=False)
        except UnbuildableError as error:
            return dataclasses.replace(trial, reason=f"cannot be built ({error})")

    def looking_for(self, bad: MixtureTrial) -> MixtureRuns:
        """Return the same for the failure of the bad end, where the case describes none."""
        if self.question.case.block.fails or not (bad.seen and bad.seen.failed):
            return self
        return dataclasses.replace(self, signature=bad.seen.failed.signature)

    def judged_again(self, trial: MixtureTrial) -> MixtureTrial:
        """Return a trial with the answer for the signature that is known by now."""
        return trial if trial.seen is None else self._judged(trial, trial.seen, known=trial.known)

    def _stored(self, environment: Environment) -> Observation | None:
        """Return the row of an environment with the same packages, whatever it is called.

        Where the machine decided (memory ran out), or rows are disputed, it is run again.
        """
        case = self.question.case

        def standing(row: Observation) -> bool:
            return is_standing(row, case, environment)

        rows = [
            row for row in self.evidence.rows if self.question.is_of(row.cell) and standing(row)
        ]
        row = answering_row(rows, standing) if rows else None
        return row if row and row.outcome.is_evidence and not row.sides else None

    def _judged(self, trial: MixtureTrial, row: Observation, *, known: bool) -> MixtureTrial:
        case, any_failure = self.question.case, self.question.any_failure
        bad = answer(case, row, any_failure=any_failure, signature=self.signature)
        return dataclasses.replace(trial, answer=bad, seen=row, known=known)

    def _run(self, environment: Environment, lock: Lock) -> Observation:
        """Build and measure; each case is run three times, once in a fresh process."""
        self.say(f"  {environment.name}: building and running")
        recipe = locks.recipe(self.project.matrix, lock, environment)
        built = building.build(self.project.places, recipe)
        cell = self.question.cell(environment.name)
        ready = Ready(environment=environment, built=built, cells=(cell,))
        case = self.question.case
        (row,) = run.measure(ready, {case.name: case}, self.terms, doubted=lambda *_: True)
        self.evidence.keep(row)
        return row


class MixtureOracle:
    """Answers for mixtures of two environments; what it runs is stored at once."""

    def __init__(self, runs: MixtureRuns) -> None:
        """Run nothing yet; raises RunnerError where an end cannot run the case."""
        self.runs = runs
        self.project = runs.project
        self.ends = _ends(runs.project, runs.question)
        self.seen: dict[Taken, MixtureTrial] = {}

    def blame(self) -> Blame:
        """Search; raises RunnerError (exit 4) where an end cannot be built."""
        everything = self.ends.everything
        bad = self.ask(everything)
        self.runs = self.runs.looking_for(bad)
        self.seen[everything] = self.runs.judged_again(bad) if self.runs.signature else bad
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


def _ends(project: Project, question: BlameQuestion) -> EnvironmentDifference:
    """Compare the ends; raises RunnerError where the case cannot be run in one of them."""
    for option, name in (("--good", question.good), ("--bad", question.bad)):
        environment = project.environments[name]
        if reasons := obstacles(question.case, environment, question.device):
            what = f"{question.case.name} is not applicable ({'; '.join(reasons)})"
            raise refuse(Problem(f"{option} {name}", what))
    good, bad = project.environments[question.good], project.environments[question.bad]
    return difference(good, bad, likely(question.case))


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
    end = runs.project.environments[runs.question.bad]
    own = end.version(package)
    versions = minors(locks.published(package), wanted.specifier, own)
    return Sweep(
        package=package,
        base=end.name,
        trials=tuple(
            (version, bad if version == own else _trial(runs, package, version))
            for version in versions
        ),
    )


def _trial(runs: MixtureRuns, package: str, version: str) -> MixtureTrial:
    project = runs.project
    end = project.environments[runs.question.bad]
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
    project: Project, question: BlameQuestion, rows: Iterable[Observation], found: Blame
) -> tuple[TableEvidence, ...]:
    """Return what stored evidence of the table says of every culprit."""
    known = answering_rows(rows, {question.case.name: question.case}, project.environments)
    answers: Mapping[str, Answer] = {
        cell.environment: answer(question.case, row, any_failure=question.any_failure)
        for cell, row in known.items()
        if question.is_of(cell)
        and cell.environment in project.environments
        and is_current(row, question.case, project.environments[cell.environment])
    }
    evidence = (
        company(
            package,
            found.ends.bad.version(package),
            answers,
            project.environments,
            MOVED,
        )
        for package in found.culprits
    )
    return tuple(filter(None, evidence))
