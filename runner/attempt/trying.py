"""One commit, tried: its tree in front of an end's environment, run, stored, and judged."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from typing import TYPE_CHECKING

from runner.attempt.plan import Trial
from runner.engine.events import Ready, Terms, Tree
from runner.environments.building import UnbuildableError
from runner.environments.development import with_commit
from runner.evidence.store import Store
from runner.history.sources import claimed
from runner.judging.answers import answer
from runner.judging.currency import is_current
from runner.model.cell import Cell, Environment, Source, obstacles
from runner.model.outcomes import Outcome
from runner.searching.oracle import Answer, agreed
from runner.trials import measure

if TYPE_CHECKING:
    from pathlib import Path

    from runner.attempt.plan import Asked, Plan, Side
    from runner.history.sources import Sources
    from runner.model.observation import Observation

_NOT_IMPORTED = {"ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError"}
_LONG = 300
_WRAPPED = "Failed to import"
"""How transformers begins the message of whatever a module raised that it imported late."""


def attempt(plan: Plan, tree: Path, commit: str) -> Trial:
    """Try a commit, in the next environment too where it cannot be imported in the first."""
    first: Trial | None = None
    for side in plan.sides:
        trial, imported = _try_in(plan, side, tree, commit)
        if imported:
            return trial
        first = first or trial
    assert first is not None  # noqa: S101 - there is an environment to try it in
    return first


def _try_in(plan: Plan, side: Side, tree: Path, commit: str) -> tuple[Trial, bool]:
    """Return what a commit answered in one environment, and whether it could be imported there."""
    environment = _with(side.environment, plan.sources, tree, commit)
    where = Trial(commit=commit, answer=Answer.UNKNOWN, environment=side.environment.name)
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


def _with(end: Environment, sources: Sources, tree: Path, commit: str) -> Environment:
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
        return claimed(init.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def _seen(plan: Plan, side: Side, environment: Environment, tree: Path) -> tuple[Observation, bool]:
    """Return what was measured before, or measure it; raises UnbuildableError."""
    asked = plan.asked
    cell = Cell(asked.case.name, asked.workaround, environment.name, asked.precision, asked.device)
    with contextlib.closing(Store(plan.places.trials, lambda _: None)) as store:
        known = next((row for row in store.rows() if _is_known(row, cell, plan, environment)), None)
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


def _is_known(row: Observation, cell: Cell, plan: Plan, environment: Environment) -> bool:
    """Say whether a stored row answers: of this cell, as it is now, and of this run if it must."""
    return (
        row.cell == cell
        and is_current(row, plan.asked.case, environment)
        and not row.outcome.blames_machine
        and (not plan.rerun or row.provenance.run == plan.run)
    )


def _confirmed(plan: Plan, known: Observation, seen: Observation) -> Observation:
    """Return what is kept of a row and its repeat: unstable where the two contradict."""
    if seen.outcome.blames_machine:
        return known
    first, second = (_said(plan.asked, row, plan.sources.package) for row in (known, seen))
    if first is Answer.UNKNOWN:
        return dataclasses.replace(seen, repeats=2)
    unstable = agreed({known.cell: first}, known.cell, second)
    return dataclasses.replace(known, repeats=2, unstable=unstable is Answer.UNKNOWN)


def _said(asked: Asked, seen: Observation, package: str) -> Answer:
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
