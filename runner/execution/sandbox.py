"""The outer sandbox of a worker, made by bubblewrap: what its cells can see of this machine."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repromatrix.runner import subprocesses
from repromatrix.runner.environments.building import Built
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import CODE, IMPORTED, ROOT
from repromatrix.runner.tempdirs import scratch
from repromatrix.runner.worker.main import BOOT
from repromatrix.runner.worker.overlay import Overlay

_PROGRAM = "bwrap"
_SYSTEM = ("bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr")
_ALSO = ("/nix/store", "/gnu/store", "/etc/alternatives", "/etc/fonts", "/etc/ssl/certs")
# Files of /etc that programs read; none of them holds a secret.
_SETTINGS = (
    *("group", "host.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("mime.types", "nsswitch.conf", "os-release", "passwd", "protocols", "services", "timezone"),
)
_FRESH = ("/tmp", "/dev/shm")  # noqa: S108 - made anew in the sandbox
_GPU = (
    *("nvidia-caps", "nvidia-uvm", "nvidia-uvm-tools", "nvidiactl"),
    *(f"nvidia{n}" for n in range(16)),
)

# Where an interpreter's code lies: its own, and what an editable install points to.
_ASK = """
import json, os, sys, sysconfig, urllib.parse
from importlib import metadata
found = [sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *sys.path]
for one in metadata.distributions():
    about = json.loads(one.read_text("direct_url.json") or "{}")
    if about.get("dir_info", {}).get("editable"):
        found.append(urllib.parse.unquote(urllib.parse.urlparse(about["url"]).path))
print(json.dumps([path for path in found if path and os.path.exists(path)]))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisiblePaths:
    """What a worker can see beside the system, and which of it it may write."""

    scratch: Path
    read: tuple[Path, ...]
    kept: tuple[Path, ...]
    device: Device
    link: Path | None = None
    """What in the worker's own folder leads to the environment."""

    @property
    def request(self) -> dict[str, Any]:
        """Return what the worker must know to put its cells into a sandbox."""
        hidden = tuple(f"{folder}/" for folder in (*_FRESH, self.scratch))
        link = [str(self.link)] if self.link else []
        shown = [path for path in _named((*self.read, *self.kept)) if path.startswith(hidden)]
        return {
            "scratch": str(self.scratch),
            "shown": [*shown, *link],
            "kept": [*_named(self.kept), *link],
        }

    def command(self) -> list[str]:
        """Return how bubblewrap is started; the program to run comes behind it."""
        devices = [f"/dev/{name}" for name in (_GPU if self.device is Device.CUDA else ())]
        gpu = [word for path in devices for word in ("--dev-bind-try", path, path)]
        return [
            *(_PROGRAM, "--unshare-user", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
            *("--unshare-cgroup-try", "--die-with-parent", *_system()),
            *("--ro-bind", "/proc", "/proc", "--ro-bind", "/sys", "/sys", "--dev", "/dev"),
            *gpu,
            *("--remount-ro", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp"),  # noqa: S108
            *_bound("--ro-bind", self.read),
            *_bound("--bind", (*self.kept, self.scratch)),
            *("--chdir", str(self.scratch), "--remount-ro", "/"),
        ]


def _system() -> Iterator[str]:
    for name in _SYSTEM:
        path = Path("/") / name
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.exists():
            yield from ("--ro-bind", str(path), str(path))
    for file in (*_ALSO, *(f"/etc/{name}" for name in _SETTINGS)):
        yield from ("--ro-bind-try", file, file)


def _bound(how: str, paths: Iterable[Path]) -> Iterator[str]:
    for path in _named(paths):
        if not f"{path}/".startswith(tuple(f"/{name}/" for name in _SYSTEM)):
            yield from (how, path, path)


def _named(paths: Iterable[Path]) -> list[str]:
    return sorted({str(way) for path in paths for way in _ways(path)})


def _ways(path: Path) -> set[Path]:
    """Return a path as it is called and as it is."""
    return {path.absolute(), path.resolve()}


def shown(
    built: Built,
    cases: Iterable[Path],
    front: Overlay | None,
    scratch: Path,
    device: Device,
) -> VisiblePaths:
    """Return what the worker of an environment is to see; raises RunnerError for a dead python.

    What the environment or a tree keeps compiled is written by the worker, never by a cell.
    """
    corpus = ROOT / "cases"
    files = {corpus if path.parent == corpus else path for path in cases}
    libraries = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    seen = [*reads(built.python), IMPORTED / "repromatrix", CODE, *files, *map(Path, libraries)]
    kept = [built.folder]
    if front is not None:
        seen.append(Path(front["path"]))
        kept.append(Path(front["kept"]))
        kept[-1].mkdir(parents=True, exist_ok=True)
    above = {one for path in kept for one in _ways(path)}
    read = []
    for path in sorted({*seen}):
        inside = any(way.is_relative_to(folder) for way in _ways(path) for folder in above)
        if path.exists() and not inside:
            read.append(path)
            above.add(path)
    return VisiblePaths(scratch=scratch, read=tuple(read), kept=tuple(kept), device=device)


@functools.cache
def reads(python: Path) -> tuple[Path, ...]:
    """Return where an interpreter and its packages lie; raises RunnerError where it is dead."""
    done = subprocesses.finish([python, "-I", "-c", _ASK], seconds=60)  # as a worker is started
    if done.code != 0:
        last = (done.err.strip().splitlines() or ["it says nothing"])[-1]
        raise refuse(Problem(str(python), f"it cannot be started ({last})"))
    return (*_links(python), *map(Path, json.loads(done.out)))


def _links(path: Path) -> Iterator[Path]:
    while True:
        yield path.parent
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()


@functools.cache
def trouble() -> str:
    """Return why cells cannot run in a sandbox on this machine; nothing where they can."""
    if sys.platform != "linux":
        return "it needs Linux"
    if shutil.which(_PROGRAM) is None:
        return f"bubblewrap ({_PROGRAM}) is not installed"
    with scratch() as folder, own_proc() as number:
        here = Built(name="", folder=Path(sys.prefix), python=Path(sys.executable), versions={})
        seen = shown(here, (), None, folder, Device.CPU)
        told = json.dumps({**seen.request, "kept": [], "proc": number})
        command = [*seen.command(), sys.executable, "-c", BOOT, str(IMPORTED), "sandbox", told]
        done = subprocesses.finish(command, seconds=30, inherited=[number])
    said = [line for line in done.err.strip().splitlines() if line]
    return "" if done.code == 0 else str(said[-1] if said else "it does not start")


@contextlib.contextmanager
def own_proc() -> Iterator[int]:
    """Yield a descriptor of /proc, by which a worker says who it is; it sees only a copy."""
    number = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield number
    finally:
        os.close(number)
