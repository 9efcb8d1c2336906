"""A unit on a node: install what our code needs, and run the unit in a process of its own.

This part runs in Ray's worker, whose packages are the cluster's: it uses the standard library
alone. The process is ours: it has our pins, and what a case does cannot reach Ray.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import signal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from repromatrix.runner import subprocesses

_GROUP = "node"
_BOOT = (
    "import sys; sys.path[:0] = sys.argv[1:3]; "
    "from repromatrix.runner.execution.ray.parcel import main; main()"
)
_INSTALLING = 600
_ROOT = Path(__file__).parents[4]
"""Where Ray has unpacked what was sent."""


def kind() -> str:
    """Return what a node must have in common with the driver: `linux x86_64, Python 3.11`.

    Their pins depend on it.
    """
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{sys.platform} {platform.machine()}, Python {python}"


class UnfitError(Exception):
    """This node cannot run our cells; the text is the reason, without addresses and paths."""


class BrokenError(Exception):
    """The node's own process ended before its work did; the text says how."""


def measure(
    parcel: bytes, wanted: str, environ: dict[str, str]
) -> Iterator[tuple[str, str] | bytes]:
    """Run a unit in a process of its own; yield node and kind, then its events as they come.

    `wanted` is the kind of node; `environ` are choices that a node may have made otherwise.
    Raises UnfitError and BrokenError.
    """
    import ray

    # Ray cancels a task as Ctrl-C does, and that is lost where the cluster was started with
    # SIGINT ignored: by a script's background job, by some CI. Every worker inherits it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    here = kind()
    yield str(ray.get_runtime_context().get_node_id()), here
    if here != wanted:
        msg = f"it is {here}; the run is for {wanted}"
        raise UnfitError(msg)
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    cache = Path(base) / "repromatrix"
    try:
        packages = installed(cache)
    except OSError as error:
        raise UnfitError(subprocesses.anonymous(str(error))) from None
    command: list[str | Path] = [sys.executable, "-c", _BOOT, _ROOT, packages, str(os.getpid())]
    # What this node chose stands before the run's.
    left_out = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    environ = {"REPROMATRIX_ENVIRONMENTS": str(cache / "environments"), **environ, **kept}
    with contextlib.closing(subprocesses.Answering(command, parcel, environ)) as process:
        yield from process.messages()
        failure = process.failure()
    if failure:
        raise BrokenError(failure)


def packages_of(root: Path, cache: Path) -> tuple[Path, list[str]]:
    """Return the folder for the packages that our code needs, and their requirements."""
    pyproject = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [str(group) for group in pyproject["dependency-groups"][_GROUP]]
    facts = "\n".join([kind(), *wanted])
    return cache / "packages" / hashlib.sha256(facts.encode()).hexdigest()[:16], wanted


def installed(cache: Path) -> Path:
    """Return the folder with the packages that our code needs, filled by this node's own pip.

    Raises UnfitError with the installer's reason.
    """
    folder, wanted = packages_of(_ROOT, cache)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".making").open("w", encoding="utf-8") as lock:
        if not subprocesses.lock(lock.fileno(), 2 * _INSTALLING):
            msg = f"another unit has been installing what our code needs for {2 * _INSTALLING} s"
            raise UnfitError(msg)
        if not folder.exists():
            fresh = folder.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            _install(wanted, fresh)
            fresh.replace(folder)
    return folder


def _install(wanted: list[str], folder: Path) -> None:
    tail: list[str | Path] = ["--target", folder, *wanted]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocesses.finish([*pip, *tail], seconds=_INSTALLING)
    if "No module named pip" in done.err and (uv := shutil.which("uv")):
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable]
        done = subprocesses.finish([*command, *tail], seconds=_INSTALLING)
    if done.code != 0:
        reason = subprocesses.anonymous(" ".join(done.err.split()))[-300:]
        msg = f"{', '.join(wanted)} cannot be installed there: {reason}"
        raise UnfitError(msg)
