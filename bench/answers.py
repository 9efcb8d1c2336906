"""What an answer costs: `audit` of a lock of 300 packages, from start to end, also by `uvx`.

Beside the time by the clock stands that of a processor, which is much the same on a busy machine.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from uv import find_uv_bin

from repromatrix.runner.model.lock import read_lock
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Row = Callable[..., None]

RELEASES = ("4.50.0", "5.10.1", "5.23.0")
PACKAGES = 300
_FILE = (
    f'    {{ url = "https://example.org/{"0" * 60}/a-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",'
    f' hash = "sha256:{"0" * 64}", size = 1234567 }},\n'
)
REPEATS = 5
_Cost = tuple[float, float]
"""Seconds by the clock, and of a processor."""


def measure(row: Row) -> None:
    """Measure the answers on the published evidence; `row` prints one number."""
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def told(what: str, costs: list[_Cost], note: str) -> None:
        seconds, of_processor = (statistics.median(each) for each in zip(*costs, strict=True))
        row(what, seconds, "s", note)
        row(f"{what}: of a processor", of_processor, "s")

    def repeated(*command: str) -> list[_Cost]:
        _cost(command, environ)  # from here on its files are read, and what it compiles is kept
        return [_cost(command, environ) for _ in range(REPEATS)]

    told("python, doing nothing", repeated(sys.executable, "-c", "pass"), "part of each below")
    imported = repeated(sys.executable, "-c", "import repromatrix")
    told("import repromatrix", imported, "wanted: at most 0.05 more")
    with tempfile.TemporaryDirectory() as folder:
        environ["REPROMATRIX_STORE"] = str(Path(folder) / "store.sqlite")
        locks = [str(_lock(Path(folder), release)) for release in RELEASES]
        asked = (sys.executable, "-m", "repromatrix", "audit", locks[0])
        told("audit, the first question", _first_questions(asked, environ), "it makes the index")
        for release, lock in zip(RELEASES, locks, strict=True):
            costs = repeated(sys.executable, "-m", "repromatrix", "audit", lock)
            told(f"audit, {PACKAGES} packages, {release}", costs, "wanted: at most 0.5")
        environ["UV_CACHE_DIR"] = str(Path(folder) / "cache")
        environ["XDG_CACHE_HOME"] = str(Path(folder) / "own")
        asked = ("--from", _wheel(folder), "repromatrix", "audit", locks[0])
        by_uvx = (find_uv_bin(), "tool", "run", "--python", sys.executable, *asked)
        costs = repeated(*by_uvx)
        told("uvx, first run from a warm cache", _first_runs(by_uvx, environ), "wanted: at most 3")
        told("uvx, again", costs, "wanted: at most 3")


def _first_questions(command: Sequence[str], environ: Mapping[str, str]) -> list[_Cost]:
    """Ask as often as else, each time without an index."""
    found = []
    for _ in range(REPEATS):
        (Paths().state / "index").unlink(missing_ok=True)
        found.append(_cost(command, environ))
    return found


def _first_runs(command: Sequence[str], environ: Mapping[str, str]) -> list[_Cost]:
    """Run a tool as often as else, each time with everything in the cache but its environment."""
    found = []
    for _ in range(REPEATS):
        for made in Path(environ["UV_CACHE_DIR"]).glob("environments-*"):
            shutil.rmtree(made)
        shutil.rmtree(environ["XDG_CACHE_HOME"], ignore_errors=True)
        found.append(_cost(command, environ))
    return found


def _wheel(folder: str) -> str:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return str(next(Path(folder).glob("*.whl")))


def _lock(folder: Path, release: str) -> Path:
    """Return a `uv.lock` with the packages of a release and as many others as it takes."""
    text = (ROOT / "environments" / "locks" / f"{release}.txt").read_text()
    pins = {pin.name: str(pin.specifier)[2:] for pin in read_lock(text, release, release).pins}
    pins |= {"torch": "2.6.0"}
    pins |= {f"filler-{number}": "1.0" for number in range(PACKAGES - len(pins))}
    needs = "".join(f'    {{ name = "{name}" }},\n' for name in pins)
    parts = [
        "version = 1\n",
        f'[[package]]\nname = "mine"\nsource = {{ virtual = "." }}\ndependencies = [\n{needs}]\n',
        *(
            f'[[package]]\nname = "{name}"\nversion = "{version}"\n'
            f'source = {{ registry = "links" }}\nwheels = [\n{_FILE * 5}]\n'
            for name, version in pins.items()
        ),
    ]
    path = folder / release / "uv.lock"
    path.parent.mkdir()
    path.write_text("\n".join(parts))
    return path


def _cost(command: Sequence[str], environ: Mapping[str, str]) -> _Cost:
    begin, before = time.perf_counter(), _of_processor()
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode not in {0, 1}:
        raise SystemExit(done.stderr.decode())
    return seconds, _of_processor() - before


def _of_processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
