"""All cells in one warm process, as a plain pytest run has them: nothing is isolated.

Run by pytest under the python of an environment; appends a line of JSON per cell.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
import types
from pathlib import Path

import pytest

ASKED = json.loads(Path(os.environ["BENCH_ASKED"]).read_text())
for module in ASKED["preload"]["modules"]:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:  # as in a worker: this release does not have it
        continue
    for name in ASKED["preload"]["names"].get(module, []):
        getattr(found, name, None)
importlib.import_module("torch").set_num_threads(1)


@pytest.mark.parametrize("number", range(len(ASKED["cells"])))
def test_cell(number: int) -> None:
    asked = ASKED["cells"][number]
    began = time.time()
    begin = time.perf_counter()
    with contextlib.suppress(BaseException):  # what it does is not the question here
        run(asked)
    seconds = time.perf_counter() - begin
    with Path(ASKED["answers"]).open("a") as file:
        line = {"began": began, "seconds": seconds, "ended": time.time()}
        file.write(json.dumps(line) + "\n")


def run(asked: dict[str, str]) -> None:
    sys.argv = [asked["case"], asked["precision"], *filter(None, [asked["workaround"]])]
    module = types.ModuleType("__main__")
    module.__file__ = asked["case"]
    code = compile(Path(asked["case"]).read_bytes(), asked["case"], "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - running the case is the purpose
