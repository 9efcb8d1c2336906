"""The environment variables of a zygote: what libraries read at import is set before it starts."""

from __future__ import annotations

import os
from pathlib import Path

from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.worker.cell import THREADS

# Only these come from outside: no token, no proxy, no PYTHONPATH and no thread setting of the user.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT")
_KEPT_CUDA = ("CUDA_DEVICE_ORDER", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NO_GPU = {_VISIBLE: "", "HIP_VISIBLE_DEVICES": ""}


def surroundings(scratch: Path, device: Device, threads: int) -> dict[str, str]:
    """Return the whole environment of a zygote; `scratch` is its own folder for home and caches."""
    kept = (*_KEPT, *_KEPT_CUDA) if device is Device.CUDA else _KEPT
    count = str(threads)
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        **(_one_gpu() if device is Device.CUDA else _NO_GPU),
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
        **dict.fromkeys(THREADS, count),
    }


def _one_gpu() -> dict[str, str]:
    """Let a cell see one GPU, the first of the user's: a Trainer spreads over all that it sees."""
    return {_VISIBLE: os.environ.get(_VISIBLE, "0").partition(",")[0]}
