"""What is installed in a virtualenv, and its compiled files shared with others.

A fresh virtualenv compiles torch anew at its first import, seconds each time. The installer links
sources from its cache, so they carry the same time and size everywhere, and what one virtualenv
compiled is valid in the next: Python checks both before it trusts a compiled file, and replaces
such a file rather than writing into it, so a link can never spoil the one that lent it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name


def site_packages(folder: Path) -> Path:
    """Return where a virtualenv keeps its packages."""
    return next((folder / "lib").glob("python3*")) / "site-packages"


def installed(folder: Path) -> dict[str, str]:
    """Read every installed distribution's version from its metadata, without running anything."""
    found = {}
    for info in site_packages(folder).glob("*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        found[str(canonicalize_name(name))] = version
    return dict(sorted(found.items()))


def share(built: Path, folder: Path, versions: Mapping[str, str]) -> int:
    """Link compiled files from virtualenvs that hold the same versions; return how many."""
    donors = list(_donors(built, folder))
    here = site_packages(folder)
    linked = 0
    for name, version in versions.items():
        lender = next((there for there, theirs in donors if theirs.get(name) == version), None)
        if lender is not None:
            linked += _link(lender, here, _sources(here, name, version))
    return linked


def _donors(built: Path, folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    markers = [path for path in built.glob("*/complete.json") if not path.parent.is_symlink()]
    for marker in sorted(markers, key=lambda path: path.stat().st_mtime):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            there = site_packages(marker.parent)
            # Only one that was imported from has anything to lend.
            if marker.parent != folder and (there / "torch" / "__pycache__").exists():
                yield there, json.loads(marker.read_text())["versions"]


def _sources(here: Path, name: str, version: str) -> Iterator[str]:
    """Yield the folders of a distribution that hold sources, from its RECORD."""
    seen: set[str] = set()
    for info in here.glob(f"*-{version}.dist-info"):
        if canonicalize_name(info.name.removesuffix(f"-{version}.dist-info")) != name:
            continue
        for line in (info / "RECORD").read_text().splitlines():
            file = line.partition(",")[0]
            parent = os.path.dirname(file)  # noqa: PTH120 - tens of thousands of lines
            if file.endswith(".py") and parent not in seen:
                seen.add(parent)
                yield parent


def _link(lender: Path, here: Path, folders: Iterator[str]) -> int:
    linked = 0
    for folder in folders:
        theirs = lender / folder / "__pycache__"
        if not theirs.is_dir():
            continue
        ours = here / folder / "__pycache__"
        ours.mkdir(exist_ok=True)
        for compiled in os.scandir(theirs):
            with contextlib.suppress(OSError):
                os.link(compiled.path, ours / compiled.name)
                linked += 1
    return linked
