"""Write `runner/model/models.csv`: what releases of transformers call each of their models.

    pip download --no-deps transformers==X --dest WHEELS      # for each release
    python -m repromatrix.tools.model_names WHEELS [CLONE]

Types and classes are those of the auto mappings. Hub ids are those of configs, docstrings and
examples, and of the pages and tests of each model in a clone of transformers.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version

from repromatrix.runner.git import run_git
from repromatrix.runner.model.families import CONTESTED, TABLE, series, squashed

_AUTO = "transformers/models/auto/"
_MAPPINGS = ("CONFIG_", "MODEL_", "SPECIAL_")
_FILE = re.compile(r"transformers/models/(?:deprecated/)?(\w+)/(configuration|modeling)_\w+\.py")
_PLACE = re.compile(r"(?:model_doc/([\w-]+)\.md|tests/models/(\w+)/test_modeling_\w+\.py)$")
_ID = r"([A-Za-z][\w.-]*/[\w.-]*[A-Za-z][\w.-]*)"
_IN_CONFIG = re.compile(rf"\[{_ID}\]\(https://huggingface\.co/|checkpoint=[\"']{_ID}[\"']")
_IN_EXAMPLE = re.compile(
    rf"(?:from_pretrained\(|_CHECKPOINT_FOR_DOC\s*=|checkpoint\s*=|model(?:_id|_name)?\s*=)\s*"
    rf"[\"']{_ID}[\"']"
)
_NO_CHECKPOINT = re.compile(
    r"(?:hf-internal-testing|path|org|meta-[a-z0-9_]+(?<!meta-llama))/|.*(?:random|testing)"
)
_SURE = 1000
"""A config that says it is of a checkpoint counts more than examples, which use other models."""
Uses = dict[str, Counter[str]]
"""How often each folder of a model names each checkpoint."""


class WheelNames(NamedTuple):
    """What the wheel of a release calls its models."""

    version: str
    classes: Mapping[str, set[str]]
    """The classes of each type."""
    folders: Mapping[str, str]
    """The folder of each type."""


def main() -> None:
    """Read the wheels of a folder, and a clone where one is given."""
    wheels = sorted(Path(sys.argv[1]).glob("transformers-*.whl"), key=_version)
    uses: Uses = defaultdict(Counter)
    releases = [read(path, uses) for path in wheels]
    for clone in sys.argv[2:]:
        _read_clone(clone, uses)
    with TABLE.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(("type", "since", "until", "names"))
        writer.writerows(table(releases, uses))


def _version(path: Path) -> Version:
    return Version(path.name.split("-")[1])


def read(path: Path, uses: Uses) -> WheelNames:
    """Return what a wheel calls its models, and count into `uses` which checkpoints it names."""
    with zipfile.ZipFile(path) as wheel:
        files = {
            name: wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".py")
        }
    pairs = [
        pair for name, text in files.items() if name.startswith(_AUTO) for pair in _pairs(text)
    ]
    types = {kind for mapping, kind, _ in pairs if mapping.startswith("CONFIG_")}
    classes: dict[str, set[str]] = {kind: set() for kind in types}
    folders = {kind: kind.replace("-", "_") for kind in types}
    for mapping, kind, text in pairs:
        if kind in types and mapping.startswith("SPECIAL_"):
            folders[kind] = text
        elif kind in types and not mapping.startswith("SPECIAL_"):
            classes[kind].add(text)
    for name, text in files.items():
        if place := _FILE.fullmatch(name):
            weight = _SURE if place[2] == "configuration" else 1
            patterns = (_IN_CONFIG, _IN_EXAMPLE) if weight > 1 else (_IN_EXAMPLE,)
            _count(uses, place[1], text, patterns, weight)
    return WheelNames(str(_version(path)), classes, folders)


def _pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each mapping's name, a key of it, and a text that the key leads to."""
    for node in ast.parse(text).body:
        target = getattr(node, "target", None) or next(iter(getattr(node, "targets", ())), None)
        if isinstance(target, ast.Name) and target.id.startswith(_MAPPINGS):
            for each in ast.walk(node):
                match each:
                    case ast.Tuple(elts=[ast.Constant(value=str(key)), value]):
                        yield from ((target.id, key, text) for text in _texts(value))
                    case ast.Dict(keys=keys, values=values):
                        for constant, value in zip(keys, values, strict=True):
                            if isinstance(constant, ast.Constant):
                                key = str(constant.value)
                                yield from ((target.id, key, text) for text in _texts(value))
                    case _:
                        pass


def _texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _count(
    uses: Uses, folder: str, text: str, patterns: tuple[re.Pattern[str], ...], weight: int
) -> None:
    for pattern in patterns:
        for found in pattern.finditer(text):
            checkpoint = next(filter(None, found.groups()))
            if not _NO_CHECKPOINT.match(checkpoint):
                uses[checkpoint][folder] = max(uses[checkpoint][folder] + 1, weight)


def _read_clone(clone: str, uses: Uses) -> None:
    """Count which checkpoints the page and the tests of each model name."""
    looking_for = ("grep", "-E", "from_pretrained|model|checkpoint", "HEAD", "--")
    done = run_git(Path(clone), [*looking_for, "docs/source/en/model_doc", "tests/models"])
    for line in done.out.splitlines():
        file, _, text = line.partition(":")[2].partition(":")
        if place := _PLACE.search(file):
            folder = (place[1] or place[2]).replace("-", "_")
            _count(uses, folder, text, (_IN_EXAMPLE,), 1)


def table(releases: list[WheelNames], uses: Uses) -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows: type, first and last release, and what its own name does not say."""
    versions = [release.version for release in releases]
    having: dict[str, list[WheelNames]] = defaultdict(list)
    for release in releases:
        for kind in release.classes:
            having[kind].append(release)
    kinds = {squashed(kind): kind for kind in having}
    folders = {kind: having[kind][-1].folders[kind] for kind in having}
    checkpoints, contested = _checkpoints(uses, folders, kinds)
    names = checkpoints | _classes(having)
    yield CONTESTED, "", "", " ".join(sorted(contested))
    for kind in sorted(having):
        first, last = having[kind][0].version, having[kind][-1].version
        extra = sorted(name for name, each in names.items() if each == kind and name not in kinds)
        yield kind, first, "" if last == versions[-1] else last, " ".join(extra)


def _classes(having: Mapping[str, list[WheelNames]]) -> dict[str, str]:
    """Return the type of each squashed class; of several types the one that is not a part."""
    found: dict[str, str] = {}
    for kind in sorted(having, key=len):
        for release in having[kind]:
            for name in release.classes[kind]:
                found.setdefault(squashed(name), kind)
    return found


def _checkpoints(
    uses: Uses, folders: Mapping[str, str], kinds: Mapping[str, str]
) -> tuple[dict[str, str], set[str]]:
    """Return the type of each series of checkpoints, and the series that are of several types.

    Of those each checkpoint has its own name.
    """
    by_folder = {
        folder: kind for kind, folder in sorted(folders.items(), key=lambda it: -len(it[0]))
    }
    by_folder |= {kind.replace("-", "_"): kind for kind in folders}
    tails: dict[str, dict[str, str]] = defaultdict(dict)
    for checkpoint, folder in sorted(_owners(uses).items()):
        is_sure = uses[checkpoint][folder] >= _SURE
        if folder in by_folder and (is_sure or series(checkpoint.rpartition("/")[2]) not in kinds):
            tail = checkpoint.rpartition("/")[2]
            tails[series(tail)][squashed(tail)] = by_folder[folder]
    found, contested = {}, {""}
    for name, by_tail in tails.items():
        if len({*by_tail.values(), kinds.get(name, next(iter(by_tail.values())))}) == 1:
            found[name] = next(iter(by_tail.values()))
        else:
            contested.add(name)
            found.update(by_tail)
    return found, contested


def _owners(uses: Uses) -> dict[str, str]:
    """Return the folder that each checkpoint is of; nothing of those that several name as often."""
    owners = {}
    for checkpoint, folders in uses.items():
        most = max(folders.values())
        best = [folder for folder, count in folders.items() if count == most]
        tail = squashed(checkpoint.rpartition("/")[2])
        own = [folder for folder in best if tail.startswith(squashed(folder))]
        if len(best) == 1 or len(own) == 1:
            owners[checkpoint] = (own or best)[0]
    return owners


if __name__ == "__main__":
    main()
