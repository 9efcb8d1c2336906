"""The published set in the repository: sorted text that reads well in a diff, read and written.

The same evidence always gives the same bytes.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import io
import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


def read(folder: Path, cases: Collection[str] | None = None) -> Iterator[Observation]:
    """Yield every published cell, or those of some cases; raises RunnerError for a bad file."""
    found = PublishedSet(folder)
    for cells in found.cells(cases):
        yield from found.rows(cells)


class PublishedCells(NamedTuple):
    """Cells of a line that did the same, as a file holds them: one row, many environments."""

    line: Line
    case_digest: str
    row: PublishedRow
    names: Sequence[str]
    """The environments."""


class _CaseFiles(NamedTuple):
    """What is published of a case on a device, as its two files have it."""

    case_digest: str
    failures: Mapping[str, Any]
    lines: Mapping[tuple[str, str], list[list[str]]]
    """The rows by workaround and precision, in their order."""


class PublishedSet:
    """A published set; the files of a case are read once, when they are asked for.

    Raises RunnerError for a bad file, as do its methods.
    """

    def __init__(self, folder: Path) -> None:
        """Read what was published, and what the environments held."""
        self._folder = folder
        self._publications = read_publications(folder)
        with addressed(ENVIRONMENTS, WRITTEN):
            rows = map(EnvironmentRow._make, _lines_of(folder / ENVIRONMENTS))
            self._environments = {(row.environment, row.publication): row for row in rows}
        self._files: dict[tuple[str, str], _CaseFiles] = {}
        self._provenances: dict[tuple[str, str, str], Provenance] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what is kept of it: what was read, not what follows from that."""
        return {**self.__dict__, "_provenances": {}}

    def cells(self, cases: Collection[str] | None = None) -> Iterator[PublishedCells]:
        """Yield the published cells in groups, or those of some cases."""
        for path in sorted(cell_files(self._folder)):
            if cases is None or path.stem in cases:
                device = Device(path.parent.name)
                with in_table(path.stem, device):
                    digest, _, lines = self._read(path.stem, device)
                    for (workaround, word), rows in lines.items():
                        line = (path.stem, workaround, Precision(word), device)
                        for row in map(PublishedRow._make, rows):
                            yield PublishedCells(line, digest, row, row.releases.split())

    def of(self, cell: Cell) -> Iterator[Observation]:
        """Yield the rows of one cell: one, none, or after a bad merge several."""
        with in_table(cell.case, cell.device):
            digest, _, lines = self._read(cell.case, cell.device)
            for fields in lines.get((cell.workaround, cell.precision), ()):
                row = PublishedRow._make(fields)
                if cell.environment in row.releases.split():
                    yield from self.rows(PublishedCells(cell.line, digest, row, [cell.environment]))

    def held(self, name: str, publication: str) -> EnvironmentRow:
        """Return what an environment held when a publication measured it."""
        return self._environments[name, publication]

    def _read(self, case: str, device: str) -> _CaseFiles:
        """Return what the files of a case hold; nothing where there is no table."""
        if (case, device) not in self._files:
            path = self._folder / device / f"{case}.csv"
            lines: dict[tuple[str, str], list[list[str]]] = {}
            for fields in _lines_of(path):
                # Many rows say the same: it is kept once, in memory and in what is made of it.
                lines.setdefault((fields[0], fields[1]), []).append([*map(sys.intern, fields)])
            digest, failures = "", {}
            if path.exists():
                with addressed(f"{device}/{case}.json", WRITTEN):
                    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
                    digest, failures = str(about["case-digest"]), dict(about["failures"])
            self._files[case, device] = _CaseFiles(digest, failures, lines)
        return self._files[case, device]

    def rows(self, cells: PublishedCells) -> Iterator[Observation]:
        """Yield the cells of a group."""
        (case, workaround, precision, device), digest, row, names = cells
        with in_table(case, device):
            failures = self._read(case, device).failures
            failed = _failed(failures[row.failure]) if row.failure in failures else None
            outcome, exercised = Outcome(row.outcome), Exercised(row.exercised)
            was_built = outcome is not Outcome.UNBUILDABLE
            computed, measured = _numbers(row.computed, int), _numbers(row.measured, float)
            unstable = "unstable" in row.flags.split()
            for name in names:
                yield Observation(
                    cell=Cell(case, workaround, name, precision, device),
                    outcome=outcome,
                    provenance=self._ran_on(digest, name, row.publication),
                    source=row.publication,
                    failed=failed,
                    reason="" if was_built else self.held(name, row.publication).reason,
                    exercised=exercised,
                    computed=computed,
                    measured=measured,
                    unstable=unstable,
                )

    def _ran_on(self, case_digest: str, name: str, publication: str) -> Provenance:
        """Return what cells of a case ran on; those of all precisions and workarounds share it."""
        key = (case_digest, name, publication)
        if key not in self._provenances:
            held = self.held(name, publication)
            self._provenances[key] = Provenance(
                case_digest=case_digest,
                environment_digest=held.digest,
                packages=_packages(held),
                python=held.python,
                torch_build=held.torch,
                hardware=self._publications[publication].hardware,
                protocol=MEASURED,
                run=publication,
            )
        return self._provenances[key]


def in_table(case: str, device: str) -> contextlib.AbstractContextManager[None]:
    """Let errors in a block name the table of a case."""
    return addressed(f"{device}/{case}.csv", WRITTEN)


def _lines_of(path: Path) -> Iterator[list[str]]:
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            lines = csv.reader(io.StringIO(file.read(), newline=""))
        next(lines, None)
        yield from lines


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
