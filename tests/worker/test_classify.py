"""How a process ended and what it reported, made into an outcome."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from repromatrix.runner.worker.cell_process import classify

NO_MEMORY = "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: 4 GB"

GPU_FULL = (
    "CUDA out of memory. Tried to allocate 20.00 MiB",
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
)


def _exited(code: int) -> int:
    """Return the wait status of a process that ended with a code."""
    return code << 8


def reported(code: int, error: str, message: str = "") -> dict[str, Any]:
    return {"exit": code, "error_class": error, "message": message}


def without(code: int) -> dict[str, Any]:
    message = f"the process ended with exit code {code} and without a report"
    return {"error_class": "MissingReport", "message": message}


@pytest.mark.parametrize(
    ("stopped", "status", "report", "outcome", "added"),
    [
        ("", 0, {"exit": 0}, "passes", {}),
        ("", 0, {"exit": False}, "passes", {}),
        ("", signal.SIGKILL, {"exit": 0}, "passes", {}),
        ("", 0, {"exit": None}, "fails", {}),
        ("", 0, reported(1, "ValueError", "x"), "fails", {}),
        ("", 0, reported(3, "SystemExit", "3"), "fails", {}),
        (
            "",
            0,
            reported(125, "SystemExit"),
            "declines",
            {"reason": "the case declines (exit 125)"},
        ),
        ("", 0, reported(1, "MemoryError"), "out-of-memory", {}),
        ("", 0, reported(1, "OutOfMemoryError"), "out-of-memory", {}),
        ("", 0, reported(1, "RuntimeError", NO_MEMORY), "out-of-memory", {}),
        *(("", 0, reported(1, "AcceleratorError", text), "out-of-memory", {}) for text in GPU_FULL),
        # With a core dump.
        (
            "",
            signal.SIGABRT | 0x80,
            None,
            "crashes",
            {"error_class": "SIGABRT", "message": "died by SIGABRT"},
        ),
        ("", _exited(0), None, "fails", without(0)),
        ("", _exited(3), None, "fails", without(3)),
        ("times-out", signal.SIGKILL, None, "times-out", {}),
        ("out-of-memory", signal.SIGKILL, None, "out-of-memory", {}),
        ("times-out", 0, {"exit": 0}, "times-out", {}),
    ],
)
def test_the_end_of_a_process_is_an_outcome(
    stopped: str, status: int, report: dict[str, Any] | None, outcome: str, added: dict[str, str]
) -> None:
    expected = {**(report or {}), "outcome": outcome, **added}

    assert classify(stopped, status, report) == expected


@pytest.mark.parametrize("number", [n for n in range(1, 65) if n not in {32, 33}])
def test_every_signal_is_a_crash_with_a_name(number: int) -> None:
    found = classify("", number, None)

    assert ("crashes", f"died by {found['error_class']}") == (found["outcome"], found["message"])
