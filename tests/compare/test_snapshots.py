"""What a publication changes against the set that stood there, as it is written and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import BREAKS, case, case_text, cell, failed, seen
from rich.console import Console
from small_checkout import Toy

from repromatrix.runner.cli.publish import publish_all
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.compare.snapshots import (
    Changed,
    SnapshotRecord,
    compared,
    read_changes,
    written,
)
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.outcomes import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.paths import Paths


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    return small_checkout.checkout(tmp_path)


ORDER = ("4.49.0", "4.50.0", "4.50.1", "4.51.0")
CASES = {"toy_breaks": case(BREAKS)}


def _cells(signs: str) -> list[Observation]:
    """Return a cell a release: `+` passes, `-` breaks as described, `!` otherwise."""
    kinds = {
        "+": (Outcome.PASSES, None),
        "-": (Outcome.FAILS, failed()),
        "!": (Outcome.FAILS, failed("KeyError", "other\nline")),
        "U": (Outcome.UNBUILDABLE, None),
    }
    return [
        seen(kinds[sign][0], cell(release), how=kinds[sign][1])
        for release, sign in zip(ORDER, signs, strict=True)
        if sign != " "
    ]


def _changed(change: CellChange, releases: tuple[str, ...], before: str, after: str) -> Changed:
    return Changed(
        change=change,
        case="toy_breaks",
        workaround="",
        precision="bf16",
        device="cpu",
        environments=releases,
        before=before,
        after=after,
    )


def test_cells_that_became_otherwise_in_the_same_way_stand_together() -> None:
    changed, new, gone = compared(_cells("++-+"), _cells("--+ "), CASES, ORDER)

    assert (
        _changed(CellChange.BROKE, ("4.49.0", "4.50.0"), "passes", "ValueError: it breaks"),
        _changed(CellChange.FIXED, ("4.50.1",), "ValueError: it breaks", "passes"),
    ) == changed
    assert (dict(new), dict(gone)) == ({}, {"toy_breaks": 1})


def test_another_failure_is_a_change_and_one_line_of_it_is_told() -> None:
    changed, new, gone = compared(_cells("-   "), _cells("!+++"), CASES, ORDER)

    assert (
        _changed(CellChange.CHANGED, ("4.49.0",), "ValueError: it breaks", "KeyError: other"),
    ) == changed
    assert (dict(new), dict(gone)) == ({"toy_breaks": 3}, {})


def test_what_the_machine_decided_changes_nothing() -> None:
    assert compared(_cells("U-++"), _cells("+-+U"), CASES, ORDER) == ((), {}, {})
    assert compared(_cells("U   "), _cells("   U"), CASES, ORDER) == ((), {}, {})


def test_a_case_that_the_checkout_has_no_more_is_not_compared() -> None:
    changed, new, gone = compared(_cells("++++"), _cells("----"), {}, ORDER)

    assert (changed, dict(new), dict(gone)) == ((), {}, {})


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    records = (
        SnapshotRecord(
            publication="2026-12-01",
            date="2026-12-01",
            against="2026-11-21",
            changes=(_changed(CellChange.BROKE, ("4.49.0", "main"), "passes", 'an "é" \\ \n'),),
            new=(("a", 1), ("b", 2)),
            gone=(("c", 3),),
        ),
        SnapshotRecord(publication="2026-11-21", date="2026-11-21", against="2026-11-20"),
    )
    (tmp_path / "changes.json").write_text(written(records), encoding="utf-8")

    assert records == read_changes(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "changes.json").write_text('{"format": 2}')

    with pytest.raises(RunnerError, match="format 2"):
        read_changes(tmp_path)


def test_the_first_publication_changes_nothing_and_the_next_is_compared(places: Paths) -> None:
    toy = Toy(places, case_text(BREAKS)).measured("-----+").published()
    first = read_changes(places.published)
    toy.measured("--+--+").repeated()
    publish_all(places, Console(quiet=True))
    record = read_changes(places.published)[0]

    assert first == ()
    assert [_changed(CellChange.FIXED, ("4.50.1",), "ValueError: it breaks", "passes")] == list(
        record.changes
    )
    assert (record.new, record.gone) == ((), ())
