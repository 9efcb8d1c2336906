"""Ranges of releases, derived from measured cells."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, environment, failed, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.judging.ranges import (
    Interval,
    Range,
    affected,
    failing_ranges,
    intervals,
    segments,
)
from repromatrix.runner.model.outcomes import Exercised, Outcome, Precision

if TYPE_CHECKING:
    from repromatrix.runner.model.observation import Failed, Observation

SAYS = {
    "bad": seen(Outcome.FAILS),
    "crash": seen(Outcome.CRASHES),
    "good": seen(Outcome.PASSES),
    "flaky": seen(Outcome.FAILS, unstable=True),
    "idle": seen(Outcome.PASSES, exercised=Exercised.NO),
    "memory": seen(Outcome.OUT_OF_MEMORY),
}
BAD = {"bad", "crash"}
SIGNS = {"+": "good", "-": "bad", "?": "memory"}
Told = list[str | None]
told = st.lists(st.sampled_from([*SAYS, None]), max_size=20)


def _derive(what: Told) -> tuple[list[str], tuple[Range, ...]]:
    order = [f"4.{number}.0" for number in range(len(what))]
    found = {name: SAYS[word] for name, word in zip(order, what, strict=True) if word}
    return order, failing_ranges(order, found)


@given(told)
def test_every_failing_release_is_in_exactly_one_range_in_order_and_no_other(what: Told) -> None:
    order, ranges = _derive(what)
    failing = [name for name, word in zip(order, what, strict=True) if word in BAD]

    assert failing == [name for one in ranges for name in one.releases]


@given(told)
def test_no_range_reaches_over_a_pass_and_a_pass_lies_between_any_two(what: Told) -> None:
    order, ranges = _derive(what)
    passes = {order.index(name) for name, word in zip(order, what, strict=True) if word == "good"}
    spans = [(order.index(one.releases[0]), order.index(one.releases[-1])) for one in ranges]

    assert not any(passes & set(range(first, last)) for first, last in spans)
    assert all(passes & set(range(end, begin)) for (_, end), (begin, _) in pairwise(spans))


@given(told)
def test_both_edges_of_a_range_name_the_nearest_passes_and_every_gap(what: Told) -> None:
    order, ranges = _derive(what)
    words = dict(zip(order, what, strict=True))
    for one in ranges:
        first, last = order.index(one.releases[0]), order.index(one.releases[-1])
        before, behind = order[:first], order[last + 1 :]
        good_before = [name for name in before if words[name] == "good"]
        good_behind = [name for name in behind if words[name] == "good"]

        assert (good_before or [""])[-1] == one.after
        assert [*good_behind, ""][0] == one.until
        assert tuple(before[before.index(one.after) + 1 if one.after else 0 :]) == (
            one.unknown_before
        )
        assert tuple(behind[: behind.index(one.until) if one.until else None]) == (
            one.unknown_behind
        )


@given(told)
def test_what_says_nothing_within_a_range_is_named(what: Told) -> None:
    order, ranges = _derive(what)
    for one in ranges:
        span = order[order.index(one.releases[0]) : order.index(one.releases[-1]) + 1]

        assert tuple(name for name in span if name not in one.releases) == one.unknown_within


@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        ("", []),
        ("+++", []),
        ("???", []),
        ("---", ["4.0.0 to 4.2.0, not fixed"]),
        ("+-+-", ["4.1.0, fixed in 4.2.0", "4.3.0, not fixed"]),
        ("+?-?+", ["4.2.0 (after 4.0.0, by 4.2.0), fixed after 4.2.0, by 4.4.0"]),
        ("?-+", ["4.1.0, fixed in 4.2.0"]),
        ("-?-+", ["4.0.0 to 4.2.0 (1 of these unknown), fixed in 4.3.0"]),
        ("-??-?-+-", ["4.0.0 to 4.5.0 (3 of these unknown), fixed in 4.6.0", "4.7.0, not fixed"]),
        ("+?-?-?", ["4.2.0 to 4.4.0 (after 4.0.0, by 4.2.0) (1 of these unknown), not fixed"]),
        ("+-?", ["4.1.0, not fixed"]),
    ],
)
def test_a_range_is_said_in_words_and_a_gap_is_said_as_one(signs: str, expected: list[str]) -> None:
    _, ranges = _derive([SIGNS[sign] for sign in signs])

    assert expected == [one.text for one in ranges]


def test_an_order_is_cut_where_its_answers_change() -> None:
    first, second = segments("?-?--?+?", lambda sign: None if sign == "?" else sign)

    assert (first.answer, first.points, first.before) == ("-", ["-", "-", "-"], ["?"])
    assert (first.within, first.behind) == (["?"], ["?"])
    assert (second.answer, second.points, second.before) == ("+", ["+"], ["?"])
    assert (second.within, second.behind) == ([], ["?"])
    assert segments("???", lambda _: None) == []


def test_a_release_outside_the_order_does_not_count() -> None:
    stray: dict[str, Observation] = {"9.9.9": SAYS["bad"]}

    assert failing_ranges(["4.50.0"], stray) == ()


@given(st.lists(st.sampled_from([*SAYS, "absent", "declines"]), max_size=20))
def test_an_interval_holds_every_failing_version_and_none_that_is_safe(what: list[str]) -> None:
    """A scanner would flag whoever has a version that passes, or that cannot run the case."""
    order = [f"4.{number}.0" for number in range(len(what))]
    silent = {"absent": seen(Outcome.NOT_APPLICABLE), "declines": seen(Outcome.DECLINES)}
    rows = {**SAYS, **silent}
    found = intervals(order, {name: rows[word] for name, word in zip(order, what, strict=True)})

    def inside(version: str) -> bool:
        at = order.index(version)
        return any(
            (not one.first or order.index(one.first) <= at)
            and (not one.fixed or at < order.index(one.fixed))
            and (not one.last or at <= order.index(one.last))
            for one in found
        )

    said = {version: inside(version) for version in order}
    safe = {"good", *silent}
    failing = [name for name, word in zip(order, what, strict=True) if word in BAD]

    assert [name for one in found for name in one.failing] == failing
    assert all(said[name] for name in failing)
    assert not any(said[name] for name, word in zip(order, what, strict=True) if word in safe)


TWO_BUGS = f"""{BREAKS}
[[tool.repromatrix.fails]]
title = "Another toy breaks"
when = ["peft<0.16"]
precisions = ["fp16"]
raises = "KeyError"
match = "peft breaks"
"""


def test_a_bug_ends_where_its_case_fails_by_another_one() -> None:
    """A second bug of one release held all those that show the first one only."""
    toy = case(
        """
[[tool.repromatrix.fails]]
when = ["transformers<4.51", "transformers>=4.52"]
raises = "ValueError"
match = "first"

[[tool.repromatrix.fails]]
title = "Another toy breaks"
when = ["transformers==4.51.0"]
raises = "KeyError"
match = "second"
"""
    )
    names = ["4.50.0", "4.51.0", "4.52.0", "4.53.0"]
    hows = [failed("ValueError", "first"), failed("KeyError", "second")]
    rows = {
        name: seen(Outcome.FAILS, cell(name), how=how)
        for name, how in zip(names, [*hows, hows[0]], strict=False)
    }
    rows["4.53.0"] = seen(Outcome.PASSES, cell("4.53.0"))

    first, second = affected(toy, {name: environment(name) for name in names}, rows)

    assert first.intervals == (
        Interval("", "", "4.50.0", ("4.50.0",)),
        Interval("4.52.0", "4.53.0", "", ("4.52.0",)),
    )
    assert second.intervals == (Interval("4.51.0", "", "4.51.0", ("4.51.0",)),)
    assert [one.text for one in second.intervals] == ["4.51.0, not measurable after 4.51.0"]


def test_each_bug_affects_the_versions_of_the_package_at_fault() -> None:
    """A lock moves both packages: what fails with an older peft says nothing of transformers."""
    toy = case(TWO_BUGS)
    held = {
        name: environment(name, peft=version)
        for name, version in {"4.49.0": "0.14.0", "4.50.0": "0.15.0", "4.51.0": "0.16.0"}.items()
    }

    def hit(how: Failed, precision: Precision, *failing: str) -> list[tuple[object, ...]]:
        rows = {
            name: seen(Outcome.FAILS, cell(name, precision), how=how)
            if name in failing
            else seen(Outcome.PASSES, cell(name, precision))
            for name in held
        }
        return [(bug.title, bug.package, *bug.intervals) for bug in affected(toy, held, rows)]

    assert hit(failed(), Precision.BF16, "4.50.0") == [
        ("A toy breaks", "transformers", Interval("4.50.0", "4.51.0", "", ("4.50.0",)))
    ]
    assert hit(failed("KeyError", "peft breaks"), Precision.FP16, "4.49.0", "4.50.0") == [
        ("Another toy breaks", "peft", Interval("", "0.16.0", "", ("0.14.0", "0.15.0")))
    ]
