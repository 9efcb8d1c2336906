"""Writing the published set: a text per file, the same evidence always to the same bytes."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import defaultdict
from typing import TYPE_CHECKING
from urllib.parse import quote

from runner.evidence.publications import FORMAT
from runner.evidence.published import EnvironmentRow, Row
from runner.model.outcomes import Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from runner.evidence.publications import Publication
    from runner.model.observation import Failed, Observation

_DIGITS = 4


def write(
    folder: Path,
    rows: Sequence[Observation],
    publications: Sequence[Publication],
    order: Sequence[str],
) -> dict[Path, str]:
    """Return the files of a published set and their texts; the caller writes all or none."""
    files = {folder / "publications.toml": _publications(publications)}
    files[folder / "environments.csv"] = _environments(rows, order)
    for (device, case), own in _by_file(rows).items():
        failures = {_failure_id(row.failed): row.failed for row in own if row.failed}
        base = folder / device
        files[base / f"{case}.csv"] = _cells(own, order)
        files[base / f"{case}.json"] = _failures(_digest(own), failures)
    return files


def _digest(rows: Sequence[Observation]) -> str:
    """Return which case was run; what could not be built may have been tried with an older one."""
    return max(rows, key=lambda row: row.outcome.was_run).provenance.case_digest


def _publications(publications: Sequence[Publication]) -> str:
    head = f"# Written by `nox -s publish`; one line per publication.\nformat = {FORMAT}\n\n"
    return head + "[publications]\n" + "".join(sorted(one.line() for one in publications))


def _by_file(rows: Iterable[Observation]) -> dict[tuple[str, str], list[Observation]]:
    files: dict[tuple[str, str], list[Observation]] = defaultdict(list)
    for row in rows:
        files[str(row.cell.device), row.cell.case].append(row)
    return dict(sorted(files.items()))


def _environments(rows: Iterable[Observation], order: Sequence[str]) -> str:
    found = {_environment_row(row) for row in rows}
    place = {name: number for number, name in enumerate(order)}
    key = lambda row: (place.get(row.environment, len(place)), row)  # noqa: E731
    return _csv(EnvironmentRow._fields, sorted(found, key=key))


def _environment_row(row: Observation) -> EnvironmentRow:
    provenance = row.provenance
    return EnvironmentRow(
        row.cell.environment,
        row.source,
        provenance.environment_digest,
        provenance.python,
        provenance.packages.get("transformers", ""),
        provenance.packages.get("accelerate", ""),
        provenance.packages.get("peft", ""),
        provenance.torch_build,
        row.reason if row.outcome is Outcome.UNBUILDABLE else "",
    )


def _cells(rows: Iterable[Observation], order: Sequence[str]) -> str:
    place = {name: number for number, name in enumerate(order)}
    variants: dict[tuple[str, Precision], list[Observation]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: place.get(row.cell.environment, len(place))):
        variants[row.cell.workaround, row.cell.precision].append(row)
    lines = [line for key in sorted(variants, key=_variant_key) for line in _lines(variants[key])]
    return _csv(Row._fields, lines)


def _variant_key(key: tuple[str, Precision]) -> tuple[str, int]:
    return key[0], list(Precision).index(key[1])


def _lines(rows: Sequence[Observation]) -> list[Row]:
    """Let neighbours of one minor line that agree in everything share a row."""
    lines: list[Row] = []
    for row in rows:
        line = _row(row)
        last = lines[-1] if lines else None
        if last and _minor(last.releases) == _minor(line.releases) and _alike(last, line):
            lines[-1] = last._replace(releases=f"{last.releases} {line.releases}")
        else:
            lines.append(line)
    return lines


def _minor(releases: str) -> str:
    return ".".join(releases.partition(" ")[0].split(".")[:2])


def _alike(one: Row, other: Row) -> bool:
    return one._replace(releases="") == other._replace(releases="")


def _row(row: Observation) -> Row:
    return Row(
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
    return " ".join(f"{_word(name)}={value}" for name, value in sorted(found.items()))


def _word(name: str) -> str:
    """Write a name as one word: cases name what they measure as they like."""
    return quote(name, safe="@,:/()<>[]")


def _failure_id(failed: Failed) -> str:
    text = f"{failed.error_class}\n{failed.message}"
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


def _csv(fields: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows(rows)
    return text.getvalue()
