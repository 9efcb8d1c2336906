"""The GPU that the cells of a zygote compute on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repromatrix.runner.environments.building import NoGpuBuildError
from repromatrix.runner.execution.observe import placeless
from repromatrix.runner.execution.worker_client import Worker
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.subprocesses import anonymous
from repromatrix.runner.worker import gpu_probe
from repromatrix.runner.worker.cell import Request

_SECONDS = 120.0
_REMEDY = "UV_TORCH_BACKEND=auto lets torch be built for this machine's driver"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """What the evidence of a GPU names as its machine."""

    name: str
    capability: str
    driver: str

    def __str__(self) -> str:
        """Return `NVIDIA H200, compute capability 9.0, driver 570.86.15`."""
        driver = self.driver or "unknown"
        return f"{self.name}, compute capability {self.capability}, driver {driver}"


def gpu(zygote: Worker, limits: Limits) -> Gpu:
    """Let a cell of a zygote say which GPU it computes on.

    Raises UnservedError with torch's reason, and ZygoteError when the zygote is lost over it.
    """
    answer = next(answer for _, answer in zygote.run([_request(limits)]))
    found = _said(answer)
    if found.keys() == {"name", "capability", "driver"}:
        return Gpu(**found)
    why = found.get("lacking") or f"asking torch for its GPU {answer['outcome']}: {_why(answer)}"
    told = anonymous(placeless(why, zygote.start.built.folder))
    mendable = "without CUDA" in told and zygote.start.built.torch is None
    raise NoGpuBuildError(f"{told}; {_REMEDY}" if mendable else told)


def _said(answer: dict[str, Any]) -> dict[str, str]:
    """Read what it ended with; nothing where it ended otherwise."""
    if answer.get("error_class") != "SystemExit":
        return {}
    found: dict[str, str] = json.loads(answer["message"])
    return found


def _why(answer: dict[str, Any]) -> str:
    if "error_class" in answer:
        return f"{answer['error_class']}: {answer.get('message', '')}"
    return "no answer"


def _request(limits: Limits) -> Request:
    return {
        "id": -1,
        "case": str(Path(gpu_probe.__file__)),
        "precision": "fp32",
        "workaround": "",
        "device": "cuda",
        "exercises": "compute",
        "fresh": False,
        "witness": False,
        "seconds": _SECONDS,
        "memory": limits.memory,
        "processes": limits.processes,
        "threads": 1,
        "front": None,
    }
