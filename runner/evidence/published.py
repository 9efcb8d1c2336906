"""The evidence in the repository: sorted text that reads well in a diff.

`publications.toml` has a line per publication, `environments.csv` what each environment held,
`<device>/<case>.csv` the cells (releases of one minor line that agree share a row, each named),
and `<device>/<case>.json` each failure once. No times, no paths, no addresses.
"""

from __future__ import annotations

import csv
import functools
import json
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from runner.evidence.damage import UNREADABLE, addressed, damaged
from runner.evidence.publications import WRITTEN, read_publications
from runner.judging.ranges import judged
from runner.model.cell import Cell
from runner.model.observation import Failed, Observation, Provenance
from runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from runner.evidence.publications import Publication

    Keep = Callable[[str, str, Precision, Device], Collection[str] | None]
    """Names the environments that are wanted of a case, workaround, precision and device.

    None stands for all of them. What is not read costs nothing.
    """

MEASURED = 1
"""The protocol of what is published in this format."""
_PACKAGES = ("transformers", "accelerate", "peft")


class Row(NamedTuple):
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


_VARIANT = itemgetter(0, 1)


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


def read(
    folder: Path, cases: Collection[str] | None = None, keep: Keep | None = None
) -> Iterator[Observation]:
    """Yield every published cell, or those of some cases; raises RunnerError for a bad file."""
    for sheet in sheets(folder, cases):
        with addressed(sheet.where, WRITTEN):
            for wanted, rows in sheet.variants(keep):
                for row in rows:
                    yield from (sheet.observation(row, cell) for cell in sheet.cells(row, wanted))


def sheets(folder: Path, cases: Collection[str] | None = None) -> Iterator[Sheet]:
    """Yield the published files, or those of some cases; raises RunnerError for a bad file."""
    publications = read_publications(folder)
    path = folder / "environments.csv"
    with addressed(path.name, WRITTEN):
        rows = map(EnvironmentRow._make, _lines_of(path))
        held = {(row.environment, row.publication): row for row in rows}
    for path in sorted(folder.glob("*/*.csv")):
        if cases is None or path.stem in cases:
            with addressed(f"{path.parent.name}/{path.stem}.json", WRITTEN):
                sheet = Sheet(path, held, publications)
            yield sheet


def _lines_of(path: Path) -> Iterator[list[str]]:
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        next(lines, None)
        yield from lines


class Sheet:
    """The published cells of a case on a device; what is not asked for is not taken apart."""

    def __init__(
        self,
        path: Path,
        held: Mapping[tuple[str, str], EnvironmentRow],
        publications: Mapping[str, Publication],
    ) -> None:
        """Read the file beside the cells; `held` are the environments by name and publication."""
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        self.case, self.device = path.stem, Device(path.parent.name)
        self.case_digest: str = about["case-digest"]
        self.held = held
        self._failures: Mapping[str, Mapping[str, Any]] = about["failures"]
        self._publications, self._path = publications, path
        self.where = f"{path.parent.name}/{path.name}"
        self._ran: dict[tuple[str, str], Provenance] = {}
        self._saying: dict[Row, _Said] = {}

    def variants(
        self, keep: Keep | None = None
    ) -> Iterator[tuple[Collection[str] | None, Iterator[Row]]]:
        """Yield the rows of each wanted variant, with the wanted environments: None is all."""
        for (workaround, precision), lines in groupby(_lines_of(self._path), key=_VARIANT):
            asked = (self.case, workaround, Precision(precision), self.device)
            wanted = None if keep is None else keep(*asked)
            if wanted is None or wanted:
                yield wanted, map(Row._make, lines)

    def cells(self, row: Row, wanted: Collection[str] | None) -> list[Cell]:
        """Return the wanted cells of a row."""
        names = row.releases.split()
        if wanted is not None:
            names = [name for name in names if name in wanted]
        if not names:
            return []
        case, workaround, precision, device = self.case, row[0], Precision(row[1]), self.device
        return [Cell(case, workaround, name, precision, device) for name in names]

    def observation(self, row: Row, cell: Cell) -> Observation:
        """Return a cell of a row in full; raises RunnerError where the row is none of ours."""
        try:
            return self._observation(row, cell)
        except UNREADABLE as error:
            raise damaged(self.where, error, WRITTEN) from error

    def _observation(self, row: Row, cell: Cell) -> Observation:
        key = (cell.environment, row.publication)
        if key not in self._ran:
            publication = self._publications[row.publication]
            self._ran[key] = _provenance(self.held[key], publication, self.case_digest)
        if row not in self._saying:
            failure = self._failures.get(row.failure)
            self._saying[row] = _said(row, _failed(failure) if failure else None)
        return _observation(cell, self._ran[key], self._saying[row], self.held[key].reason)


def _failed(line: Mapping[str, Any]) -> Failed:
    return Failed(
        error_class=line["class"],
        message=line["message"],
        signature=line["signature"],
        traceback="\n".join(line["traceback"]),
    )


class _Said(NamedTuple):
    """What the releases of a row have in common."""

    outcome: Outcome
    exercised: Exercised
    failed: Failed | None
    computed: Mapping[str, int]
    measured: Mapping[str, float]
    unstable: bool


def _said(row: Row, failed: Failed | None) -> _Said:
    return _Said(
        outcome=Outcome(row.outcome),
        exercised=Exercised(row.exercised),
        failed=failed,
        computed=_counts(row.computed),
        measured=_numbers(row.measured),
        unstable="unstable" in row.flags.split(),
    )


@functools.lru_cache(maxsize=4096)
def _packages(held: EnvironmentRow) -> Mapping[str, str]:
    return {name: version for name in _PACKAGES if (version := getattr(held, name))}


def _provenance(held: EnvironmentRow, publication: Publication, digest: str) -> Provenance:
    return Provenance(
        case_digest=digest,
        environment_digest=held.digest,
        packages=_packages(held),
        python=held.python,
        torch_build=held.torch,
        hardware=publication.hardware,
        protocol=MEASURED,
        run=publication.name,
    )


def _observation(cell: Cell, ran: Provenance, said: _Said, reason: str) -> Observation:
    return Observation(
        cell=cell,
        outcome=said.outcome,
        provenance=ran,
        source=ran.run,
        failed=said.failed,
        reason=reason if said.outcome is Outcome.UNBUILDABLE else "",
        exercised=said.exercised,
        computed=said.computed,
        measured=said.measured,
        unstable=said.unstable,
    )


@functools.lru_cache(maxsize=256)
def fails(outcome: str, exercised: str, flags: str) -> bool | None:
    """Say what the texts of a row say of its cells; None where that could not be relied on."""
    unstable = "unstable" in flags.split()
    return judged(Outcome(outcome), Exercised(exercised), unstable=unstable)


@functools.lru_cache(maxsize=4096)
def _numbers(text: str) -> Mapping[str, float]:
    """Read numbers by name; cells that did the same have the same, so few texts are read."""
    return {name: float(number) for name, number in _unpaired(text)}


@functools.lru_cache(maxsize=4096)
def _counts(text: str) -> Mapping[str, int]:
    return {name: int(number) for name, number in _unpaired(text)}


def _unpaired(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split():
        name, _, number = pair.rpartition("=")
        yield unquote(name) if "%" in name else name, number
