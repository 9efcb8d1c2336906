"""What a run measures to confirm what is published, and what that bounds."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from factories import BREAKS, case, cell, environment, environments
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.planning import confirmation
from repromatrix.runner.planning.confirmation import Bound, Visit, bounds, upper_bound, visits
from repromatrix.runner.planning.plan import Axes

NAMES = tuple(f"4.{49 + minor}.0" for minor in range(12))
LINE = environments(*NAMES)
SOFTLY = '[tool.repromatrix.workarounds]\nsoftly = "Break softly."\n'
CASES = {
    name: case(BREAKS + SOFTLY, name=name) for name in (f"toy_{number}" for number in range(40))
}
AXES = Axes(cases=CASES, environments=LINE, precisions=[*Precision], device=Device.CPU)
EVERY = {
    Cell(name, workaround, release, precision, Device.CPU)
    for name in CASES
    for workaround in ("", "softly")
    for release in NAMES
    for precision in Precision
}


def test_the_newest_release_comes_first_with_every_case_and_no_workaround() -> None:
    first = next(visits(AXES, 7))

    assert (first.environment, first.at_random, first.drawn) == (NAMES[-1], (), False)
    assert set(first.cells) == {
        one for one in EVERY if one.environment == NAMES[-1] and not one.workaround
    }


def test_six_releases_follow_coarse_to_fine_and_the_seed_draws_the_others() -> None:
    turns = list(itertools.islice(visits(AXES, 7), len(NAMES)))
    others = list(itertools.islice(visits(AXES, 8), len(NAMES)))
    order = [turn.environment for turn in turns]

    assert order[1:7] == ["4.49.0", "4.54.0", "4.51.0", "4.57.0", "4.50.0", "4.52.0"]
    assert sorted(order) == sorted(NAMES)
    assert [turn.drawn for turn in turns] == [False] * 7 + [True] * 5
    assert order[:7] == [turn.environment for turn in others[:7]]
    assert order[7:] != [turn.environment for turn in others[7:]]
    assert list(itertools.islice(visits(AXES, 7), len(NAMES))) == turns


def test_a_visit_has_the_cells_beside_an_expected_change_and_cells_at_random() -> None:
    turn = next(turn for turn in visits(AXES, 7) if turn.environment == "4.50.0")

    assert {(one.workaround, one.precision) for one in turn.chosen} == {("", Precision.BF16)}
    assert len(turn.chosen) == len(CASES)
    assert len(turn.at_random) == confirmation.AT_RANDOM
    assert {*Counter(one.precision for one in turn.at_random).values()} <= {46, 47}


def test_in_the_end_each_cell_was_drawn_once_on_every_release() -> None:
    drawn = [one for turn in visits(AXES, 7) for one in turn.at_random]

    assert len(drawn) == len(set(drawn))
    assert set(drawn) == EVERY


@given(st.integers(min_value=0, max_value=10**6))
def test_a_beginning_of_the_order_has_each_stratum_in_proportion(seed: int) -> None:
    cells = [one for one in sorted(EVERY) if one.environment == "4.50.0"]
    order = confirmation._at_random(AXES, cells, str(seed))
    counts = Counter(one.precision for one in order[:60])

    assert sorted(order) == cells
    assert {*counts.values()} <= {19, 20, 21}


@pytest.mark.parametrize(
    ("differing", "sample", "expected"),
    # The 0.95 quantile of Beta(k + 1, n - k); without a differing one, 1 - 0.05 ** (1 / n).
    [(0, 2000, 0.0014968), (0, 17, 0.1615661), (1, 2000, 0.0023697), (2, 10, 0.5069013)],
)
def test_a_bound_is_the_one_of_clopper_and_pearson(
    differing: int, sample: int, expected: float
) -> None:
    assert upper_bound(differing, sample) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("sample", [0, 3])
def test_where_all_differ_or_nothing_was_drawn_nothing_is_bounded(sample: int) -> None:
    assert upper_bound(sample, sample) == 1.0


def of(release: str, *names: str) -> tuple[Cell, ...]:
    return tuple(cell(release, name=name) for name in names)


FIRST = Visit(environment="a", chosen=of("a", "1"), at_random=of("a", "1", "2", "3"), drawn=False)
DRAWN = Visit(environment="b", chosen=(), at_random=of("b", "1", "2", "3"), drawn=True)
AGAIN = Visit(environment="b", chosen=(), at_random=of("b", "4", "5"), drawn=True)


@pytest.mark.parametrize(
    ("agreeing", "denying", "cells", "releases"),
    [
        # Cells bound the visited releases, and drawn releases bound all.
        ((*of("a", "1", "2"), *of("b", "1", "2", "3")), (), (5, 0), (1, 0)),
        # One cell that differs makes its release differ.
        (of("b", "1", "3"), of("b", "2"), (3, 1), (1, 1)),
        # A turn that did not begin is no sample, whatever was measured anyway.
        (of("a", "1"), (), (0, 0), (0, 0)),
    ],
)
def test_what_was_measured_is_a_sample_of_cells_and_of_releases(
    agreeing: tuple[Cell, ...],
    denying: tuple[Cell, ...],
    cells: tuple[int, int],
    releases: tuple[int, int],
) -> None:
    agrees = dict.fromkeys(agreeing, True) | dict.fromkeys(denying, False)
    found = bounds([FIRST, DRAWN, AGAIN], agrees, agrees.keys())

    assert [(one.sample, one.differing) for one in found] == [cells, releases]


def test_a_turn_counts_as_far_as_it_came() -> None:
    agrees = dict.fromkeys((*of("b", "1"), *of("b", "3")), True)

    assert bounds([DRAWN], agrees, of("b", "1")) == (
        Bound(sample=1, differing=0),
        Bound(sample=1, differing=0),
    )


def test_only_releases_without_extras_are_visited() -> None:
    stack = environment("trl0.26.2", source=Source.STACK)
    extra = environment("4.50.0+timm", transformers="4.50.0")

    held = {**LINE, extra.name: extra, stack.name: stack}
    assert confirmation.plain_releases(held) == list(NAMES)
