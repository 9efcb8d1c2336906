"""The published history of the sweep: small tables, read and written.

The same answers always give the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from repromatrix.runner.evidence.swept.history import (
    Architecture,
    ProbeRun,
    SweepHistory,
    SweptRelease,
)
from repromatrix.runner.evidence.swept.probes import PROBES, WEIGHTS
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.evidence.tables import as_csv, read_rows

FOLDER = "sweep"
"""Where it lies in the published set."""
CLASSES = f"{FOLDER}/classes"
"""Where the same tables lie about further classes of architectures."""
_WRITTEN = "`nox -s sweep -- --publish` writes this file; git has its last version."


class RefusedType(NamedTuple):
    """An architecture or a further class without a recipe, and why."""

    architecture: str
    """Of a class `bert:BertForMaskedLM`."""
    release: str
    """The release on which it was last tried."""
    kind: str
    reason: str


BAD_IN_16_BIT, BAD_IN_FP32 = "bad in 16 bit", "bad in fp32"
"""The kinds of findings about one release."""


class PublishedFinding(NamedTuple):
    """What a release changed, or what does not hold on the newest: all text."""

    release: str
    against: str
    """The release before it in the line; empty for what is about one release."""
    name: str
    kind: str
    architectures: str
    """Separated by spaces, as the probes are."""
    probes: str
    what: str
    """What its first architecture says."""
    place: str


class _OutcomeRow(NamedTuple):
    architecture: str
    probe: str
    first: str
    last: str
    status: str
    error: str
    place: str
    what: str
    value: str


class _NumbersRow(NamedTuple):
    architecture: str
    probe: str
    first: str
    last: str
    weights: str
    outputs: str


class _ReleaseRow(NamedTuple):
    release: str
    environment: str
    hardware: str
    types: str
    probes: str
    """Those that were run: a probe that is written later was not."""
    missing: str
    chosen: str
    code: str


def read_history(published: Path, folder: str = FOLDER) -> SweepHistory:
    """Return a published history, an empty one without files; raises RunnerError."""
    where = published / folder
    releases = read_rows(where / "releases.csv", _ReleaseRow, _WRITTEN)
    outcomes = read_rows(where / "outcomes.csv", _OutcomeRow, _WRITTEN)
    numbers = read_rows(where / "numbers.csv", _NumbersRow, _WRITTEN)
    return SweepHistory(
        releases={
            row.release: SweptRelease(
                row.release,
                row.environment,
                row.hardware,
                int(row.types),
                _others(row.probes.split()),
                tuple(row.missing.split()),
                tuple(row.chosen.split()),
                row.code,
            )
            for row in releases
        },
        architectures={row.name: row for row in read_architectures(published, folder)},
        outcomes=_by_key(map(_outcome_run, outcomes)),
        numbers=_by_key(map(_numbers_run, numbers)),
    )


def read_architectures(published: Path, folder: str = FOLDER) -> tuple[Architecture, ...]:
    """Return the architectures that were swept; raises RunnerError."""
    return read_rows(published / folder / "architectures.csv", Architecture, _WRITTEN)


def read_refused(published: Path, folder: str = FOLDER) -> tuple[RefusedType, ...]:
    """Return the architectures that have no recipe; raises RunnerError."""
    return read_rows(published / folder / "refused.csv", RefusedType, _WRITTEN)


def read_findings(published: Path, folder: str = FOLDER) -> tuple[PublishedFinding, ...]:
    """Return what releases changed, in their order; raises RunnerError."""
    return read_rows(published / folder / "findings.csv", PublishedFinding, _WRITTEN)


def texts(
    published: Path,
    history: SweepHistory,
    refused: Iterable[RefusedType],
    findings: Iterable[PublishedFinding],
    folder: str = FOLDER,
) -> dict[Path, str]:
    """Return the files of a history."""
    tables = {
        "releases": (_ReleaseRow._fields, map(_release_row, history.releases.values())),
        "architectures": (Architecture._fields, history.architectures.values()),
        "outcomes": (_OutcomeRow._fields, _outcome_rows(history.outcomes)),
        "numbers": (_NumbersRow._fields, _numbers_rows(history.numbers)),
        "findings": (PublishedFinding._fields, findings),
        "refused": (RefusedType._fields, sorted(refused)),
    }
    where = published / folder
    return {where / f"{name}.csv": as_csv(*table) for name, table in tables.items()}


def _by_key(runs: Iterable[ProbeRun]) -> dict[ProbeKey, tuple[ProbeRun, ...]]:
    found: dict[ProbeKey, list[ProbeRun]] = {}
    for run in runs:
        found.setdefault(run.record.key, []).append(run)
    return {key: tuple(some) for key, some in found.items()}


def _release_row(release: SweptRelease) -> _ReleaseRow:
    return _ReleaseRow(
        release.name,
        release.environment,
        release.hardware,
        str(release.types),
        " ".join(_others(release.lacking)),
        " ".join(release.missing),
        " ".join(release.chosen),
        release.code,
    )


def _others(names: Collection[str]) -> tuple[str, ...]:
    return tuple(probe.name for probe in PROBES if probe.name not in names)


def _outcome_rows(outcomes: Mapping[ProbeKey, Iterable[ProbeRun]]) -> Iterator[_OutcomeRow]:
    for key, runs in outcomes.items():
        for run in runs:
            record = run.record
            what = record.text
            value = "" if record.value is None else f"{record.value:.4g}"
            yield _OutcomeRow(
                *key, run.first, run.last, record.status, record.error, record.place, what, value
            )


def _outcome_run(row: _OutcomeRow) -> ProbeRun:
    record = ProbeRecord(
        key=ProbeKey(row.architecture, row.probe),
        status=ProbeStatus(row.status),
        error=row.error,
        message=row.what if row.error else "",
        place=row.place,
        value=float(row.value) if row.value else None,
        why="" if row.error else row.what,
    )
    return ProbeRun(row.first, row.last, record)


def _numbers_rows(numbers: Mapping[ProbeKey, Iterable[ProbeRun]]) -> Iterator[_NumbersRow]:
    for key, runs in numbers.items():
        for run in runs:
            summary = dict(run.record.summary)
            weights = str(summary.pop(WEIGHTS, ""))
            yield _NumbersRow(*key, run.first, run.last, weights, _outputs(summary))


def _numbers_run(row: _NumbersRow) -> ProbeRun:
    weights = {WEIGHTS: row.weights} if row.weights else {}
    record = ProbeRecord(
        key=ProbeKey(row.architecture, row.probe),
        status=ProbeStatus.HOLDS,
        summary={**weights, **_summary(row.outputs)},
    )
    return ProbeRun(row.first, row.last, record)


def _outputs(summary: Mapping[str, Any]) -> str:
    """Return `logits 2x7x99 1 12.3456 0.1,-0.2,nan; …`: shape, finite share, norm and samples."""
    return "; ".join(
        f"{name or '-'} {'x'.join(map(str, one['shape']))} {one['finite']:.6g} {one['norm']:.6g}"
        f" {','.join('nan' if value is None else f'{value:.6g}' for value in one['samples'])}"
        for name, one in summary.items()
    )


def _summary(text: str) -> dict[str, Any]:
    found = {}
    for part in text.split("; ") if text else ():
        name, shape, finite, norm, samples = part.split(" ")
        found["" if name == "-" else name] = {
            "shape": [int(size) for size in shape.split("x") if size],
            "finite": float(finite),
            "norm": float(norm),
            "samples": [
                None if value == "nan" else float(value) for value in samples.split(",") if value
            ],
        }
    return found
