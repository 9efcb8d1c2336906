"""The plain loop: one fresh interpreter per cell, as many at once as there are cores.

Reads a JSON list of commands on standard input; shares nothing with the runner.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ENVIRON = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
ENVIRON |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
ENVIRON |= {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}


def run(command: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            command, env=ENVIRON, cwd=folder, capture_output=True, check=False
        ).returncode


with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    print(list(pool.map(run, json.load(sys.stdin))))
