"""When pages are drawn in the middle of a run."""

import pytest

from repromatrix.runner.cli.report import is_due


@pytest.mark.parametrize(
    ("since", "cost", "left", "expected"),
    [
        (float("inf"), 0.0, 3, True),
        (61.0, 0.5, 3, True),
        (59.0, 0.5, 3, False),
        (61.0, 4.0, 3, False),
        (201.0, 4.0, 3, True),
        (float("inf"), 0.0, 2, False),
    ],
    ids=[
        "the first environment is done",
        "a minute ago",
        "less than a minute ago",
        "a minute ago, but drawing is slow",
        "slow, and long ago",
        "all that is left is running",
    ],
)
def test_pages_are_drawn_where_that_is_worth_it(
    since: float, cost: float, left: int, *, expected: bool
) -> None:
    assert is_due(since, cost, left, jobs=2) is expected
