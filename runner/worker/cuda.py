"""CUDA in this process: once it is initialised, no fork of it can compute there any more."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_NOT_INITIALISED = 3
"""CUDA_ERROR_NOT_INITIALIZED of <cuda.h>."""
_DRIVER = "libcuda.so.1"


def is_initialised() -> bool:
    """Say whether CUDA was initialised in this process, by torch or by anybody else."""
    torch = sys.modules.get("torch")
    return (torch is not None and torch.cuda.is_initialized()) or _driver_is()


def _driver_is() -> bool:
    """Ask the driver's own library, if somebody has loaded it: loading it here says nothing."""
    with contextlib.suppress(OSError, AttributeError):
        driver = ctypes.CDLL(_DRIVER, mode=os.RTLD_NOLOAD)
        number = ctypes.c_int()
        return int(driver.cuDeviceGetCount(ctypes.byref(number))) != _NOT_INITIALISED
    return False
