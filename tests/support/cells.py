"""Cells run by a worker of the real engine, with or without a sandbox."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repromatrix.runner.environments.building import Built
from repromatrix.runner.execution.worker_client import Start, Worker, WorkerError
from repromatrix.runner.model.outcomes import Device

LOST = -1
"""The number under which it is told that the worker was lost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """Where cells run: an interpreter."""

    built: Built

    @property
    def site_packages(self) -> Path:
        return next(self.built.folder.glob("lib/python3*/site-packages"))

    @property
    def library(self) -> Path:
        """Where the standard library lies, outside of the virtualenv; an environment has ours."""
        return Path(contextlib.__file__).parent


def here() -> Ground:
    """Return this interpreter: it starts at once."""
    built = Built(name="here", folder=Path(sys.prefix), python=Path(sys.executable), versions={})
    return Ground(built=built)


@contextlib.contextmanager
def worker(
    ground: Ground, cases: Sequence[Path], *, sandbox: bool, slots: int = 1
) -> Iterator[Worker]:
    start = Start(
        built=ground.built,
        device=Device.CPU,
        preload={"modules": [], "names": {}},
        fork=True,
        slots=slots,
        sandbox=sandbox,
        cases=tuple(cases),
    )
    with contextlib.closing(Worker(start)) as one:
        yield one


def case(folder: Path, *lines: str, name: str = "case") -> Path:
    """Write the file of a case."""
    path = folder / f"{name}.py"
    path.write_text("\n".join([*lines, ""]))
    return path


def request(path: Path, number: int = 0, **changed: object) -> dict[str, Any]:
    return {
        "id": number,
        "case": str(path),
        "precision": "fp32",
        "workaround": "",
        "device": "cpu",
        "environ": {"REPRO_DEVICE": "cpu", "REPRO_SEED": "0"},
        "exercises": "compute",
        "fresh": False,
        "witness": True,
        "seconds": 30,
        "memory": 2048,
        "disk": 4096,
        "processes": 512,
        "threads": 1,
        "front": None,
        **changed,
    }


def said(one: Worker, *requests: dict[str, Any], ahead: int | None = None) -> dict[int, Any]:
    """Return what the worker answers, by number; where it is lost, what is known by then."""
    answers: dict[int, Any] = {}
    try:
        for number, answer in one.run(requests, ahead):
            answers.setdefault(number, answer)
    except WorkerError as error:
        answers[LOST] = {"outcome": "lost", "message": str(error), "output": ""}
    return answers
