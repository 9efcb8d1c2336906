"""How a cell ended: what its process and its report make of it."""

from __future__ import annotations

import os
import signal
from typing import Any

_DECLINED = 125
CROWD = "crowd"
_CROWDED = {
    "outcome": "crashes",
    "error_class": "TooManyProcesses",
    "message": "more processes and threads at once than a cell may have",
}
# Class names by which Python and torch say that memory ran out.
_MEMORY = frozenset({"MemoryError", "OutOfMemoryError"})
# What else torch says of it, under the names of other errors.
_OUT_OF_MEMORY = (
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


def classify(stopped: str, status: int, report: dict[str, Any] | None) -> dict[str, Any]:
    """Turn how a process ended and what it reported into an outcome."""
    found = report or {}
    if stopped:
        return {**found, **(_CROWDED if stopped == CROWD else {"outcome": stopped})}
    if report is None:
        return _without_report(status)
    if "walls" in found:
        reason = f"its sandbox cannot be made: {found['walls']}"
        return {"outcome": "not-run", "reason": reason}
    if found.get("exit") == 0:
        return {**found, "outcome": "passes"}
    if found.get("exit") == _DECLINED:
        return {**found, "outcome": "declines", "reason": "the case declines (exit 125)"}
    return {**found, "outcome": "out-of-memory" if _lacked_memory(found) else "fails"}


def _lacked_memory(report: dict[str, Any]) -> bool:
    said = report.get("message", "")
    return report.get("error_class") in _MEMORY or any(text in said for text in _OUT_OF_MEMORY)


def _without_report(status: int) -> dict[str, Any]:
    if os.WIFSIGNALED(status):
        name = _signal_name(os.WTERMSIG(status))
        return {"outcome": "crashes", "error_class": name, "message": f"died by {name}"}
    code = os.WEXITSTATUS(status)
    message = f"the process ended with exit code {code} and without a report"
    return {"outcome": "fails", "error_class": "MissingReport", "message": message}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return f"signal {number}"
