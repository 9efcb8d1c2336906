"""The evidence in the repository: sorted text that reads well in a diff.

`publications.toml` has a line per publication, `environments.csv` what each environment held,
`<device>/<case>.csv` the cells (releases of one minor line that agree share a row, each named),
and `<device>/<case>.json` each failure once. No times, no paths, no addresses.
"""

from __future__ import annotations

import csv
import json
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from runner.errors import Fault, refuse
from runner.model.cell import Cell
from runner.model.observation import Failed, Observation, Provenance
from runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

FORMAT = 1
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


def _toml(text: str) -> str:
    """Quote a string; TOML knows no surrogate pairs, in which JSON writes what is beyond ASCII."""
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True, slots=True)
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
        facts = {
            "date": self.date,
            "hardware": self.hardware,
            "torch": self.torch_build,
            "python": self.python,
            "main": self.main,
        }
        inside = ", ".join(f"{key} = {_toml(value)}" for key, value in facts.items())
        return f"{_toml(self.name)} = {{ {inside} }}\n"


def read_publications(folder: Path) -> dict[str, Publication]:
    """Return the publications by name; raises RunnerError when they are of a newer format."""
    path = folder / "publications.toml"
    if not path.exists():
        return {}
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    if table.get("format", 0) > FORMAT:
        found, allowed = f"format {table['format']}", f"format {FORMAT} or older"
        raise refuse(Fault(where=path.name, found=found, allowed=allowed, remedy="Update."))
    return {
        name: Publication(
            name=name,
            date=line["date"],
            hardware=line["hardware"],
            torch_build=line["torch"],
            python=line["python"],
            main=line["main"],
        )
        for name, line in table["publications"].items()
    }


def read(folder: Path, cases: Collection[str] | None = None) -> Iterator[Observation]:
    """Yield every published cell, or those of some cases; raises RunnerError for a bad file."""
    publications = read_publications(folder)
    environments = {
        (row.environment, row.publication, row.digest): row
        for row in map(EnvironmentRow._make, _lines_of(folder / "environments.csv"))
    }
    held = {(row.environment, row.publication): row for row in environments.values()}
    for path in sorted(folder.glob("*/*.csv")):
        if cases is not None and path.stem not in cases:
            continue
        yield from _read_file(path, held, publications)


def _lines_of(path: Path) -> Iterator[list[str]]:
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        next(lines, None)
        yield from lines


def _read_file(
    path: Path,
    held: Mapping[tuple[str, str], EnvironmentRow],
    publications: Mapping[str, Publication],
) -> Iterator[Observation]:
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    failures = {name: _failed(line) for name, line in about["failures"].items()}
    for row in map(Row._make, _lines_of(path)):
        for release in row.releases.split():
            yield _observation(
                path,
                row,
                held[release, row.publication],
                failures.get(row.failure),
                publications[row.publication],
                about["case-digest"],
            )


def _failed(line: Mapping[str, str]) -> Failed:
    return Failed(
        error_class=line["class"],
        message=line["message"],
        signature=line["signature"],
        traceback="\n".join(line["traceback"]),
    )


def _observation(  # noqa: PLR0913, PLR0917 - one row is joined from five files
    path: Path,
    row: Row,
    held: EnvironmentRow,
    failed: Failed | None,
    publication: Publication,
    digest: str,
) -> Observation:
    packages = {name: getattr(held, name) for name in _PACKAGES if getattr(held, name)}
    return Observation(
        cell=Cell(
            path.stem,
            row.workaround,
            held.environment,
            Precision(row.precision),
            Device(path.parent.name),
        ),
        outcome=Outcome(row.outcome),
        provenance=Provenance(
            case_digest=digest,
            environment_digest=held.digest,
            packages=packages,
            python=held.python,
            torch_build=held.torch,
            hardware=publication.hardware,
            protocol=1,
            run=publication.name,
        ),
        source=publication.name,
        failed=failed,
        reason=held.reason if row.outcome == Outcome.UNBUILDABLE else "",
        exercised=Exercised(row.exercised),
        computed={name: int(number) for name, number in _unpaired(row.computed)},
        measured={name: float(number) for name, number in _unpaired(row.measured)},
        unstable="unstable" in row.flags.split(),
    )


def _unpaired(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split():
        name, _, number = pair.rpartition("=")
        yield unquote(name), number
