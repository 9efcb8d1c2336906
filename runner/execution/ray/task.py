"""A unit on a node: install what our code needs, and run the unit in a process of its own.

This part runs in Ray's worker, whose packages are the cluster's: it uses the standard library
alone. The process is ours: it has our pins, and what a case does cannot reach Ray. What the node
reports comes to the driver as messages, with events as length-prefixed bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import platform
import shutil
import struct
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.runner import subprocesses

if TYPE_CHECKING:  # a worker of the cluster has the standard library alone
    from repromatrix.runner.execution.events import Event

_GROUP = "node"
_BOOT = (
    "import sys; sys.path[:0] = sys.argv[1:3]; "
    "from repromatrix.runner.execution.ray.parcel import main; main()"
)
_INSTALLING = 600


def kind() -> str:
    """Return what a node must have in common with the driver: `linux x86_64, Python 3.11`.

    Their pins depend on it.
    """
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{sys.platform} {platform.machine()}, Python {python}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrived:
    """A unit has begun on a node."""

    node: str
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfit:
    """The node can run nothing of ours, for a reason."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Broke:
    """The node's own process ended before its work did."""

    reason: str


Message = Arrived | bytes | Unfit | Broke
"""Bytes are some of what the node's own process said."""


_LENGTH = struct.Struct(">I")


def framed(event: Event) -> bytes:
    """Return an event as bytes that tell their own length."""
    content = pickle.dumps(event)
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Bytes put together to events again."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.rest = b""

    def add(self, content: bytes) -> Iterator[Event]:
        """Yield the events that are whole by now."""
        self.rest += content
        while len(self.rest) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self.rest)
            end = _LENGTH.size + length
            if len(self.rest) < end:
                return
            event: Event = pickle.loads(self.rest[_LENGTH.size : end])  # noqa: S301 - our own node
            self.rest = self.rest[end:]
            yield event


class UnfitError(Exception):
    """This node cannot run our code; the text is the reason, without addresses and paths."""


def measure(
    root: Path, cache: Path, parcel: bytes, wanted: str, environ: dict[str, str]
) -> Iterator[Message]:
    """Run a unit in a process of its own and yield what it says, as it says it.

    `wanted` is the kind of node; `environ` are choices that a node may have made otherwise.
    """
    import ray

    here = kind()
    yield Arrived(node=str(ray.get_runtime_context().get_node_id()), kind=here)
    if here != wanted:
        yield Unfit(reason=f"it is {here}; the run is for {wanted}")
        return
    try:
        packages = _installed(root, cache)
    except (UnfitError, OSError) as error:
        yield Unfit(reason=subprocesses.anonymous(str(error)))
        return
    command: list[str | Path] = [sys.executable, "-c", _BOOT, root, packages, str(os.getpid())]
    # What this node chose stands before the run's.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    environ = {"REPROMATRIX_ENVIRONMENTS": str(cache / "environments"), **environ, **kept}
    process = subprocesses.Answering(command, parcel, environ)
    with contextlib.closing(process):
        yield from process.chunks()
        failure = process.failure()
    if failure:
        yield Broke(reason=failure)


def packages_of(root: Path, cache: Path) -> tuple[Path, list[str]]:
    """Return the folder for the packages that our code needs, and their requirements."""
    groups = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))[
        "dependency-groups"
    ]
    wanted = [str(group) for group in groups[_GROUP]]
    facts = "\n".join([kind(), *wanted])
    return cache / "packages" / hashlib.sha256(facts.encode()).hexdigest()[:16], wanted


def _installed(root: Path, cache: Path) -> Path:
    """Return the folder with the packages that our code needs, filled by this node's own pip.

    Raises UnfitError with the installer's reason.
    """
    folder, wanted = packages_of(root, cache)
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
