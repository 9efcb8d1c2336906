"""Which files a case really imports. Run by the python of an environment: requests as JSON on
standard input; per case a line of JSON, from each file's place below site-packages to its digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import sys
import types
from pathlib import Path

ASKED = json.load(sys.stdin)


def main() -> None:
    """Import once what the cases take, then fork for each of them."""
    for module in ASKED["preload"]["modules"]:
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:  # as in a worker: this release does not have it
            continue
        for name in ASKED["preload"]["names"].get(module, []):
            getattr(found, name, None)
    importlib.import_module("torch").set_num_threads(1)
    for case in ASKED["cases"]:
        child = os.fork()
        if not child:
            try:
                os.chdir(ASKED["folder"])
                report(case)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def report(case: str) -> None:
    """Run a case and write down what it had imported in the end."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.argv = [case, "fp32"]
    module = types.ModuleType("__main__")
    module.__file__ = case
    with contextlib.suppress(BaseException):
        code = compile(Path(case).read_bytes(), case, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - running the case is the purpose
    line = {"case": case, "files": dict(files())}
    with Path(ASKED["answers"]).open("a") as answers:
        answers.write(json.dumps(line) + "\n")


def files() -> list[tuple[str, str]]:
    """Return the files of transformers that are loaded, each with the digest of its content."""
    found = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name.partition(".")[0] == "transformers" and path and Path(path).is_file():
            content = Path(path).read_bytes()
            place = str(path).rpartition("site-packages/")[2]
            found.append((place, hashlib.sha256(content).hexdigest()[:16]))
    return found


main()
