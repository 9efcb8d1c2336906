"""The drill of full disks, small: a store, the cells' folders, and the published set."""

import pytest

from drills.disk import tried
from drills.small_disk import missing


@pytest.mark.whole
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_full_disk_loses_nothing_and_makes_nothing_up() -> None:
    trials = [("evidence", 0), ("scratch", 400), ("published", 8)]
    fates = tried(trials)
    expected = [(0, 0, 0, 0)] * len(trials)
    actual = [(one.lost, one.untrue, one.torn, one.unsaid) for one in fates]

    assert expected == actual
