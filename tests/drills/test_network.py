"""The drill of the network, small: one way of each kind."""

import pytest

from drills.index import Way
from drills.network import CASES, tried


@pytest.mark.whole
def test_a_broken_index_gives_no_result_and_is_asked_again() -> None:
    trials = [
        (Way.CUT_WHEEL, "transformers-1.1.0", "file"),
        (Way.GONE, "", "variable"),
    ]
    fates = tried(trials, retries=0)
    expected = [(0, 0, 0, False)] * len(trials)
    actual = [(fate.counted, fate.unsaid, fate.not_retried, fate.late) for fate in fates]

    assert expected == actual


@pytest.mark.whole
def test_the_drill_tells_an_index_that_works_from_one_that_is_broken() -> None:
    [fate] = tried([(Way.WORKS, "", "variable")])

    assert fate.counted > 0
    assert fate.unsaid == 4 * CASES
