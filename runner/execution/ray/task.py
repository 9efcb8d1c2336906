"""A unit on a node: what our code needs is installed, then a process of its own runs the unit.

This part runs in Ray's worker, whose packages are the cluster's: it uses the standard library
alone. The process is ours: it has our pins, and what a case does cannot reach Ray.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from repromatrix.runner import subprocesses
from repromatrix.runner.execution.ray.messages import (
    Arrived,
    Broke,
    Heard,
    Message,
    Payload,
    Unfit,
    kind,
)

_GROUP = "node"
_BOOT = (
    "import sys; sys.path[:0] = sys.argv[1:3]; "
    "from repromatrix.runner.execution.ray.node import main; main()"
)
_INSTALLING = 600


class Given(TypedDict):
    """What a driver hands to a worker beside the archive."""

    parcel: bytes
    kind: Payload
    environ: dict[str, str]
    """Choices of the run that a node may have made otherwise: its own stand."""


class UnfitError(Exception):
    """This node cannot run our code; the text is the reason, without addresses and paths."""


def measure(root: Path, cache: Path, given: Given) -> Iterator[Message]:
    """Run a unit in a process of its own and yield what it says, as it says it."""
    yield Arrived(node=_node(), kind=str(kind()))
    try:
        _compare(given["kind"])
        packages = _installed(root, cache)
    except (UnfitError, OSError) as error:
        yield Unfit(reason=subprocesses.anonymous(str(error)))
        return
    command: list[str | Path] = [sys.executable, "-c", _BOOT, root, packages, str(os.getpid())]
    process = subprocesses.Answering(command, given["parcel"], _environ(cache, given["environ"]))
    with contextlib.closing(process):
        for chunk in process.chunks():
            yield Heard(chunk=chunk)
        failure = process.failure()
    if failure:
        yield Broke(reason=failure)


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _compare(wanted: Payload) -> None:
    here = kind()
    if here != wanted:
        msg = f"it is {here}; the run is for {wanted}"
        raise UnfitError(msg)


def _environ(cache: Path, chosen: dict[str, str]) -> dict[str, str]:
    """Return the environment of the process: what this node chose stands before the run's."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return {"REPROMATRIX_ENVIRONMENTS": str(cache / "environments"), **chosen, **kept}


def _installed(root: Path, cache: Path) -> Path:
    """Return the folder with the packages that our code needs, filled by this node's own pip.

    Raises UnfitError with the installer's reason.
    """
    groups = tomllib.loads((root / "pyproject.toml").read_text())["dependency-groups"]
    wanted = [str(one) for one in groups[_GROUP]]
    facts = "\n".join([str(kind()), *wanted])
    folder = cache / "packages" / hashlib.sha256(facts.encode()).hexdigest()[:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".making").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = folder.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            _install(wanted, fresh)
            fresh.replace(folder)
    return folder


def _install(wanted: list[str], folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocesses.finish([*pip, "--target", folder, *wanted], seconds=_INSTALLING)
    if done.code == 0:
        return
    uv = shutil.which("uv")
    if "No module named pip" in done.err and uv:
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable]
        done = subprocesses.finish([*command, "--target", folder, *wanted], seconds=_INSTALLING)
    if done.code != 0:
        reason = subprocesses.anonymous(" ".join(done.err.split()))[-300:]
        msg = f"{', '.join(wanted)} cannot be installed there: {reason}"
        raise UnfitError(msg)
