"""What an answer costs: `audit` of a lock of 300 packages, from start to end."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.runner.model.lock import read_lock
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    Row = Callable[..., None]

RELEASES = ("4.50.0", "5.10.1", "5.23.0")
PACKAGES = 300
_WHEEL = (
    f'    {{ url = "https://example.org/{"0" * 60}/a-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",'
    f' hash = "sha256:{"0" * 64}", size = 1234567 }},\n'
)
REPEATS = 5


def measure(row: Row) -> None:
    """Measure the answers on the published evidence; `row` prints one number."""
    bare = statistics.median(_timed([sys.executable, "-c", "pass"], {}) for _ in range(REPEATS))
    row("python, doing nothing", bare, "s", "part of each below")
    with tempfile.TemporaryDirectory() as folder:
        for release in RELEASES:
            lock = _lock(Path(folder), release)
            seconds = statistics.median(_audit(lock, folder) for _ in range(REPEATS))
            row(f"audit, {PACKAGES} packages, {release}", seconds, "s", "wanted: under 0.5")


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
            f'source = {{ registry = "links" }}\nwheels = [\n{_WHEEL * 5}]\n'
            for name, version in pins.items()
        ),
    ]
    path = folder / release / "uv.lock"
    path.parent.mkdir()
    path.write_text("\n".join(parts))
    return path


def _audit(lock: Path, folder: str) -> float:
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["REPROMATRIX_STORE"] = str(Path(folder) / "store.sqlite")
    return _timed([sys.executable, "-m", "repromatrix", "audit", str(lock)], environ)


def _timed(command: list[str], environ: dict[str, str]) -> float:
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode not in {0, 1}:
        raise SystemExit(done.stderr.decode())
    return seconds
