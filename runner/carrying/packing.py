"""One archive to carry: what runs cells, the cases, and packages with their common files once."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from runner.carrying.gathering import files
from runner.carrying.manifest import CONTENT, NAME, TOOLS, TREES, manifest
from runner.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.carrying.gathering import Gathered
    from runner.carrying.manifest import Target
    from runner.places import Places

_DATE = 315_532_800
"""1980: the same content gives the same bytes."""
_PRESET = 4
_WINDOW = 1 << 26
"""Far more than lies between a file and its own older version."""
_JUMPS = {"x86_64": [{"id": lzma.FILTER_X86}]}
"""Makes equal calls equal bytes, wherever they stand; only what every `xz` can undo."""
_SCRIPT = ROOT / "runner" / "carrying" / "run.py"
_ABOUT = """\
Measures dtype bugs on releases of transformers, with the torch of this machine, without a network.

    python run.py --device cuda

needs a Python {python} with torch, on {platform}. It goes on where it was interrupted, and writes
evidence.sqlite, to be carried back and merged with `nox -s merge -- evidence.sqlite`.
Nothing is written outside of this folder. `python run.py --help` lists what can be chosen.
"""


def pack(  # noqa: PLR0913 - what goes in, and how
    places: Places,
    target: Target,
    gathered: Gathered,
    tools: Path,
    archive: Path,
    *,
    preset: int = _PRESET,
) -> int:
    """Write a bundle, whole or not at all; return its size in bytes."""
    part = archive.with_name(f".{archive.name}.part")
    top = archive.name.removesuffix(".tar.xz")
    try:
        with (
            lzma.open(part, "wb", filters=_filters(target, preset)) as compressed,
            tarfile.open(fileobj=compressed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
        ):
            for name, found in _members(places, target, gathered, tools):
                _add(tar, f"{top}/{name}", found)
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)
    return archive.stat().st_size


def _filters(target: Target, preset: int) -> list[dict[str, int]]:
    packs = {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": _WINDOW}
    return [*_JUMPS.get(str(target.facts["machine"]), []), packs]


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mtime, about.mode = len(content), _DATE, 0o644
    tar.addfile(about, io.BytesIO(content))


def _members(
    places: Places, target: Target, gathered: Gathered, tools: Path
) -> Iterator[tuple[str, bytes]]:
    yield "README.txt", _ABOUT.format(python=target.python, platform=target.platform).encode()
    yield NAME, manifest(target, gathered.trees).encode()
    yield "run.py", _SCRIPT.read_bytes()
    for name, path in _ours(places):
        yield name, path.read_bytes()
    for path in files(tools):
        yield f"{TOOLS}/{path.relative_to(tools).as_posix()}", path.read_bytes()
    for name, tree in gathered.trees.items():
        yield f"{TREES}/{name}.json", json.dumps(tree).encode()
    # A file beside its other versions: what they share is written once.
    for name, (_, path) in sorted(gathered.contents.items(), key=lambda one: _beside(*one[1])):
        yield f"{CONTENT}/{name[:2]}/{name[2:]}", path.read_bytes()


def _beside(path: str, at: Path) -> tuple[str, str, str]:
    """Order contents by kind, then by path: a library's name holds a digest that says nothing."""
    name = Path(path)
    return name.suffix, path.partition("-")[0], str(at)


def _ours(places: Places) -> Iterator[tuple[str, Path]]:
    yield "environments/matrix.toml", places.matrix
    for folder, name, pattern in (
        (places.locks, "environments/locks", "*.txt"),
        (places.cases, "cases", "*.py"),
        (ROOT / "runner", "runner", "*.py"),
    ):
        for path in sorted(folder.rglob(pattern)):
            yield f"{name}/{path.relative_to(folder).as_posix()}", path
