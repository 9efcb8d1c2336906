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


@pytest.mark.parametrize(
    ("stopped", "status", "report", "expected"),
    [
        ("", 0, {"exit": 0}, {"exit": 0, "outcome": "passes"}),
        (
            "",
            0,
            {"exit": 1, "error_class": "ValueError", "message": "x"},
            {"exit": 1, "error_class": "ValueError", "message": "x", "outcome": "fails"},
        ),
        (
            "",
            0,
            {"exit": 3, "error_class": "SystemExit", "message": "3"},
            {"exit": 3, "error_class": "SystemExit", "message": "3", "outcome": "fails"},
        ),
        (
            "",
            0,
            {"exit": 125, "error_class": "SystemExit"},
            {
                "exit": 125,
                "error_class": "SystemExit",
                "outcome": "declines",
                "reason": "the case declines (exit 125)",
            },
        ),
        (
            "",
            0,
            {"exit": 1, "error_class": "MemoryError"},
            {"exit": 1, "error_class": "MemoryError", "outcome": "out-of-memory"},
        ),
        (
            "",
            0,
            {"exit": 1, "error_class": "OutOfMemoryError"},
            {"exit": 1, "error_class": "OutOfMemoryError", "outcome": "out-of-memory"},
        ),
        (
            "",
            0,
            {"exit": 1, "error_class": "RuntimeError", "message": NO_MEMORY},
            {
                "exit": 1,
                "error_class": "RuntimeError",
                "message": NO_MEMORY,
                "outcome": "out-of-memory",
            },
        ),
        *(
            (
                "",
                0,
                {"exit": 1, "error_class": "AcceleratorError", "message": text},
                {
                    "exit": 1,
                    "error_class": "AcceleratorError",
                    "message": text,
                    "outcome": "out-of-memory",
                },
            )
            for text in GPU_FULL
        ),
        (
            "",
            signal.SIGSEGV,
            None,
            {"outcome": "crashes", "error_class": "SIGSEGV", "message": "died by SIGSEGV"},
        ),
        (
            "",
            signal.SIGABRT | 0x80,  # with a core dump
            None,
            {"outcome": "crashes", "error_class": "SIGABRT", "message": "died by SIGABRT"},
        ),
        (
            "",
            _exited(0),
            None,
            {
                "outcome": "fails",
                "error_class": "MissingReport",
                "message": "the process ended with exit code 0 and without a report",
            },
        ),
        (
            "",
            _exited(3),
            None,
            {
                "outcome": "fails",
                "error_class": "MissingReport",
                "message": "the process ended with exit code 3 and without a report",
            },
        ),
        ("times-out", signal.SIGKILL, None, {"outcome": "times-out"}),
        ("out-of-memory", signal.SIGKILL, None, {"outcome": "out-of-memory"}),
        ("times-out", 0, {"exit": 0}, {"exit": 0, "outcome": "times-out"}),
    ],
)
def test_the_end_of_a_process_is_an_outcome(
    stopped: str, status: int, report: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    assert expected == classify(stopped, status, report)


@pytest.mark.parametrize("number", [n for n in range(1, 65) if n not in {32, 33}])
def test_every_signal_is_a_crash_with_a_name(number: int) -> None:
    found = classify("", number, None)

    assert ("crashes", f"died by {found['error_class']}") == (found["outcome"], found["message"])
