"""Try one commit, and the JSON plan that `git bisect run` hands to it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from repromatrix.runner.bisect.oracle import answer
from repromatrix.runner.bisect.repository import claimed_or_nothing
from repromatrix.runner.bisect.search import Answer, agreed
from repromatrix.runner.cases import load_case, load_script
from repromatrix.runner.environments.building import Built, UnbuildableError
from repromatrix.runner.environments.checkouts import PackageSources
from repromatrix.runner.environments.development import with_commit
from repromatrix.runner.evidence.answering import answering_row, is_standing
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Ready, Terms, Tree
from repromatrix.runner.execution.run import measure
from repromatrix.runner.judging.expectations import is_current
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell, Environment, Source, obstacles
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import Paths


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialSide:
    """The environment of one end, built."""

    environment: Environment
    built: Built


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRequest:
    """What is asked of every commit."""

    case: Case
    workaround: str
    precision: Precision
    device: Device
    any_failure: bool = False
    signature: str = ""
    """What *bad* means for a case that describes no failure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Everything that trying a commit needs; `sides` are tried in their order.

    With `rerun` only what this very run measured is known. With `again` a commit that was measured
    once is run once more, in a fresh process, to confirm what it answered.
    """

    places: Paths
    asked: TrialRequest
    sides: tuple[TrialSide, ...]
    sources: PackageSources
    limits: Limits
    run: str
    rerun: bool = False
    again: bool = False
    sandbox: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitTrial:
    """What a commit answered, and what was imported for it."""

    commit: str
    answer: Answer
    environment: str
    """The end in whose environment it ran."""
    reason: str = ""
    """What it did; why it could not be judged."""
    version: str = ""
    file: str = ""
    known: bool = False
    """Whether it had been run before."""
    again: bool = False
    """Whether it was asked once more, to confirm what it had answered."""


def written(plan: Plan) -> str:
    """Return a plan as JSON."""
    asked = plan.asked
    return json.dumps(
        {
            "places": {"root": str(plan.places.root), "own": plan.places.own},
            "case": {
                "path": asked.case.path,
                "where": asked.case.where,
                "extras": asked.case.extras,
            },
            "cell": {
                "workaround": asked.workaround,
                "precision": asked.precision,
                "device": asked.device,
            },
            "bad": {"any_failure": asked.any_failure, "signature": asked.signature},
            "sides": [_side(side) for side in plan.sides],
            "sources": asdict(plan.sources),
            "limits": plan.limits.model_dump(),
            "run": plan.run,
            "rerun": plan.rerun,
            "again": plan.again,
            "sandbox": plan.sandbox,
        },
        indent=1,
    )


def _side(side: TrialSide) -> dict[str, Any]:
    environment, built = side.environment, side.built
    return {
        "environment": {
            "name": environment.name,
            "source": environment.source,
            "python": environment.python,
            "pins": dict(environment.pins),
            "markers": dict(environment.markers),
            "stated_digest": environment.stated_digest,
            "built": environment.built,
        },
        "built": {
            "name": built.name,
            "folder": str(built.folder),
            "python": str(built.python),
            "versions": dict(built.versions),
        },
    }


def read(text: str) -> Plan:
    """Return the plan of a text that we wrote; raises RunnerError where the case is gone."""
    told: Mapping[str, Any] = json.loads(text)
    cell, own = told["cell"], told["places"]["own"]
    return Plan(
        places=Paths(root=Path(told["places"]["root"]), own=own),
        asked=TrialRequest(
            case=_read_case(told["case"], own=own),
            workaround=cell["workaround"],
            precision=Precision(cell["precision"]),
            device=Device(cell["device"]),
            **told["bad"],
        ),
        sides=tuple(map(_read_side, told["sides"])),
        sources=PackageSources(**told["sources"]),
        limits=Limits.model_validate(told["limits"]),
        run=told["run"],
        rerun=told["rerun"],
        again=told["again"],
        sandbox=told["sandbox"],
    )


def _read_case(told: Mapping[str, Any], *, own: bool) -> Case:
    path = Path(told["path"])
    return (
        load_script(path, told["where"]) if own else load_case(path, told["where"], told["extras"])
    )


def _read_side(told: Mapping[str, Any]) -> TrialSide:
    environment, built = told["environment"], told["built"]
    return TrialSide(
        environment=Environment(
            **{
                **environment,
                "source": Source(environment["source"]),
                "built": tuple(environment["built"]),
            }
        ),
        built=Built(
            name=built["name"],
            folder=Path(built["folder"]),
            python=Path(built["python"]),
            versions=built["versions"],
        ),
    )


def trial_line(trial: CommitTrial) -> str:
    """Return a trial as a line of a journal."""
    return json.dumps(asdict(trial)) + "\n"


def read_trials(journal: str) -> tuple[CommitTrial, ...]:
    """Return the trials of a journal; a line that is still being written is none."""
    *lines, _ = journal.split("\n")
    return tuple(
        CommitTrial(**{**told, "answer": Answer(told["answer"])}) for told in map(json.loads, lines)
    )


_NOT_IMPORTED = {"ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError"}
_LONG = 300
_WRAPPED = "Failed to import"
"""How transformers begins the message of whatever a module raised that it imported late."""


def attempt(plan: Plan, tree: Path, commit: str) -> CommitTrial:
    """Try a commit, in the next environment too where it cannot be imported in the first."""
    first: CommitTrial | None = None
    for side in plan.sides:
        trial, imported = _try_in(plan, side, tree, commit)
        if imported:
            return trial
        first = first or trial
    assert first is not None  # noqa: S101 - there is an environment to try it in
    return first


def _try_in(plan: Plan, side: TrialSide, tree: Path, commit: str) -> tuple[CommitTrial, bool]:
    """Return what a commit answered in one environment, and whether it could be imported there."""
    environment = _with(side.environment, plan.sources, tree, commit)
    where = CommitTrial(commit=commit, answer=Answer.UNKNOWN, environment=side.environment.name)
    case, device = plan.asked.case, plan.asked.device
    in_the_way = obstacles(case, environment, device)
    if in_the_way:
        return dataclasses.replace(where, reason="; ".join(in_the_way)), True
    try:
        seen, known = _seen(plan, side, environment, tree)
    except UnbuildableError as error:
        return dataclasses.replace(where, reason=str(error)), True
    package = plan.sources.package
    said = _said(plan.asked, seen, package)
    trial = dataclasses.replace(
        where,
        answer=said,
        reason=_reason(seen, package, said),
        version=seen.provenance.packages.get(package, ""),
        file=seen.provenance.imported.get(package, ""),
        known=known,
    )
    return trial, said is not Answer.UNKNOWN or not _is_unimportable(seen, package)


def _with(end: Environment, sources: PackageSources, tree: Path, commit: str) -> Environment:
    """Return an environment with a commit in the place of the release."""
    version = _claimed(tree / sources.init)
    others = {name: held for name, held in end.pins.items() if name != sources.package}
    own = {} if version is None else {sources.package: with_commit(version or "0", commit)}
    return dataclasses.replace(
        end,
        name=f"{end.name}@{commit[:12]}",
        source=Source.INTERPRETER,
        pins={**others, **own},
        stated_digest="",
    )


def _claimed(init: Path) -> str | None:
    try:
        return claimed_or_nothing(init.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def _seen(
    plan: Plan, side: TrialSide, environment: Environment, tree: Path
) -> tuple[Observation, bool]:
    """Return what was measured before, or measure it; raises UnbuildableError."""
    asked = plan.asked
    cell = Cell(asked.case.name, asked.workaround, environment.name, asked.precision, asked.device)
    with contextlib.closing(Store(plan.places.trials, lambda _: None)) as store:
        known = _known(store, cell, plan, environment)
        if known is not None and (known.repeats > 1 or not plan.again):
            return known, True
        ready = Ready(
            environment=environment,
            built=side.built,
            cells=(cell,),
            tree=Tree(
                package=plan.sources.package,
                path=tree / plan.sources.root,
                kept=plan.places.kept,
            ),
        )
        fork = not plan.again  # confirmed in a fresh process
        terms = Terms(
            run=plan.run,
            limits=plan.limits,
            device=asked.device,
            jobs=1,
            fork=fork,
            sandbox=plan.sandbox,
        )
        seen = measure(ready, {asked.case.name: asked.case}, terms)[0]
        store.put(seen if known is None else _confirmed(plan, known, seen))
    return seen, False


def _known(store: Store, cell: Cell, plan: Plan, environment: Environment) -> Observation | None:
    """Return the stored row that answers, as the case is now, and of this run if it must be."""
    rows = [
        row
        for row in store.rows({cell.case})
        if row.cell == cell and (not plan.rerun or row.provenance.run == plan.run)
    ]
    if not rows:
        return None
    found = answering_row(rows, lambda row: is_standing(row, plan.asked.case, environment))
    current = is_current(found, plan.asked.case, environment)
    return found if current and found.outcome.is_evidence else None


def _confirmed(plan: Plan, known: Observation, seen: Observation) -> Observation:
    """Return what is kept of a row and its repeat: unstable where the two contradict."""
    if seen.outcome.blames_machine:
        return known
    first, second = (_said(plan.asked, row, plan.sources.package) for row in (known, seen))
    if first is Answer.UNKNOWN:
        return dataclasses.replace(seen, repeats=2)
    unstable = agreed({known.cell: first}, known.cell, second)
    return dataclasses.replace(known, repeats=2, unstable=unstable is Answer.UNKNOWN)


def _said(asked: TrialRequest, seen: Observation, package: str) -> Answer:
    """Say what a commit answers; one that cannot be imported is never blamed.

    A pass of a case that never imported the package says nothing about it, nor does an end that
    may have come before it did.
    """
    passed_by = seen.outcome is Outcome.PASSES and package not in seen.provenance.imported
    if not seen.outcome.was_run or passed_by or _ended_before_import(seen, package):
        return Answer.UNKNOWN
    described = answer(asked.case, seen, signature=asked.signature)
    if described is not Answer.UNKNOWN or _is_unimportable(seen, package):
        return described
    return answer(asked.case, seen, any_failure=asked.any_failure, signature=asked.signature)


def _ended_before_import(seen: Observation, package: str) -> bool:
    """Say whether a cell was ended, and did not say before that it had imported the package."""
    ended = seen.outcome in {Outcome.CRASHES, Outcome.TIMES_OUT}
    return ended and package not in seen.provenance.imported


def _is_unimportable(seen: Observation, package: str) -> bool:
    """Say whether a failure happened while the package, or a part of it, was being imported."""
    if _ended_before_import(seen, package):
        return True
    failed = seen.failed
    if seen.outcome is not Outcome.FAILS or failed is None:
        return False
    inside = rf'File "(?:[^"]*/)?{re.escape(package)}/[^"]*", line \d+, in <module>'
    return (
        package not in seen.provenance.imported
        or failed.error_class in _NOT_IMPORTED
        or _WRAPPED in failed.message
        or re.search(inside, failed.traceback) is not None
    )


def _reason(seen: Observation, package: str, said: Answer) -> str:
    if _ended_before_import(seen, package):
        how = seen.failed.headline if seen.failed else seen.reason or "without a word"
        return f"{seen.outcome}, maybe while it imports {package}: {how}"
    if seen.unstable:
        return f"contradicts itself: {seen.failed.headline if seen.failed else seen.outcome}"
    if seen.failed is not None:
        if said is Answer.UNKNOWN and _is_unimportable(seen, package):
            # The first line of what a late import raises does not say why.
            why = " ".join(seen.failed.message.split())[:_LONG]
            return f"cannot be imported: {seen.failed.error_class}: {why}"
        return seen.failed.headline
    if said is Answer.UNKNOWN and seen.outcome is Outcome.PASSES:
        imported = package in seen.provenance.imported
        return "passes without computing" if imported else f"passes without importing {package}"
    return f"{seen.outcome}: {seen.reason}" if seen.reason else str(seen.outcome)
