# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A case that looks at all that it was given"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""A case finds what every other finds, whatever those did."""

import builtins
import json
import locale
import os
import resource
import signal
import sys
import threading
import zlib
from pathlib import Path

import torch
import torch._dynamo  # what is prepared for one is there for all: under a witness it is needed

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]


def number(found: object) -> int:
    """Return a number that stands for something, less the folders of the cell and of its run."""
    text = repr(found)
    for folder in (Path.cwd(), Path.cwd().parents[1]):
        text = text.replace(str(folder), "")
    return zlib.crc32(text.encode())


ones = torch.ones(3, dtype=DTYPES[sys.argv[1]])
assert (ones + ones).sum().item() == 6.0

umask = os.umask(0)
os.umask(umask)
measured = {
    "environment": number(sorted(os.environ.items())),
    "umask": umask,
    "nice": os.nice(0),
    "locale": number(locale.setlocale(locale.LC_ALL)),
    "limits": number([(name, resource.getrlimit(getattr(resource, name))) for name in LIMITS]),
    "handlers": number([(one.name, signal.getsignal(one)) for one in signal.Signals]),
    "blocked": number(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))),
    "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
    "threads": threading.active_count(),
    "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
    "path": number(sys.path),
    "recursion": sys.getrecursionlimit(),
    "folder": len(list(Path().iterdir())),
    "home": len([*Path(os.environ["HOME"]).iterdir(), *Path(os.environ["HF_HOME"]).iterdir()]),
    "names": number(sorted(vars(builtins))),
    "json": number(json.dumps({"a": [1, None, "b"]})),
    "dtype": number(torch.get_default_dtype()),
    "device": number(torch.get_default_device()),
    "gradient": torch.is_grad_enabled(),
    "torch-threads": torch.get_num_threads(),
}
