"""What a search asks of each commit, as values and as the JSON that stands between two processes.

`git bisect run` starts a process per commit; this is all that it is told, and all that it tells.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.corpus import load_case, load_script
from runner.environments.building import Built
from runner.history.sources import Sources
from runner.model.cell import Environment, Source
from runner.model.matrix import Limits
from runner.model.outcomes import Device, Precision
from runner.places import Places
from runner.searching.oracle import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.model.case import Case


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """The environment of one end, built."""

    environment: Environment
    built: Built


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
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

    places: Places
    asked: Asked
    sides: tuple[Side, ...]
    sources: Sources
    limits: Limits
    run: str
    rerun: bool = False
    again: bool = False
    sandbox: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
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


def _side(side: Side) -> dict[str, Any]:
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
        places=Places(root=Path(told["places"]["root"]), own=own),
        asked=Asked(
            case=_read_case(told["case"], own=own),
            workaround=cell["workaround"],
            precision=Precision(cell["precision"]),
            device=Device(cell["device"]),
            **told["bad"],
        ),
        sides=tuple(map(_read_side, told["sides"])),
        sources=Sources(**told["sources"]),
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


def _read_side(told: Mapping[str, Any]) -> Side:
    environment, built = told["environment"], told["built"]
    return Side(
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


def trial_line(trial: Trial) -> str:
    """Return a trial as a line of a journal."""
    return json.dumps(asdict(trial)) + "\n"


def read_trials(journal: str) -> tuple[Trial, ...]:
    """Return the trials of a journal; a line that is still being written is none."""
    *lines, _ = journal.split("\n")
    return tuple(
        Trial(**{**told, "answer": Answer(told["answer"])}) for told in map(json.loads, lines)
    )
