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

from repromatrix.runner.bisect.oracle import CaseQuestion, why_unknown
from repromatrix.runner.bisect.repository import claimed_or_nothing
from repromatrix.runner.bisect.search import Answer, agreed
from repromatrix.runner.cases import load_case, load_script
from repromatrix.runner.environments.building import Built, UnbuildableError
from repromatrix.runner.environments.development import PackageSources, with_commit
from repromatrix.runner.evidence.answering import answering_row, is_standing
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Ready, Terms, Tree
from repromatrix.runner.execution.run import measure
from repromatrix.runner.judging.verdicts import is_current
from repromatrix.runner.model.cell import Cell, Environment, Source, obstacles
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.text import shorten


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialSide:
    """The environment of one end, built."""

    environment: Environment
    built: Built


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Everything that a trial of a commit needs; `sides` are tried in their order.

    With `rerun` only rows of this run count. With `again`, a commit that was measured once is run
    once more in a fresh process, to confirm its answer.
    """

    paths: Paths
    asked: CaseQuestion
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
    version: str = ""
    file: str = ""
    known: bool = False
    """Whether it had been run before."""
    reason: str = ""
    """What it did; why it could not be judged."""
    again: bool = False
    """Whether it was asked once more, to confirm what it had answered."""


_PLAIN = ("run", "rerun", "again", "sandbox")
"""Fields of a plan that JSON holds as they are."""


def written(plan: Plan) -> str:
    """Return a plan as JSON."""
    asked = plan.asked
    return json.dumps(
        {
            "places": {"root": str(plan.paths.root), "own": plan.paths.own},
            "case": {name: getattr(asked.case, name) for name in ("path", "where", "extras")},
            "cell": {name: getattr(asked, name) for name in ("workaround", "precision", "device")},
            "bad": {"any_failure": asked.any_failure, "signature": asked.signature},
            "sides": [asdict(side) for side in plan.sides],
            "sources": asdict(plan.sources),
            "limits": plan.limits.model_dump(),
            **{name: getattr(plan, name) for name in _PLAIN},
        },
        indent=1,
        default=str,  # a path
    )


def read(text: str) -> Plan:
    """Return the plan of a text that we wrote; raises RunnerError where the case is gone."""
    plan: Mapping[str, Any] = json.loads(text)
    case, cell, own = plan["case"], plan["cell"], plan["places"]["own"]
    path, where = Path(case["path"]), case["where"]
    return Plan(
        paths=Paths(root=Path(plan["places"]["root"]), own=own),
        asked=CaseQuestion(
            case=load_script(path, where) if own else load_case(path, where, case["extras"]),
            workaround=cell["workaround"],
            precision=Precision(cell["precision"]),
            device=Device(cell["device"]),
            **plan["bad"],
        ),
        sides=tuple(map(_read_side, plan["sides"])),
        sources=PackageSources(**plan["sources"]),
        limits=Limits.model_validate(plan["limits"]),
        **{name: plan[name] for name in _PLAIN},
    )


def _read_side(side: Mapping[str, Any]) -> TrialSide:
    environment, built = side["environment"], side["built"]
    folders = {key: built[key] and Path(built[key]) for key in ("folder", "python", "torch")}
    typed = {"source": Source(environment["source"]), "built": tuple(environment["built"])}
    return TrialSide(
        environment=Environment(**{**environment, **typed}), built=Built(**{**built, **folders})
    )


def trial_line(trial: CommitTrial) -> str:
    """Return a trial as a line of a journal."""
    return json.dumps(asdict(trial)) + "\n"


def read_trials(journal: str) -> tuple[CommitTrial, ...]:
    """Return the trials of a journal; a line that is still being written is none."""
    *lines, _ = journal.split("\n")
    return tuple(
        CommitTrial(**{**trial, "answer": Answer(trial["answer"])})
        for trial in map(json.loads, lines)
    )


_NOT_IMPORTED = {"ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError"}
_LONG = 300
_WRAPPED = "Failed to import"
"""How transformers begins the message of whatever a module raised that it imported late."""


def attempt(plan: Plan, tree: Path, commit: str) -> CommitTrial:
    """Try a commit, in the next environment too where it cannot be imported in the first."""
    trials: list[CommitTrial] = []
    for side in plan.sides:
        trial, imported = _try_in(plan, side, tree, commit)
        if imported:
            return trial
        trials.append(trial)
    return trials[0]


def _try_in(plan: Plan, side: TrialSide, tree: Path, commit: str) -> tuple[CommitTrial, bool]:
    """Return what a commit answered in one environment, and whether it could be imported there."""
    environment = _with(side.environment, plan.sources, tree, commit)
    where = CommitTrial(commit=commit, answer=Answer.UNKNOWN, environment=side.environment.name)
    case, device = plan.asked.case, plan.asked.device
    if reasons := obstacles(case, environment, device):
        return dataclasses.replace(where, reason="; ".join(reasons)), True
    try:
        row, known = _measured(plan, side, environment, tree)
    except UnbuildableError as error:
        return dataclasses.replace(where, reason=str(error)), True
    package = plan.sources.package
    bad = _answer(plan.asked, row, package)
    trial = dataclasses.replace(
        where,
        answer=bad,
        reason=_reason(row, package, bad),
        version=row.provenance.packages.get(package, ""),
        file=row.provenance.imported.get(package, ""),
        known=known,
    )
    return trial, bad is not Answer.UNKNOWN or not _is_unimportable(row, package)


def _with(end: Environment, sources: PackageSources, tree: Path, commit: str) -> Environment:
    """Return an environment with a commit in the place of the release."""
    pins = {name: version for name, version in end.pins.items() if name != sources.package}
    with contextlib.suppress(OSError):
        init = (tree / sources.init).read_text(encoding="utf-8", errors="replace")
        pins[sources.package] = with_commit(claimed_or_nothing(init) or "0", commit)
    return dataclasses.replace(
        end,
        name=f"{end.name}@{commit[:12]}",
        source=Source.INTERPRETER,
        pins=pins,
        stated_digest="",
    )


def _measured(
    plan: Plan, side: TrialSide, environment: Environment, tree: Path
) -> tuple[Observation, bool]:
    """Return the row, and whether it was stored before; raises UnbuildableError."""
    asked = plan.asked
    cell = asked.cell(environment.name)
    with contextlib.closing(Store(plan.paths.trials, lambda _: None)) as store:
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
                kept=plan.paths.kept,
            ),
        )
        terms = Terms(
            run=plan.run,
            limits=plan.limits,
            device=asked.device,
            jobs=1,
            fork=not plan.again,  # confirmed in a fresh process
            sandbox=plan.sandbox,
        )
        row = measure(ready, {asked.case.name: asked.case}, terms)[0]
        store.put(row if known is None else _confirmed(plan, known, row))
    return row, False


def _known(store: Store, cell: Cell, plan: Plan, environment: Environment) -> Observation | None:
    """Return the stored row of today's case that answers; with `rerun`, only one of this run."""
    rows = [
        row
        for row in store.rows({cell.case})
        if row.cell == cell and (not plan.rerun or row.provenance.run == plan.run)
    ]
    if not rows:
        return None
    case = plan.asked.case
    row = answering_row(rows, lambda row: is_standing(row, case, environment))
    return row if is_current(row, case, environment) and row.outcome.is_evidence else None


def _confirmed(plan: Plan, known: Observation, repeat: Observation) -> Observation:
    """Return what is stored of a row and its repeat: unstable where the two contradict."""
    if repeat.outcome.blames_machine:
        return known
    first, second = (_answer(plan.asked, row, plan.sources.package) for row in (known, repeat))
    if first is Answer.UNKNOWN:
        return dataclasses.replace(repeat, repeats=2)
    unstable = agreed({known.cell: first}, known.cell, second)
    return dataclasses.replace(known, repeats=2, unstable=unstable is Answer.UNKNOWN)


def _answer(asked: CaseQuestion, row: Observation, package: str) -> Answer:
    """Say whether a commit is bad; one that cannot be imported is never blamed.

    A pass without importing the package says nothing about it, nor does a process that ended
    before it reported the import.
    """
    passed_by = row.outcome is Outcome.PASSES and package not in row.provenance.imported
    if not row.outcome.was_run or passed_by or _ended_before_import(row, package):
        return Answer.UNKNOWN
    described = dataclasses.replace(asked, any_failure=False).answer(row)
    if described is not Answer.UNKNOWN or _is_unimportable(row, package):
        return described
    return asked.answer(row)


def _ended_before_import(row: Observation, package: str) -> bool:
    """Say whether the process was ended, by a crash or a time limit, before it reported imports."""
    ended = row.outcome.is_failure and row.outcome is not Outcome.FAILS
    return ended and package not in row.provenance.imported


def _is_unimportable(row: Observation, package: str) -> bool:
    """Say whether a failure happened while the package, or a part of it, was being imported."""
    if _ended_before_import(row, package):
        return True
    failed = row.failed
    if row.outcome is not Outcome.FAILS or failed is None:
        return False
    inside = rf'File "(?:[^"]*/)?{re.escape(package)}/[^"]*", line \d+, in <module>'
    return (
        package not in row.provenance.imported
        or failed.error_class in _NOT_IMPORTED
        or _WRAPPED in failed.message
        or re.search(inside, failed.traceback) is not None
    )


def _reason(row: Observation, package: str, bad: Answer) -> str:
    """Say what a commit did, or why it could not be judged."""
    if bad is not Answer.UNKNOWN:
        return row.headline
    if _ended_before_import(row, package):
        return f"{row.described}, maybe while importing {package}"
    if row.unstable:
        return why_unknown(row)
    if row.failed is not None and _is_unimportable(row, package):
        # The first line of what a late import raises does not say why.
        why = shorten(row.failed.message, _LONG)
        return f"cannot be imported: {row.failed.error_class}: {why}"
    if row.outcome is Outcome.PASSES and package not in row.provenance.imported:
        return f"passes without importing {package}"
    return why_unknown(row)
