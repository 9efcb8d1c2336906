"""Answer questions about mixed environments: their locks, their evidence, then runs of them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name

from repromatrix.runner import files
from repromatrix.runner.bisect import packages
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.packages import EnvironmentDifference, MixtureTrial, Taken
from repromatrix.runner.environments import building, locks
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.errors import ExitCode, Problem, RunnerError, refuse
from repromatrix.runner.evidence.answering import answering_row
from repromatrix.runner.execution import run
from repromatrix.runner.execution.events import Ready, Terms
from repromatrix.runner.judging.verdicts import is_standing
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment, Source, obstacles
from repromatrix.runner.model.lock import Lock, inputs_digest, read_lock
from repromatrix.runner.model.matrix import Matrix
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.packages import DECIDING
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import Project


@dataclass(kw_only=True, slots=True)
class MixtureOracle:
    """Answers for mixtures of two environments; what it runs is kept at once."""

    project: Project
    question: CaseQuestion
    good: str
    bad: str
    rows: tuple[Observation, ...]
    """The published ones, then those of this machine, then those of earlier searches."""
    keep: Callable[[Observation], None]
    terms: Terms
    say: Callable[[str], None]
    ends: EnvironmentDifference = field(init=False)

    def __post_init__(self) -> None:
        """Compare the ends; raises RunnerError where one of them cannot run the case."""
        case, environments = self.question.case, self.project.environments
        for option, name in (("--good", self.good), ("--bad", self.bad)):
            if reasons := obstacles(case, environments[name], self.question.device):
                what = f"{case.name} is not applicable ({'; '.join(reasons)})"
                raise refuse(Problem(f"{option} {name}", what))
        good, bad = environments[self.good], environments[self.bad]
        self.ends = packages.difference(good, bad, likely(case))

    def blame(self) -> packages.Blame:
        """Search; raises RunnerError (exit 4) where an end cannot be built."""
        everything = self.ends.everything
        bad = self.ask(everything)
        if bad.seen:
            self.question = self.question.recognising([bad.seen])
            bad = dataclasses.replace(bad, answer=self.question.answer(bad.seen))
        return packages.search(
            self.ends, lambda taken: bad if taken == everything else self.ask(taken)
        )

    def ask(self, taken: Taken) -> MixtureTrial:
        """Return what a mixture answers; evidence is found by what is installed, not by name."""
        good, bad, project = self.ends.good, self.ends.bad, self.project
        if not taken or taken == self.ends.everything:
            end = bad if taken else good
            trial = self._answered(taken, end, project.locks[end.name])
            if trial.seen is None:
                raise refuse(Problem(trial.name, trial.reason), ExitCode.UNBUILDABLE)
            return trial
        both = project.locks[good.name], project.locks[bad.name]
        try:
            lock = mixed(project.paths, project.matrix, both, self.ends, taken)
        except UnresolvableError as error:
            name = packages.mixture_name(self.ends, taken)
            return MixtureTrial(taken=taken, name=name, reason=f"cannot be resolved: {error}")
        pins = {**lock.versions(good.markers), "torch": good.version("torch")}
        environment = dataclasses.replace(good, name=lock.name, source=Source.PAIR, pins=pins)
        return self._answered(taken, environment, lock)

    def _answered(self, taken: Taken, environment: Environment, lock: Lock) -> MixtureTrial:
        """Return a trial with its answer, or with the reason why it cannot be built."""
        trial = MixtureTrial(taken=taken, name=environment.name, environment=environment)
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
        known = [row for row in self.rows if row.cell == self.question.cell(row.cell.environment)]
        rows = [row for row in known if is_standing(row, case, environment)]
        row = answering_row(rows, lambda row: is_standing(row, case, environment)) if rows else None
        return row if row and row.outcome.is_evidence and not row.sides else None

    def _run(self, environment: Environment, lock: Lock) -> Observation:
        """Build and measure; each case is run three times, once in a fresh process."""
        self.say(f"  {environment.name}: building and running")
        recipe = locks.recipe(self.project.matrix, lock, environment)
        built = building.build(self.project.paths, recipe)
        cell = self.question.cell(environment.name)
        ready = Ready(environment=environment, built=built, cells=(cell,))
        case = self.question.case
        (row,) = run.measure(ready, {case.name: case}, self.terms, doubted=lambda *_: True)
        self.keep(row)
        return row


def likely(case: Case) -> tuple[str, ...]:
    """Return the packages that a case's own entries name, the best-known ones first."""
    named = {requirement.name for entry in case.block.fails for requirement in entry.when}
    order = [name for name in DECIDING if name in named]
    return (*order, *sorted(named - {*order}))


_CONFLICT = re.compile(r"Because (.*? depends on .*?), we can conclude")
_BOUND = re.compile(r"(?:and )?\S+ depends on (\S+==[^\s,]+)")
_REFUSED = re.compile(r"(?m)^# unresolvable: (.*)$")
_LIMIT = 240


class UnresolvableError(Exception):
    """No environment holds these versions together; the text is the resolver's reason in short."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        """Keep the reason, and whether it lies in the packages alone."""
        self.is_final = is_final
        super().__init__(reason)


def mixed(
    paths: Paths,
    matrix: Matrix,
    ends: tuple[Lock, Lock],
    between: EnvironmentDifference,
    taken: Taken,
) -> Lock:
    """Return the lock of a mixture, resolved once and kept; raises UnresolvableError.

    `ends` are the locks of the good and of the bad environment.
    """
    good, bad = ends
    lines = (
        f"of {good.name} {good.digest}",
        f"with {', '.join(sorted(taken))} of {bad.name} {bad.digest}",
        f"torch=={matrix.torch.version}, python {matrix.python}",
    )
    digest = inputs_digest(lines)
    path = paths.mixtures / f"{digest}.txt"
    if not path.exists():
        head = "".join(f"# {line}\n" for line in (*lines, f"input: {digest}"))
        try:
            body = _resolved(matrix, ends, between, taken)
        except UnresolvableError as error:
            # Only a conflict of pins is kept: an index that does not answer today may tomorrow.
            if not error.is_final:
                raise
            body = f"# unresolvable: {error}\n"
        files.write(path, head + body)
    text = path.read_text(encoding="utf-8")
    if refused := _REFUSED.search(text):
        raise UnresolvableError(refused[1])
    pins = "".join(line for line in text.splitlines(keepends=True) if line[0] != "#")
    return read_lock(pins, packages.mixture_name(between, taken), paths.shown(path))


def _resolved(
    matrix: Matrix, ends: tuple[Lock, Lock], between: EnvironmentDifference, taken: Taken
) -> str:
    """Resolve with a constraint for every package that either end has."""
    versions = {change.package: change.version(taken) for change in between.changes}
    named = [package for lock in ends for package in packages.requested(lock.name)]
    wanted = dict.fromkeys(["transformers", *matrix.companions, *named])
    bound = list(_bound(ends, between, taken))
    try:
        return locks.compile_lock(
            matrix,
            [package for package in wanted if versions.get(package, "as it is")],
            until=None,
            where=packages.mixture_name(between, taken),
            bound=bound,
        )
    except RunnerError as error:
        reason = error.faults[0].what
        raise UnresolvableError(
            in_short(reason, bound), is_final=bool(_CONFLICT.search(reason))
        ) from error


def _bound(ends: tuple[Lock, Lock], between: EnvironmentDifference, taken: Taken) -> Iterator[str]:
    """Yield the pins of a mixture: of a change from its end, of others from whoever has them.

    What only other platforms install, and the ends pin differently, is left to the resolver.
    """
    good, bad = map(_lines, ends)
    for package in {**good, **bad}:
        here, there = good.get(package, []), bad.get(package, [])
        if package in between.everything:
            yield from there if package in taken else here
        elif package in between.good.pins or not there or here == there:
            yield from here
        elif package in between.bad.pins or not here:
            yield from there


def _lines(lock: Lock) -> dict[str, list[str]]:
    """Return the pins by package: there may be one for each of several platforms."""
    found: dict[str, list[str]] = {}
    for pin in lock.pins:
        found.setdefault(canonicalize_name(pin.name), []).append(str(pin))
    return found


def in_short(reason: str, bound: Iterable[str] = ()) -> str:
    """Return the resolver's reason without its conclusions.

    uv words a constraint as a need of the package beside it; here it is a pin of the mixture.
    """
    found = _CONFLICT.search(reason)
    text = found[1] if found else reason
    pinned = {pin.partition(";")[0].strip() for pin in bound}

    def said(match: re.Match[str]) -> str:
        return f"and this has {match[1]}" if match[1] in pinned else match[0]

    return _BOUND.sub(said, text).removeprefix("and ")[:_LIMIT]
