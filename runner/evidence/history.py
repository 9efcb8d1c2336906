"""What cases did along the main branch of a package, as it is kept and published: `main.json`.

A point is a commit of the first-parent line. What a case did at the points is written as runs of
points that agree, so that hundreds of points stay a file that reads well in a diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from repromatrix.runner import files
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.evidence.database import addressed
from repromatrix.runner.evidence.published import WRITTEN
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths

NAME = "main.json"
_FORMAT = 1


class HistoryPoint(NamedTuple):
    """A commit of the main branch; sorts by date."""

    date: str
    """When it was committed, ISO 8601 in UTC."""
    commit: str
    version: str
    """What its sources declare."""

    @property
    def day(self) -> str:
        """The day on which it was committed."""
        return self.date[:10]


class HistoryKey(NamedTuple):
    """Which cell of each point: a plain case in one precision on one device."""

    case: str
    digest: str
    """Of the case: what an edited case did is not what it does."""
    precision: Precision
    device: Device


class HistoryAnswer(NamedTuple):
    """What a case did at a point."""

    fails: bool | None
    """None where it could not be judged."""
    reason: str
    """The first line of the error, or why it could not be judged; `passes` where it does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MainHistory:
    """What cases did at points of the main branch of transformers."""

    repository: str = ""
    """The clone's address; empty where it has none."""
    points: tuple[HistoryPoint, ...] = ()
    """Oldest first."""
    answers: Mapping[HistoryKey, Mapping[str, HistoryAnswer]] = field(default_factory=dict)
    """By the commits of the points; one that was not asked is missing."""

    def of(self, case: Case, device: Device = Device.CPU) -> dict[Precision, list[HistorySpan]]:
        """Return what a case, as it stands today, did along the points, by precision."""
        found = {
            precision: [*self._spans(HistoryKey(case.name, case.digest, precision, device))]
            for precision in Precision
        }
        return {precision: spans for precision, spans in found.items() if spans}

    def _spans(self, key: HistoryKey) -> Iterator[HistorySpan]:
        answers = self.answers.get(key, {})
        asked = [point for point in self.points if point.commit in answers]
        for fails, members in groupby(asked, lambda point: answers[point.commit].fails):
            points = tuple(members)
            reasons = dict.fromkeys(answers[point.commit].reason for point in points)
            yield HistorySpan(fails=fails, reasons=tuple(reasons), points=points)

    def merged(self, newer: MainHistory) -> MainHistory:
        """Return both; where both answer for a point, the newer does."""
        answers = {key: dict(found) for key, found in self.answers.items()}
        for key, found in newer.answers.items():
            answers.setdefault(key, {}).update(found)
        asked = {commit for found in answers.values() for commit in found}
        points = {point.commit: point for point in (*self.points, *newer.points)}
        return MainHistory(
            repository=newer.repository or self.repository,
            points=tuple(sorted(point for name, point in points.items() if name in asked)),
            answers=answers,
        )

    def within(self, cases: Mapping[str, Case]) -> MainHistory:
        """Return what is about cases as they stand today."""
        kept = {
            key: found
            for key, found in self.answers.items()
            if key.case in cases and cases[key.case].digest == key.digest
        }
        return MainHistory(repository=self.repository, points=self.points).merged(
            MainHistory(points=self.points, answers=kept)
        )


class HistorySpan(NamedTuple):
    """Neighbouring points at which a case fails, or passes, or was not judged."""

    fails: bool | None
    reasons: tuple[str, ...]
    """In their order along the points."""
    points: tuple[HistoryPoint, ...]

    @property
    def first(self) -> HistoryPoint:
        """The oldest of the points."""
        return self.points[0]

    @property
    def last(self) -> HistoryPoint:
        """The newest of the points."""
        return self.points[-1]


def as_text(history: MainHistory) -> str:
    """Return the text of the file; the same history gives the same bytes."""
    places = {point.commit: place for place, point in enumerate(history.points)}
    head = {"format": _FORMAT, "repository": history.repository}
    lines = [
        f"{json.dumps(head)[:-1]}",
        f' "points": [\n{_listed(list(point) for point in history.points)}\n]',
        f' "answers": [\n{_listed(_written(history.answers, places))}\n]',
    ]
    return ",\n".join(lines) + "}\n"


def _listed(rows: Iterable[object]) -> str:
    # In ASCII: an error may hold surrogates, which no file can.
    return ",\n".join(json.dumps(row) for row in rows)


def _written(
    answers: Mapping[HistoryKey, Mapping[str, HistoryAnswer]], places: Mapping[str, int]
) -> Iterator[list[object]]:
    for key in sorted(answers):
        at = {places[commit]: answer for commit, answer in answers[key].items()}
        runs: list[list[object]] = []
        for place in sorted(at):
            answer = at[place]
            if runs and runs[-1][1] == place - 1 and runs[-1][2:] == [*answer]:
                runs[-1][1] = place
            else:
                runs.append([place, place, *answer])
        yield [*key, runs]


def read_history(path: Path) -> MainHistory:
    """Return what a file holds; nothing without it. Raises RunnerError where it is damaged."""
    if not path.exists():
        return MainHistory()
    with addressed(path.name, WRITTEN):
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] > _FORMAT:
            what = f"the file has format {content['format']}; this version reads {_FORMAT} at most"
            raise refuse(Problem(path.name, what, "Update repromatrix."))
        points = tuple(HistoryPoint(*point) for point in content["points"])
        answers = {
            HistoryKey(case, digest, Precision(precision), Device(device)): {
                points[place].commit: HistoryAnswer(fails, reason)
                for first, last, fails, reason in runs
                for place in range(first, last + 1)
            }
            for case, digest, precision, device, runs in content["answers"]
        }
        return MainHistory(repository=content["repository"], points=points, answers=answers)


def published_history(paths: Paths) -> MainHistory:
    """Return what is published; raises RunnerError."""
    return read_history(paths.published / NAME)


def known_history(paths: Paths) -> MainHistory:
    """Return what is published and what was measured here since; raises RunnerError."""
    return published_history(paths).merged(read_history(paths.history))


def keep(paths: Paths, found: MainHistory) -> None:
    """Keep what was measured on this machine, beside what was kept before."""
    paths.history.parent.mkdir(parents=True, exist_ok=True)
    files.write(paths.history, as_text(read_history(paths.history).merged(found)))
