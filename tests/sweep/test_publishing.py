"""What is published of a release that was measured in part."""

from __future__ import annotations

from swept import LINE, line, record

from repromatrix.runner.sweep.history import SweptRelease
from repromatrix.runner.sweep.publishing import MeasuredRelease, merged
from repromatrix.runner.sweep.records import ProbeKey, ProbeStatus

HOLDS, FAILS = ProbeStatus.HOLDS, ProbeStatus.FAILS
EARLIER = line(
    *([record("llama", "static", one), record("gptj", "static", HOLDS)] for one in (HOLDS, FAILS))
)
"""4.49.0, then 4.50.0, which breaks llama."""
NAMES = ("4.49.0", "4.49.1", *LINE[1:])


def measured(name: str, *kinds: str, lacking: int) -> dict[str, MeasuredRelease]:
    """Return a release on which architectures hold, with cells that are still to be measured."""
    found = {one.key: one for kind in kinds for one in [record(kind, "static", HOLDS)]}
    release = SweptRelease(name, "e1", "x86_64", 300, (), (), kinds if lacking else ())
    return {name: MeasuredRelease(release, found, lacking)}


def published(mine: dict[str, MeasuredRelease], *, gaps: bool = False) -> tuple[list[str], object]:
    found = merged(mine, NAMES, {}, EARLIER, gaps=gaps)
    return [*found.history.releases], found.incomplete


def test_a_release_between_is_published_once_it_has_what_its_neighbours_differ_on() -> None:
    assert published(measured("4.49.1", "llama", lacking=1)) == (["4.49.0", "4.49.1", "4.50.0"], {})
    assert published(measured("4.49.1", "gptj", lacking=1)) == (["4.49.0", "4.50.0"], {"4.49.1": 1})
    assert published(measured("4.49.1", "gptj", lacking=1), gaps=True)[0][1] == "4.49.1"


def test_a_release_that_is_published_whole_stays_until_it_is_measured_whole() -> None:
    assert published(measured("4.50.0", "llama", lacking=2))[1] == {"4.50.0": 2}

    kept = merged(measured("4.50.0", "llama", "gptj", lacking=0), NAMES, {}, EARLIER).history
    found = kept.record(ProbeKey("llama", "static"), "4.50.0")
    assert found is not None
    assert found.status is HOLDS
