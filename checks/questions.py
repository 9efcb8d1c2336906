"""The questions that two checkouts are asked, and how an answer is read as data.

Questions are made from the checkout before the change: its cases, locks, releases and results.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import random
import re
import shlex
import shutil
import tarfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INPUTS = Path(__file__).parent / "inputs"
PRECISIONS = ("fp32", "bf16", "fp16")
EVERY = ",".join(PRECISIONS)


@dataclass(frozen=True, kw_only=True)
class Printed:
    """What one checkout printed and wrote for a question."""

    code: int
    out: str
    err: str = ""
    site: Path = Path()


def as_json(printed: Printed) -> object:
    """Read standard output as JSON; raises ValueError."""
    return _unfolded(json.loads(printed.out))


def as_csv(printed: Printed) -> object:
    """Read standard output as CSV; raises ValueError where there is none."""
    return _table(printed.out)


def as_figures(printed: Printed) -> object:
    """Read a text by its numbers and by the files it names: its words are no data."""
    return " ".join(re.findall(r"\b\d+\b|\w+/\w+\.\w+", printed.out + printed.err))


def as_site(printed: Printed) -> object:
    """Read every JSON and CSV file below the site: tables, downloads, badges, OSV entries."""
    readers = {".json": lambda text: _unfolded(json.loads(text)), ".csv": _table}
    paths = sorted(path for path in printed.site.rglob("*") if path.suffix in readers)
    if not paths:
        msg = "no file was written"
        raise ValueError(msg)
    return {
        str(path.relative_to(printed.site)): readers[path.suffix](path.read_text())
        for path in paths
    }


def _table(text: str) -> object:
    lines = list(csv.reader(io.StringIO(text)))
    if not lines:
        msg = "no table"
        raise ValueError(msg)
    return _rows(lines[0], lines[1:])


def _unfolded(value: Any) -> object:  # noqa: ANN401 - what JSON holds
    """Return JSON; where it is a table of columns and rows, each row knows its columns."""
    is_table = isinstance(value, dict) and {"columns", "rows"} == value.keys()
    return _rows(value["columns"], value["rows"]) if is_table else value


def _rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, object]:
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    return {"columns": list(columns), "rows": named}


@dataclass(frozen=True, kw_only=True)
class Question:
    """One command, in the newest spelling, and how its answer is read."""

    arguments: tuple[str, ...]
    read: Callable[[Printed], object]

    def __str__(self) -> str:
        """Return the command as it would be typed."""
        return shlex.join(self.arguments)


def _json(*arguments: str) -> Question:
    return Question(arguments=(*arguments, "--format", "json"), read=as_json)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What there is to ask about, read from the checkout before the change."""

    blocks: Mapping[str, Mapping[str, Any]]
    """What each case says of itself."""
    releases: Sequence[str]
    """Oldest first."""
    publications: Sequence[str]
    locks: Sequence[str]
    inputs: Sequence[str]
    """Sets of packages made by hand: pinned, open, beyond all releases, in every format."""
    earlier: Sequence[str]
    """Stores and published sets that earlier versions wrote."""
    cells: Sequence[Mapping[str, str]] = ()
    """The rows of `results`."""

    @property
    def areas(self) -> list[str]:
        """Return every area that a case has."""
        return sorted({block["area"] for block in self.blocks.values()})

    def area(self, case: str) -> str:
        """Return the area of a case; one with variants is called `case[variant]` in results."""
        return str(self.blocks[case.partition("[")[0]]["area"])

    @property
    def models(self) -> list[str]:
        """Return every model that a case is about."""
        return sorted({model for block in self.blocks.values() for model in block["models"]})


def questions(facts: Facts) -> list[Question]:
    """Return every question, always in the same order."""
    parts = (_results, _bisects, _blames, _audits, _advices, _diffs)
    asked = [question for part in parts for question in part(facts)]
    check = Question(arguments=("check",), read=as_figures)
    return [*asked, check, Question(arguments=("report",), read=as_site)]


def _results(facts: Facts) -> Iterator[Question]:
    chosen: tuple[tuple[str, ...], ...] = (
        (),
        ("--wide",),
        ("--area", facts.areas[0]),
        ("--release", ">=5.0,<5.10", "--precision", "bf16", "--workaround", "none"),
        ("--case", "gemma*", "--device", "cpu", "--wide"),
    )
    for options in chosen:
        yield Question(arguments=("results", *options, "--format", "csv"), read=as_csv)
        yield _json("results", *options)
    for options in ((), ("--precision", "fp16"), ("--release", ">=5.0")):
        yield Question(arguments=("results", "--ranges", *options), read=as_csv)


def _bisects(facts: Facts) -> Iterator[Question]:
    """Ask of every case at once, in each direction, in what it says fails and in everything."""
    directions = ((), ("--fix",), ("--all",), ("--all", "--fix"))
    kinds = ((), ("--any-failure",))
    within = ((), ("--precision", EVERY), ("--release", ">=4.50,<5.0"))
    for options in itertools.product(directions, kinds, within):
        yield _json("bisect", "*", "--evidence-only", *itertools.chain.from_iterable(options))
    having: dict[str, list[str]] = {}
    for name, block in facts.blocks.items():
        for workaround in block.get("workarounds", {}):
            having.setdefault(workaround, []).append(name)
    for workaround, names in sorted(having.items()):
        wanted = ("--workaround", workaround, "--precision", EVERY, "--all")
        yield _json("bisect", *names, "--evidence-only", *wanted)


_Line = tuple[str, str]
"""A case and a precision."""


def _blames(facts: Facts) -> Iterator[Question]:
    """Ask in each area between which releases it changed, between which it did not, and pairs."""
    lines = _lines(facts)
    for area in facts.areas:
        mine = {key: line for key, line in lines.items() if facts.area(key[0]) == area}
        draw = random.Random(area)
        for ends, number in ((list(_changes(mine)), 1), (list(_far_ends(mine)), 2)):
            for line, good, bad in draw.sample(ends, min(number, len(ends))):
                yield _blame(*line, good, bad)
    for row in facts.cells:
        if _was_run(row) and _is_pair(row["release"]):
            base = row["release"].partition("+")[0]
            if base in lines.get((row["case"], row["precision"]), {}):
                yield _blame(row["case"], row["precision"], base, row["release"])


def _blame(case: str, precision: str, good: str, bad: str) -> Question:
    return _json("blame", case, "--precision", precision, "--good", good, "--bad", bad)


def _lines(facts: Facts) -> dict[_Line, dict[str, str]]:
    """Return the outcome of each plain case on the releases, oldest first, by precision."""
    order = {name: place for place, name in enumerate(facts.releases)}
    rows = [
        (order[base], row)
        for row in facts.cells
        if (base := row["release"].partition("+")[0]) in order
        and _was_run(row)
        and not _is_pair(row["release"])
    ]
    found: dict[_Line, dict[str, str]] = {}
    for _, row in sorted(rows, key=lambda pair: pair[0]):
        found.setdefault((row["case"], row["precision"]), {})[row["release"]] = row["outcome"]
    return found


def _was_run(row: Mapping[str, str]) -> bool:
    return row["outcome"] in {"passes", "fails"} and not row["workaround"]


def _is_pair(name: str) -> bool:
    return re.search(r"\d", name.partition("+")[2]) is not None


def _changes(lines: Mapping[_Line, Mapping[str, str]]) -> Iterator[tuple[_Line, str, str]]:
    for line, outcomes in lines.items():
        for one, other in itertools.pairwise(outcomes):
            if outcomes[one] != outcomes[other]:
                good, bad = (one, other) if outcomes[one] == "passes" else (other, one)
                yield line, good, bad


def _far_ends(lines: Mapping[_Line, Mapping[str, str]]) -> Iterator[tuple[_Line, str, str]]:
    """Yield both ends of a line where they agree: `blame` answers these without a mixture."""
    for line, outcomes in lines.items():
        first, *_, last = (*outcomes, *outcomes)
        if outcomes[first] == outcomes[last]:
            yield line, first, last


def _audits(facts: Facts) -> Iterator[Question]:
    turns = itertools.cycle(PRECISIONS)
    for lock in facts.locks:
        yield _json("audit", lock)
        yield _json("audit", lock, "--precision", next(turns))
    for path in facts.inputs:
        yield _json("audit", path)
        yield from (_json("audit", path, "--precision", one) for one in PRECISIONS)
    for lock, area in zip(facts.locks, facts.areas, strict=False):
        yield _json("audit", lock, "--area", area)
    yield _json("audit", facts.locks[0], "--model", "gemma*")
    yield _json("audit", facts.locks[0], "--ignore", "gemma*")


def _advices(facts: Facts) -> Iterator[Question]:
    yield _json("advise")
    yield from (_json("advise", "--precision", one) for one in PRECISIONS)
    yield from (_json("advise", "--case", one) for one in facts.blocks)
    yield from (_json("advise", "--model", one) for one in facts.models)
    for area, precision in zip(facts.areas, itertools.cycle(PRECISIONS), strict=False):
        yield _json("advise", "--area", area, "--precision", precision)


def _diffs(facts: Facts) -> Iterator[Question]:
    yield _json("diff", facts.releases[-1], facts.releases[0], "--precision", "bf16")
    for sides in (facts.releases, facts.publications, facts.earlier):
        yield from (_json("diff", *pair) for pair in itertools.pairwise(sides))
    for name in (Path(lock).stem for lock in facts.locks):
        if _is_pair(name):
            yield _json("diff", name.partition("+")[0], name)


def gathered(checkout: Path, folder: Path) -> Facts:
    """Lay what questions name into a folder, and return what there is, except for the cells."""
    _lay_locks(checkout / "environments" / "locks", folder / "locks")
    _lay_earlier(checkout / "tests", folder / "earlier")
    shutil.copytree(INPUTS, folder / "inputs")
    matrix = tomllib.loads((checkout / "environments" / "matrix.toml").read_text())
    published = checkout / "reports" / "published" / "publications.toml"
    stores = (folder / "earlier").glob("*.sqlite")
    sets = (path.parent for path in (folder / "earlier").rglob("publications.toml"))
    return Facts(
        blocks={path.stem: _block(path) for path in sorted((checkout / "cases").glob("*.py"))},
        releases=[release["name"] for release in matrix["releases"]],
        publications=sorted(tomllib.loads(published.read_text())["publications"]),
        locks=_below(folder, (folder / "locks").iterdir()),
        inputs=_below(folder, (folder / "inputs").iterdir()),
        earlier=_below(folder, (*stores, *sets)),
    )


def _below(folder: Path, paths: Iterable[Path]) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in paths)


def _lay_locks(locks: Path, there: Path) -> None:
    """Write what each environment holds: a lock with `+` says only what it has beside its base."""
    there.mkdir()
    for path in locks.glob("*.txt"):
        base = path.with_name(f"{path.stem.partition('+')[0]}.txt")
        pins = _pins(base) | _pins(path)
        (there / path.name).write_text("".join(f"{name}=={pins[name]}\n" for name in sorted(pins)))


def _pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", lock.read_text()))


def _lay_earlier(tests: Path, there: Path) -> None:
    there.mkdir()
    for path in tests.rglob("*.sqlite.gz"):
        (there / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    for path in tests.rglob("published-*.tar.gz"):
        with tarfile.open(path) as archive:
            archive.extractall(there / path.name.partition(".tar")[0], filter="data")


def _block(case: Path) -> Mapping[str, Any]:
    """Return what a case says of itself, in the comment at its top; raises ValueError."""
    found = re.search(r"(?m)^# /// script$\n((?:^#.*$\n)+?)^# ///$", case.read_text())
    if found is None:
        msg = f"{case}: no block"
        raise ValueError(msg)
    text = re.sub(r"(?m)^# ?", "", found[1])
    block: Mapping[str, Any] = tomllib.loads(text)["tool"]["repromatrix"]
    return block
