"""Verdicts: one table over everything that can happen and everything that can be expected."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, environment, failed, seen

from repromatrix.runner.judging.verdicts import covers, described, expected, judge, live
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision, Verdict

if TYPE_CHECKING:
    from repromatrix.runner.model.cell import Cell

CRASHES = "[[tool.repromatrix.fails]]\noutcome = 'crashes'\n"
TIMES_OUT = "[[tool.repromatrix.fails]]\noutcome = 'times-out'\n"
ENTRIES = {
    "passes": None,
    "fails": case(BREAKS).block.fails[0],
    "crashes": case(CRASHES).block.fails[0],
    "times-out": case(TIMES_OUT).block.fails[0],
}
AS_DESCRIBED, OTHERWISE = failed(), failed("KeyError", "it breaks")
UNMEASURED = ("unproven", "unproven", "unproven", "unproven")

# What happened, how the exception looked, what the witness saw: the verdict where the case is
# expected to pass, to fail as described, to crash, to time out.
TABLE = """
passes          -          yes    as-expected     fixed           fixed           fixed
passes          -          no     unproven        unproven        unproven        unproven
passes          -          empty  as-expected     fixed           fixed           fixed
fails           described  yes    regressed       as-expected     changed         changed
fails           described  no     regressed       unproven        changed         changed
fails           described  empty  regressed       as-expected     changed         changed
fails           otherwise  any    regressed       changed         changed         changed
times-out       -          yes    regressed       changed         changed         as-expected
times-out       -          no     regressed       changed         changed         unproven
times-out       -          empty  regressed       changed         changed         as-expected
crashes         -          yes    regressed       changed         as-expected     changed
crashes         -          no     regressed       changed         unproven        changed
crashes         -          empty  regressed       changed         as-expected     changed
out-of-memory   -          any    unproven        unproven        unproven        unproven
declines        -          any    not-applicable  not-applicable  not-applicable  not-applicable
not-applicable  -          any    not-applicable  not-applicable  not-applicable  not-applicable
not-measured    -          any    unproven        unproven        unproven        unproven
unbuildable     -          any    unproven        unproven        unproven        unproven
not-run         -          any    unproven        unproven        unproven        unproven
not-due         -          any    unproven        unproven        unproven        unproven
"""
LINES = [line.split() for line in TABLE.strip().splitlines()]
ROWS = [
    [outcome, how, exercised, *verdicts]
    for outcome, how, seen_by, *verdicts in LINES
    for exercised in (["yes", "no", "empty"] if seen_by == "any" else [seen_by])
]
HOW = {"-": None, "described": AS_DESCRIBED, "otherwise": OTHERWISE}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_an_outcome_means_what_the_table_says(row: list[str]) -> None:
    outcome, how, exercised, *verdicts = row
    witnessed = Exercised("" if exercised == "empty" else exercised)
    observation = seen(Outcome(outcome), how=HOW[how], exercised=witnessed)

    assert verdicts == [judge(entry, observation) for entry in ENTRIES.values()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_what_is_unstable_proves_nothing(row: list[str]) -> None:
    observation = seen(Outcome(row[0]), how=HOW[row[1]], unstable=True)

    assert list(UNMEASURED) == [judge(entry, observation) for entry in ENTRIES.values()]


def test_the_table_is_total() -> None:
    ways = {Outcome.FAILS: 2}
    expectations = {"passes"} | {one for one in Outcome if one.is_failure}
    everything = Counter(
        {
            (str(outcome), str(exercised) or "empty"): ways.get(outcome, 1)
            for outcome, exercised in itertools.product(Outcome, Exercised)
        }
    )

    assert everything == Counter((row[0], row[2]) for row in ROWS)
    assert expectations == set(ENTRIES)
    assert set(Verdict) == {verdict for row in ROWS for verdict in row[3:]}


def test_a_failure_without_an_exception_is_not_the_described_one() -> None:
    entry = case(BREAKS).block.fails[0]
    lost = seen(Outcome.TIMES_OUT)

    assert not described(entry, lost)


ENTRY = """
[[tool.repromatrix.fails]]
when = ["transformers>=4.50,<4.51", "torch>=2"]
precisions = ["bf16", "fp16"]
devices = ["cpu"]
workarounds = ["", "eager"]
raises = "ValueError"
match = "it breaks"
"""
VARIANTS = "workarounds.eager = 'Choose eager.'\nworkarounds.other = 'Choose another.'\n"


@pytest.mark.parametrize(
    ("where", "expected_there"),
    [
        (cell("4.50.3"), True),
        (cell("4.51.0"), False),
        (cell("4.49.0"), False),
        (cell("4.50.0", Precision.FP32), False),
        (cell("4.50.0", Precision.FP16), True),
        (cell("4.50.0", device=Device.CUDA), False),
        (cell("4.50.0", workaround="eager"), True),
        (cell("4.50.0", workaround="other"), False),
    ],
)
def test_an_entry_holds_where_all_that_it_names_agrees(
    where: Cell,
    expected_there: bool,  # noqa: FBT001
) -> None:
    toy = case(VARIANTS + ENTRY)
    wanted = toy.block.fails[0] if expected_there else None

    assert wanted == expected(toy, where, environment(where.environment))


def test_an_entry_for_every_workaround_holds_in_the_plain_case_too() -> None:
    toy = case(VARIANTS + ENTRY.replace('"", "eager"', '"*"'))
    held = [
        tuple(entry for entry in live(toy, environment()) if covers(entry, cell(workaround=name)))
        for name in toy.branches
    ]

    assert [toy.block.fails] * 3 == held


def test_main_is_expected_to_do_what_its_release_will() -> None:
    toy = case(VARIANTS + ENTRY)
    versions = ("4.50.0.dev0", "4.51.0.dev0+g0123456789ab")
    held = [
        expected(toy, cell("main"), environment("main", transformers=version)) is not None
        for version in versions
    ]

    assert held == [True, False]


def test_an_exception_is_the_described_one_by_any_class_and_any_text() -> None:
    several = BREAKS.replace('raises = "ValueError"', 'raises = ["TypeError", "ValueError"]')
    entry = case(several.replace('"it breaks"', '["it broke", "it breaks"]')).block.fails[0]
    names = ("ValueError", "TypeError", "KeyError")

    assert entry.raises == ("TypeError", "ValueError")
    assert [entry.has_words(name, "here it broke") for name in names] == [True, True, False]
