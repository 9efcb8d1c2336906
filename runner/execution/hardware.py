"""The class of hardware that a cell ran on: enough to compare, nothing that names a machine."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from repromatrix.runner.environments import uv
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.model.outcomes import Device

# What decides how bf16 and fp16 are computed on a CPU.
_TELLING = (
    *("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16"),
    *("asimd", "bf16", "sve"),
)
# A container may show only the last two, the second under WSL.
_DRIVERS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_cuda() -> bool:
    """Say whether an NVIDIA driver is loaded, without asking CUDA for anything."""
    return any(map(os.path.exists, _DRIVERS))


def demand(device: Device) -> None:
    """Raise RunnerError for a device that this machine does not have.

    Where it has it, torch is built for it, unless the user chose a build.
    """
    if device is not Device.CUDA:
        return
    if not has_cuda():
        what = "this machine has no NVIDIA driver loaded, which cuda needs"
        raise refuse(Problem("--device", what, "Use --device cpu."))
    uv.serve_gpu()


@functools.cache
def hardware() -> str:
    """Return the processor's architecture and the extensions that matter, `x86_64 avx2 avx512f`."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    flags = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    present = set(flags.partition(":")[2].split())
    return " ".join([platform.machine(), *(flag for flag in _TELLING if flag in present)])
