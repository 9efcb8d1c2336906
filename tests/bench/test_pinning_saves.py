"""The bench of pinning many changes: what it counts, and that sharing keeps to its limit."""

from __future__ import annotations

from pinning import LIMIT, measure


def test_changes_that_are_pinned_at_once_share_their_trials() -> None:
    rows: dict[str, tuple[float, str]] = {}

    def row(what: str, number: float, _: str, note: str) -> None:
        rows[what] = number, note

    measure(row, cases=(3, 1), commits=40)

    assert rows["made-up changes"][0] == 8
    assert rows["trials of made-up changes, pinned at once"][1] == "exact: True"
    assert 0 < rows["share of trials, made-up"][0] <= LIMIT
