"""A checkout where all but the runner is made up: releases, locks, cases, packages of a few bytes.

The real program in it builds environments, measures, draws and publishes within seconds, from
whatever index, on whatever file system; so each fault can be tried on every one of its steps.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import sys
import zipfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from repromatrix.runner.environments import locks
from repromatrix.runner.model.matrix import read_matrix
from repromatrix.runner.paths import ROOT
from repromatrix.runner.subprocesses import Finished, finish

RELEASES = ("1.0.0", "1.1.0")
TORCH = "1.0"
_LONG = 300.0
"""Seconds after which a run is taken for one without an end."""
NOWHERE = "git+file:///nonexistent@main"
# Neither the user's settings nor what an image sets may decide what a check finds.
_OF_THE_USER = ("PIP_", "UV_", "REPROMATRIX_", "PYTHON", "HF_", "SSL_", "XDG_")
_PROXIES = {"ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}

_MATRIX = """precisions = ["fp32", "bf16"]
python = "3.11"
companions = []
releases = [
  {{ name = "1.0.0", date = 2025-01-01 }},
  {{ name = "1.1.0", date = 2025-02-01 }},
]

[torch]
version = "{torch}"
as-of = 2025-03-01
requires = []

[limits]
seconds = 60
memory = 512

[main]
requirement = "{main}"
"""
_CASE = """# /// script
# requires-python = ">=3.10"
# dependencies = ["transformers"]
#
# [tool.repromatrix]
# title = "A toy {number} must hold"
# reports = ["https://example.org/{number}"]
# area = "toys"
# models = ["toy"]
{fails}# ///
\"\"\"A toy must hold. It is made up.\"\"\"

{code}
"""
FAILS = """#
# [[tool.repromatrix.fails]]
# when = ["transformers>=1.1"]
# raises = "AssertionError"
# match = "the toy broke"
"""
CODE = """import transformers

measured = {"held": 1.0}
assert transformers.__version__ == "1.0.0" or not {breaks}, "the toy broke"
"""
_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
_WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def made_wheel(folder: Path, name: str, version: str, *, module: str = "") -> Path:
    """Make a wheel of one module that says its version."""
    module = module or name
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    content = {
        f"{module}/__init__.py": f'__version__ = "{version}"\n'.encode(),
        f"{info}/METADATA": _METADATA.format(name=name, version=version).encode(),
        f"{info}/WHEEL": _WHEEL.encode(),
    }
    record = "".join(f"{place},,\n" for place in (*content, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for place, data in {**content, f"{info}/RECORD": record.encode()}.items():
            # The same bytes every time: locks carry the hash.
            wheel.writestr(zipfile.ZipInfo(place), data)
    return path


def made_wheels(folder: Path) -> Path:
    """Make every package of the made-up releases; return their folder."""
    for release in RELEASES:
        made_wheel(folder, "transformers", release)
    # No module of the name: what can be imported is asked what dtypes are computed.
    made_wheel(folder, "torch", f"{TORCH}+cpu", module="toy_torch")
    return folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkout:
    """A made-up checkout."""

    root: Path
    wheels: Path

    @property
    def home(self) -> Path:
        """What its runs take for the user's home."""
        return self.root / ".user"

    @property
    def store(self) -> Path:
        """Its evidence."""
        return self.root / ".repromatrix" / "evidence.sqlite"

    def environ(self, **variables: str) -> dict[str, str]:
        """Return the whole environment of a run."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_OF_THE_USER) and name.upper() not in _PROXIES
        }
        own = {
            "HOME": str(self.home),
            "UV_CACHE_DIR": str(self.root / ".cache"),
            "UV_PYTHON_DOWNLOADS": "never",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "REPROMATRIX_MAIN": NOWHERE,
        }
        named = {**kept, **own, **variables}
        # An empty one takes a variable away.
        return {name: value for name, value in named.items() if value}

    def command(self, *arguments: str) -> list[str]:
        """Return how the program is started in it."""
        return [sys.executable, "-m", "repromatrix", *arguments]

    def run(self, *arguments: str, **variables: str) -> Finished:
        """Run the program in it."""
        environ = self.environ(**variables)
        command = self.command(*arguments)
        return finish(command, environ=environ, folder=self.root, seconds=_LONG)

    def measured(self) -> bool:
        """Say whether a cell of the store was run, read by nothing of ours."""
        if not self.store.exists():
            return False
        asked = "SELECT outcome FROM cells"
        with closing(sqlite3.connect(self.store)) as database:
            outcomes = {outcome for (outcome,) in database.execute(asked)}
        return bool(outcomes - {"unbuildable", "not-run", "not-applicable"})


def made(
    root: Path,
    wheels: Path,
    cases: int = 2,
    more: Mapping[str, str] | None = None,
) -> Checkout:
    """Make a checkout with that many toys, every second of them broken by the later release.

    `more` are further cases, by name the code of each.
    """
    copied(root)
    checkout = Checkout(root=root, wheels=wheels)
    (checkout.home).mkdir()
    _environments(checkout)
    (root / "cases").mkdir()
    for number in range(cases):
        breaks = bool(number % 2)
        code = CODE.replace("{breaks}", str(breaks))
        text = _CASE.format(number=number, fails=FAILS if breaks else "", code=code)
        (root / "cases" / f"toy_{number}.py").write_text(text)
    for name, code in (more or {}).items():
        (root / "cases" / f"{name}.py").write_text(_CASE.format(number=0, fails="", code=code))
    return checkout


def copied(folder: Path) -> None:
    """Copy the source, and what was compiled of it, without what was published and drawn."""
    ignored = shutil.ignore_patterns("published", "recipes", "site", "own-site")
    for name in ("repromatrix", "runner", "reports", "sweep", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)


def _environments(checkout: Checkout) -> None:
    places = checkout.root / "environments"
    (places / "locks").mkdir(parents=True)
    text = _MATRIX.format(torch=TORCH, main=NOWHERE)
    (places / "matrix.toml").write_text(text)
    matrix = read_matrix(text)
    for release in matrix.releases:
        lines = [locks.header(matrix, release), f"transformers=={release.name}"]
        [wheel] = checkout.wheels.glob(f"transformers-{release.name}-*.whl")
        lines += [f" \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"]
        (places / "locks" / f"{release.name}.txt").write_text("".join(lines))
