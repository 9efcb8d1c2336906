"""The environment variables of a zygote: what libraries read at import is set before it starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runner.model.outcomes import Device

if TYPE_CHECKING:
    from pathlib import Path

# Only these come from outside: no token, no proxy, no PYTHONPATH and no thread setting of the user.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT")
_KEPT_CUDA = ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES")


def surroundings(scratch: Path, device: Device, threads: int) -> dict[str, str]:
    """Return the whole environment of a zygote; `scratch` is its own folder for home and caches."""
    kept = (*_KEPT, *_KEPT_CUDA) if device is Device.CUDA else _KEPT
    count = str(threads)
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        **({} if device is Device.CUDA else {"CUDA_VISIBLE_DEVICES": ""}),
        "HOME": str(scratch / "home"),
        "HF_HOME": str(scratch / "hub"),
        "TMPDIR": str(scratch / "cells"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "NUMEXPR_NUM_THREADS": count,
    }
