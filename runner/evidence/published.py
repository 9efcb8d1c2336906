"""The published set in the repository: sorted text that reads well in a diff, read and written.

The same evidence always gives the same bytes.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import tomllib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.evidence.database import addressed
from repromatrix.runner.evidence.tables import as_csv
from repromatrix.runner.model.cell import Cell, Line
from repromatrix.runner.model.observation import Failed, Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision
from repromatrix.runner.model.packages import MOVED

Keep = Callable[[str, str, Precision, Device], Collection[str] | None]
"""Names the environments that are wanted of a case, workaround, precision and device.

    None stands for all of them. What is not read costs nothing.
    """

FORMAT = 1
PUBLICATIONS = "publications.toml"
ENVIRONMENTS = "environments.csv"
_FACTS = ("date", "hardware", "torch", "python", "main")
WRITTEN = "`nox -s publish` writes this file; git has its last version."
"""What to do about a file of a published set that is missing or damaged."""


def _toml(text: str) -> str:
    """Quote a string; TOML knows no surrogate pairs, in which JSON writes what is beyond ASCII."""
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Publication:
    """One act of publishing: when, on what, with which torch, and the commit of main."""

    name: str
    date: str
    hardware: str
    torch_build: str
    python: str
    main: str

    def line(self) -> str:
        """Return it as one line of `publications.toml`."""
        facts = (self.date, self.hardware, self.torch_build, self.python, self.main)
        pairs = zip(_FACTS, map(_toml, facts), strict=True)
        inside = ", ".join(f"{key} = {value}" for key, value in pairs)
        return f"{_toml(self.name)} = {{ {inside} }}\n"


def read_publications(folder: Path) -> dict[str, Publication]:
    """Return the publications by name; raises RunnerError when they are of a newer format."""
    path = folder / PUBLICATIONS
    if not path.exists():
        return {}
    with addressed(path.name, WRITTEN):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        if table.get("format", 0) > FORMAT:
            what = f"the file has format {table['format']}; this version reads {FORMAT} at most"
            raise refuse(Problem(path.name, what, "Update repromatrix."))
        return {name: _publication(name, line) for name, line in table["publications"].items()}


def _publication(name: str, line: Mapping[str, str]) -> Publication:
    facts = [line[key] for key in _FACTS]
    if not all(isinstance(fact, str) for fact in facts):
        message = "something that is no text where a text belongs"
        raise TypeError(message)
    return Publication(name, *facts)


def publications_of(folder: Path, device: Device) -> set[str]:
    """Return the names of the publications that hold cells of a device: the last column."""
    lines = (
        line for path in folder.glob(f"{device}/*.csv") for line in path.read_bytes().splitlines()
    )
    return {line[line.rfind(b",") + 1 :].decode(errors="replace") for line in lines}


MEASURED = 1
"""The protocol of what is published in this format."""


class PublishedRow(NamedTuple):
    """One line of a cells file, all text; `releases` are separated by spaces."""

    workaround: str
    precision: str
    releases: str
    outcome: str
    exercised: str
    flags: str
    failure: str
    computed: str
    measured: str
    publication: str


class EnvironmentRow(NamedTuple):
    """What an environment held when it was measured."""

    environment: str
    publication: str
    digest: str
    python: str
    transformers: str
    accelerate: str
    peft: str
    torch: str
    reason: str


def cell_files(folder: Path, ending: str = "csv") -> Iterator[Path]:
    """Yield the files of cells, those of each device in its folder; other folders hold no cells."""
    for device in Device:
        yield from folder.glob(f"{device}/*.{ending}")


def read(
    folder: Path, cases: Collection[str] | None = None, keep: Keep | None = None
) -> Iterator[Observation]:
    """Yield every published cell, or those of some cases; raises RunnerError for a bad file."""
    for group in read_groups(folder, cases, keep):
        yield from group.observations()


@dataclass(frozen=True, slots=True)
class PublishedCells:
    """Cells of a line that did the same, as a file holds them: one row, many environments."""

    line: Line
    seen: Mapping[str, Any]
    """Fields of `Observation` that all of them share."""
    ran: Sequence[tuple[str, Provenance, str]]
    """Each environment, what the cell ran on there, and why that could not be built."""

    def observations(self) -> Iterator[Observation]:
        """Yield each of them."""
        case, workaround, precision, device = self.line
        was_built = self.seen["outcome"] is not Outcome.UNBUILDABLE
        for name, provenance, reason in self.ran:
            yield Observation(
                cell=Cell(case, workaround, name, precision, device),
                provenance=provenance,
                reason="" if was_built else reason,
                **self.seen,
            )


def read_groups(
    folder: Path, cases: Collection[str] | None = None, keep: Keep | None = None
) -> Iterator[PublishedCells]:
    """Yield the same in groups: they are fewer, and no row of each cell has to be made."""
    found = PublishedSet(folder)
    for path in sorted(cell_files(folder)):
        if cases is None or path.stem in cases:
            yield from found.groups(path, keep)


_Ran = Callable[[str, str], tuple[Provenance, str]]
"""Of an environment and a publication: what the cells of a case ran on, and its reason."""

_CellFile = tuple[_Ran, Mapping[str, Failed], list[list[str]], Iterator[list[str]]]
"""That, the failures, the lines that were read so far, and the others."""


class PublishedSet:
    """A published set, whose files of cells are read as they are asked for.

    Raises RunnerError for a bad file, as do its methods.
    """

    def __init__(self, folder: Path) -> None:
        """Read what was published, and what the environments held."""
        self._folder = folder
        self._publications = read_publications(folder)
        path = folder / ENVIRONMENTS
        with addressed(path.name, WRITTEN):
            rows = map(EnvironmentRow._make, _lines_of(path))
            self._environments = {(row.environment, row.publication): row for row in rows}
        self._ran = functools.cache(self._ran_on)
        self._files: dict[Path, _CellFile] = {}

    def groups(self, path: Path, keep: Keep | None) -> Iterator[PublishedCells]:
        """Yield the cells of a file in groups."""
        ran_case, failures = self._about(path)
        with addressed(f"{path.parent.name}/{path.name}", WRITTEN):
            yield from _groups(path, _lines_of(path), keep, ran_case, failures)

    def row(self, cell: Cell) -> Observation | None:
        """Return the row of one cell, None where there is none."""
        path = self._folder / cell.device / f"{cell.case}.csv"
        with addressed(f"{path.parent.name}/{path.name}", WRITTEN):
            if path not in self._files:
                self._files[path] = (*self._about(path), [], _lines_of(path))
            ran_case, failures, read_lines, rest = self._files[path]
            wanted = {cell.environment}

            def is_of_cell(line: Sequence[str]) -> bool:
                is_line = line[0] == cell.workaround and line[1] == cell.precision
                return is_line and cell.environment in line[2].split()

            for line in chain(read_lines, _kept(rest, read_lines)):
                if is_of_cell(line):
                    groups = _groups(path, [line], lambda *_: wanted, ran_case, failures)
                    return next(next(groups).observations())
        return None

    def _about(self, path: Path) -> tuple[_Ran, Mapping[str, Failed]]:
        with addressed(f"{path.parent.name}/{path.stem}.json", WRITTEN):
            about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            ran_case = functools.partial(self._ran, str(about["case-digest"]))
            return ran_case, {name: _failed(failure) for name, failure in about["failures"].items()}

    def _ran_on(self, case_digest: str, name: str, publication: str) -> tuple[Provenance, str]:
        """Return what the cells of a case ran on, and why that could not be built."""
        row = self._environments[name, publication]
        provenance = Provenance(
            case_digest=case_digest,
            environment_digest=row.digest,
            packages=_packages(row),
            python=row.python,
            torch_build=row.torch,
            hardware=self._publications[publication].hardware,
            protocol=MEASURED,
            run=publication,
        )
        return provenance, row.reason


def _lines_of(path: Path) -> Iterator[list[str]]:
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as file:
        text = file.read()
    lines = csv.reader(io.StringIO(text, newline=""))
    next(lines, None)
    yield from lines


def _kept(lines: Iterable[list[str]], read_lines: list[list[str]]) -> Iterator[list[str]]:
    """Yield lines, each once it is among those that were read."""
    for line in lines:
        read_lines.append(line)
        yield line


def _groups(
    path: Path,
    every: Iterable[list[str]],
    keep: Keep | None,
    ran: _Ran,
    failures: Mapping[str, Failed],
) -> Iterator[PublishedCells]:
    """Yield the wanted cells of a file's lines; what is not wanted is not taken apart."""
    case, device = path.stem, Device(path.parent.name)
    for (workaround, word), lines in groupby(every, key=itemgetter(0, 1)):
        precision = Precision(word)
        line = (case, workaround, precision, device)
        wanted = None if keep is None else keep(*line)
        for row in map(PublishedRow._make, lines) if wanted is None or wanted else ():
            names = row.releases.split()
            if wanted is not None:
                names = [name for name in names if name in wanted]
            if names:
                ran_on = [(name, *ran(name, row.publication)) for name in names]
                yield PublishedCells(line, _common(row, failures), ran_on)


def _common(row: PublishedRow, failures: Mapping[str, Failed]) -> dict[str, Any]:
    return {
        "outcome": Outcome(row.outcome),
        "source": row.publication,
        "failed": failures.get(row.failure),
        "exercised": Exercised(row.exercised),
        "computed": _numbers(row.computed, int),
        "measured": _numbers(row.measured, float),
        "unstable": "unstable" in row.flags.split(),
    }


def _failed(failure: Mapping[str, Any]) -> Failed:
    """Read a failure; raises TypeError for what is no text."""
    facts = *(failure[name] for name in ("class", "message", "signature")), *failure["traceback"]
    if not all(isinstance(fact, str) for fact in facts):
        message = "something that is no text where a text belongs"
        raise TypeError(message)
    error_class, message, signature, *lines = facts
    return Failed(
        error_class=error_class, message=message, signature=signature, traceback="\n".join(lines)
    )


@functools.lru_cache(maxsize=4096)
def _packages(held: EnvironmentRow) -> Mapping[str, str]:
    return {
        name: version
        for name in MOVED  # each is a column
        if (version := getattr(held, name))
    }


@functools.lru_cache(maxsize=4096)
def _numbers(text: str, read: Callable[[str], Any]) -> Mapping[str, Any]:
    """Read numbers by name; cells that did the same have the same, so few texts are read."""
    pairs = (pair.rpartition("=") for pair in text.split())
    return {unquote(name) if "%" in name else name: read(number) for name, _, number in pairs}


_DIGITS = 4


def write(
    folder: Path,
    rows: Sequence[Observation],
    publications: Sequence[Publication],
    order: Sequence[str],
) -> dict[Path, str]:
    """Return the files of a published set and their texts; the caller writes all or none."""
    head = f"# Written by `nox -s publish`; one line per publication.\nformat = {FORMAT}\n\n"
    lines = sorted(publication.line() for publication in publications)
    files = {folder / PUBLICATIONS: "".join([head, "[publications]\n", *lines])}
    files[folder / ENVIRONMENTS] = _environments(rows, order)
    by_file: dict[tuple[str, str], list[Observation]] = defaultdict(list)
    for row in rows:
        by_file[str(row.cell.device), row.cell.case].append(row)
    for (device, case), own in sorted(by_file.items()):
        failures = {_failure_id(row.failed): row.failed for row in own if row.failed}
        base = folder / device
        files[base / f"{case}.csv"] = _cells(own, order)
        # What could not be built may have been tried with an older text of the case.
        ran = max(own, key=lambda row: row.outcome.was_run).provenance
        files[base / f"{case}.json"] = _failures(ran.case_digest, failures)
    return files


def _environments(rows: Iterable[Observation], order: Sequence[str]) -> str:
    lines = {
        EnvironmentRow._make(
            (
                row.cell.environment,
                row.source,
                row.provenance.environment_digest,
                row.provenance.python,
                *(row.provenance.packages.get(name, "") for name in MOVED),
                row.provenance.torch_build,
                row.reason if row.outcome is Outcome.UNBUILDABLE else "",
            )
        )
        for row in rows
    }
    place = {name: number for number, name in enumerate(order)}
    key = lambda line: (place.get(line.environment, len(place)), line)  # noqa: E731
    return as_csv(EnvironmentRow._fields, sorted(lines, key=key))


def _cells(rows: Iterable[Observation], order: Sequence[str]) -> str:
    place = {name: number for number, name in enumerate(order)}
    variants: dict[tuple[str, Precision], list[Observation]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: place.get(row.cell.environment, len(place))):
        variants[row.cell.workaround, row.cell.precision].append(row)
    in_order = sorted(variants, key=lambda key: (key[0], [*Precision].index(key[1])))
    return as_csv(
        PublishedRow._fields, [line for key in in_order for line in _lines(variants[key])]
    )


def _lines(rows: Sequence[Observation]) -> list[PublishedRow]:
    """Let neighbours that agree in everything share a row."""
    lines: list[PublishedRow] = []
    for row in rows:
        line = _row(row)
        last = lines[-1] if lines else None
        if last and last._replace(releases="") == line._replace(releases=""):
            lines[-1] = last._replace(releases=f"{last.releases} {line.releases}")
        else:
            lines.append(line)
    return lines


def _row(row: Observation) -> PublishedRow:
    return PublishedRow(
        row.cell.workaround,
        str(row.cell.precision),
        row.cell.environment,
        str(row.outcome),
        str(row.exercised),
        "unstable" if row.unstable else "",
        _failure_id(row.failed) if row.failed else "",
        _pairs(row.computed),
        _pairs({name: float(f"{value:.{_DIGITS}g}") for name, value in row.measured.items()}),
        row.source,
    )


def _pairs(found: Mapping[str, float]) -> str:
    # Cases name what they measure as they like: a name is quoted, so that it is one word.
    quoted = {quote(name, safe="@,:/()<>[]"): found[name] for name in sorted(found)}
    return " ".join(f"{name}={value}" for name, value in quoted.items())


def _failure_id(failed: Failed) -> str:
    # The same words in two places are two failures; each keeps its traceback.
    text = f"{failed.error_class}\n{failed.message}" + f"\n{failed.place}" * bool(failed.place)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _failures(digest: str, failures: Mapping[str, Failed]) -> str:
    content = {
        "case-digest": digest,
        "failures": {
            name: {
                "class": failed.error_class,
                "message": failed.message,
                "signature": failed.signature,
                "traceback": failed.traceback.splitlines(),
            }
            for name, failed in sorted(failures.items())
        },
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
