"""What pinning many changes at once saves, and that each is pinned to its commit."""

from __future__ import annotations

from checks.pinning import count
from checks.table import Table


def test_changes_that_are_pinned_at_once_share_their_trials() -> None:
    table = Table("commits")
    count(table, cases=(3, 1), commits=40)

    assert [(times, found) for _, times, _, found, _ in table.counts] == [(8, 0), (8, 0)]
    assert table.passed
