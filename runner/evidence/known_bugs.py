"""What an issue says of a case, from evidence: its newest failure, its ranges, its commits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.evidence.commits import ChangeKey, PinnedCommit, ends
from repromatrix.runner.judging.issue import KnownBug
from repromatrix.runner.judging.ranges import Axis, affected, axes, bug_of, ranges_along
from repromatrix.runner.markdown import plain
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import TRANSFORMERS

_REPOSITORY = re.compile(r"https://github\.com/[\w.-]+/([\w.-]+)/")

Seen = Mapping[str, Observation]
"""What a case does without a workaround in one precision, by environment."""


def failing_series(
    case: Case, environments: Mapping[str, Environment], rows: Iterable[Observation], title: str
) -> dict[Precision, Seen]:
    """Return what is known of the precisions that fail, on the first device on which one does.

    Failures of other bugs than the one with this title are left out, and so is what an interpreter
    of this machine does: only this machine can repeat it.
    """
    series: dict[tuple[Device, Precision], dict[str, Observation]] = {}
    for cell, row in answering_rows(rows, {case.name: case}, environments).items():
        known = environments.get(cell.environment)
        if known is None or known.source is Source.INTERPRETER or cell.workaround:
            continue
        if not row.reading.fails or bug_of(case, row, known)[0] == title:
            series.setdefault((cell.device, cell.precision), {})[cell.environment] = row
    failing = {
        (device, precision): series[device, precision]
        for device in Device
        for precision in Precision
        if any(row.reading.fails for row in series.get((device, precision), {}).values())
    }
    first = next((device for device, _ in failing), None)
    return {precision: seen for (device, precision), seen in failing.items() if device is first}


def known_bug(  # noqa: PLR0913, PLR0917 - what an issue says
    case: Case,
    environments: Mapping[str, Environment],
    series: Mapping[Precision, Seen],
    precision: Precision,
    commits: Mapping[ChangeKey, PinnedCommit],
    title: str,
) -> KnownBug:
    """Return what is known of a bug in a precision in which it fails, as `series` says."""
    seen = series[precision]
    along = axes(case, environments)
    failing = [(axis, found) for axis in along if (found := ranges_along(axis, seen))]
    axis, ranges = failing[0]
    row = seen[dict(axis)[ranges[-1].releases[-1]]]
    package, versions, fixed = _versions(case, environments, along, seen)
    changes = [ends(commits, row.cell, one, found[-1]) for one, found in failing]
    return KnownBug(
        case=case,
        title=title,
        package=package,
        failing=row,
        packages={**environments[row.cell.environment].pins, **row.provenance.packages},
        ranges=versions,
        fixed=fixed,
        commits=[*dict.fromkeys(sentence for change in changes for sentence in _said(*change))],
        also=[other for other in series if other is not precision],
    )


def _versions(
    case: Case, environments: Mapping[str, Environment], along: Sequence[Axis], seen: Seen
) -> tuple[str, list[str], str]:
    """Return the package at fault, the versions that fail in words, and what fixed it."""
    found = [one for axis in along for one in ranges_along(axis, seen)]
    deciding = next(iter(affected(case, environments, seen)), None)
    if deciding is None:  # only `main` fails
        reported = filter(None, map(_REPOSITORY.match, case.block.reports))
        package = next((each[1] for each in reported), TRANSFORMERS)
        return package, [one.text for one in found], found[-1].until
    package, fixed = deciding.package, deciding.intervals[-1].fixed
    # Ranges of releases say where a gap is.
    spans = found if package == TRANSFORMERS else deciding.intervals
    words = [f"{package} {one.text}" for one in spans]
    return package, words, f"{package} {fixed}" if fixed else ""


def _said(broken: PinnedCommit | None, fixed: PinnedCommit | None) -> Iterator[str]:
    for verb, commit in (("Broken", broken), ("Fixed", fixed)):
        if commit is not None:
            yield f"{verb} by [{commit.label}]({commit.url}): {plain(commit.title)}."
