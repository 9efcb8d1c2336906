"""What the page of versions looks up of the sweep: states that do not hold, by release."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping
from typing import Any

from repromatrix.reports.text import shortened, visible
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import DTYPES
from repromatrix.runner.evidence.swept.records import ProbeRecord, ProbeStatus

_LONGEST = 200


def swept_data(
    history: SweepHistory, classes: SweepHistory, addresses: Mapping[str, str]
) -> dict[str, Any]:
    """Return the tables; of what is bad with its words, of all else the kind of state alone.

    Places count releases and probes; `addresses` are those of the pages of architectures. Of
    further classes only those of which something does not hold are there.
    """
    bad = {
        key.kind
        for key, runs in classes.outcomes.items()
        if any(run.record.status.is_bad for run in runs)
    }
    return {
        "probes": [*DTYPES.items()],
        "addresses": {visible(kind): href for kind, href in addresses.items()},
        **_tables(history, history.architectures),
        "classes": _tables(classes, bad),
    }


def _tables(history: SweepHistory, kinds: Container[str]) -> dict[str, Any]:
    """Return what is known of some of the architectures of a history."""
    number = {name: at for at, name in enumerate(DTYPES)}
    runs: defaultdict[str, list[list[Any]]] = defaultdict(list)
    for key, some in history.outcomes.items():
        runs[key.kind] += [
            [
                number[key.probe],
                history.order[run.first],
                history.order[run.last],
                *_state(run.record),
            ]
            for run in some
        ]
    return {
        "releases": [*history.releases],
        "lacking": [
            [number[name] for name in release.lacking if name in number]
            for release in history.releases.values()
        ],
        "architectures": {
            visible(kind): {
                "class": visible(one.class_name),
                "first": history.order[one.first],
                "missing": [
                    at
                    for at, release in enumerate(history.releases.values())
                    if not release.ran(kind)
                ],
                "runs": runs[kind],
            }
            for kind, one in history.architectures.items()
            if kind in kinds
        },
    }


def _state(record: ProbeRecord) -> list[Any]:
    if record.status.is_bad:
        words = shortened(record.headline, _LONGEST)
        return [0, record.status.value, words, visible(record.place)]
    return [1 if record.status is ProbeStatus.SKIPPED else 2]
