"""Measure with the torch of this machine: `python run.py --device cuda`.

Standard library only until it is certain that this is the machine that the bundle was made for,
and such that the oldest `python3` of a cluster can read it and say what it lacks.
"""

import importlib.util
import json
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def main() -> int:
    """Run what was asked for and return the exit code."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - any Python runs it
    with open(os.path.join(here, "manifest.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
        wanted = json.load(file)
    wrong = strange(wanted)
    if wrong:
        sys.stderr.write(f"This bundle was made for another machine: {'; '.join(wrong)}.\n")
        return 2
    sys.path[:0] = [here, os.path.join(here, "tools")]  # noqa: PTH118
    # Its packages lie in the bundle.
    from repromatrix.tools.bundle.measure import measure  # noqa: PLC0415

    return measure(here, sys.argv[1:])


def strange(wanted: "Mapping[str, Any]") -> "list[str]":
    """Name what of this machine is not what a bundle was made for."""
    library, version = platform.libc_ver()
    here: dict[str, Any] = {
        "python": list(sys.version_info[:2]),
        "machine": platform.machine(),
        "glibc": [int(part) for part in version.split(".")[:2]] if library == "glibc" else [0, 0],
    }
    wrong = []
    if sys.platform != "linux":
        wrong.append(f"it needs linux, this is {sys.platform}")
    if here["python"] != wanted["python"]:
        wrong.append(
            f"it needs Python {_dotted(wanted['python'])}, this is {_dotted(here['python'])}"
        )
    if here["machine"] != wanted["machine"]:
        wrong.append(f"it needs {wanted['machine']}, this is {here['machine']}")
    if here["glibc"] < wanted["glibc"]:
        needed, found = _dotted(wanted["glibc"]), _dotted(here["glibc"])
        wrong.append(f"it needs glibc {needed} or newer, this has {found}")
    if importlib.util.find_spec("torch") is None:
        wrong.append(f"it needs torch, which {sys.executable} does not have")
    return wrong


def _dotted(version: "Sequence[int]") -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    sys.exit(main())
