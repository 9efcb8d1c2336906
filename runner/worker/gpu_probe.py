"""Says on which GPU torch computes here, and if on none, why not.

Run like a case, in a process of its own: who asks torch this can fork nothing that computes there.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
from pathlib import Path

_MODULE = Path("/proc/driver/nvidia/version")
_LENGTH = 80


def device() -> dict[str, str]:
    """Return name, compute capability and driver of the GPU, or what is lacking."""
    import torch  # noqa: PLC0415 - only the environment has it

    if torch.version.cuda is None:
        return {"lacking": f"torch {torch.__version__} is built without CUDA"}
    try:
        torch.cuda.init()
        found = torch.cuda.get_device_properties(0)
        # A torch that is built for other GPUs says so only when it computes.
        torch.ones(1, device="cuda").add(1).item()
    except Exception as error:  # noqa: BLE001 - whatever torch says is the reason
        return {"lacking": f"torch {torch.__version__}: {' '.join(str(error).split())}"}
    capability = f"{found.major}.{found.minor}"
    return {"name": str(found.name), "capability": capability, "driver": driver()}


def driver() -> str:
    """Return the version of the NVIDIA driver, or nothing where it cannot be known."""
    with contextlib.suppress(OSError):
        told = re.search(r"Kernel Module\D*?\s(\d+(?:\.\d+)+)", _MODULE.read_text(encoding="utf-8"))
        if told:
            return told[1]
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(_LENGTH)
        if not library.nvmlInit_v2() and not library.nvmlSystemGetDriverVersion(text, _LENGTH):
            return text.value.decode(errors="replace")
    return ""


if __name__ == "__main__":
    raise SystemExit(json.dumps(device()))  # what a case ends with is reported, whatever is printed
