"""What may be taken for granted of cells that nobody ran."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, environment, environments, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.reports.exports import osv
from repromatrix.reports.exports.badges import badges
from repromatrix.reports.exports.rows import tabulate
from repromatrix.reports.marks import Mark, mark_of, seen_as
from repromatrix.reports.pages.index import index
from repromatrix.reports.sections.provenance import Settings
from repromatrix.reports.view import survey as arranged
from repromatrix.runner.cli import publish
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence.answering import Grid, survey
from repromatrix.runner.judging.verdicts import Inferred, Judged, infer, judge_all
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Environment
    from repromatrix.runner.model.observation import Observation

NAMES = ("4.49.0", "4.50.0", "4.50.1", "4.50.2", "4.51.0", "4.52.0", "4.53.0")
LINE = environments(*NAMES)
TOY = case(BREAKS)
ELSE = failed("KeyError", "something else")


def grid(
    found: Mapping[str, Observation],
    of: Case = TOY,
    held: Mapping[str, Environment] = LINE,
) -> tuple[Judged, ...]:
    """Return the whole line in bf16 with what may be inferred."""
    axes = Grid(
        cases={of.name: of}, environments=held, precisions=[Precision.BF16], devices=[Device.CPU]
    )
    known = {row.cell: row for row in found.values()}
    judged = judge_all(survey(axes, known), axes.cases, held)
    return infer(judged, axes.cases, held)


def at(name: str, outcome: Outcome, of: Case = TOY, **facts: object) -> Observation:
    ran = provenance(of, LINE.get(name) or environment(name))
    return dataclasses.replace(seen(outcome, cell(name), ran=ran), **facts)  # type: ignore[arg-type]


def told(found: Mapping[str, Observation], of: Case = TOY) -> dict[str, Inferred]:
    rows = grid(found, of)
    return {one.seen.cell.environment: one.inferred for one in rows if one.inferred}


def each(*rows: Observation) -> dict[str, Observation]:
    return {row.cell.environment: row for row in rows}


PASSES, FAILS = Outcome.PASSES, Outcome.FAILS
AS_EXPECTED = each(
    at("4.49.0", PASSES),
    at("4.50.0", FAILS),
    at("4.50.2", FAILS),
    at("4.51.0", PASSES),
    at("4.53.0", PASSES),
)


def test_between_two_that_agree_as_expected_a_cell_is_inferred_from_both() -> None:
    expected = {
        "4.50.1": ("4.50.0", "4.50.2", FAILS),
        "4.52.0": ("4.51.0", "4.53.0", PASSES),
    }

    assert expected == told(AS_EXPECTED)


def test_what_is_inferred_is_still_not_run_and_unproven() -> None:
    rows = {one.seen.cell.environment: one for one in grid(AS_EXPECTED)}
    one = rows["4.52.0"]

    assert (one.seen.outcome, one.verdict, mark_of(one)) == (
        Outcome.NOT_RUN,
        Verdict.UNPROVEN,
        Mark.INFERRED,
    )
    assert Mark.INFERRED.verdict is Verdict.UNPROVEN
    assert seen_as(one, Precision.BF16).text == "not run, inferred: 4.51.0 and 4.53.0 both pass"


@pytest.mark.parametrize(
    "changed",
    [
        {"4.53.0": None},
        {"4.51.0": None, "4.50.2": at("4.50.2", PASSES)},
        {"4.53.0": at("4.53.0", PASSES, unstable=True)},
        {"4.53.0": at("4.53.0", PASSES, exercised=Exercised.NO)},
        {"4.53.0": at("4.53.0", Outcome.DECLINES)},
        {"4.53.0": at("4.53.0", Outcome.OUT_OF_MEMORY)},
        {"4.53.0": at("4.53.0", FAILS)},
        {"4.51.0": at("4.51.0", FAILS), "4.53.0": at("4.53.0", FAILS)},
        {"4.53.0": at("4.53.0", PASSES, provenance=provenance(case(), environment("4.1.0")))},
    ],
)
def test_where_a_side_is_missing_doubted_or_unexpected_nothing_is_inferred(
    changed: dict[str, Observation | None],
) -> None:
    found = {name: row for name, row in {**AS_EXPECTED, **changed}.items() if row is not None}

    assert "4.52.0" not in told(found)


def test_what_was_refused_is_shown_so_and_nothing_is_inferred_across_it() -> None:
    line = each(at("4.51.0", PASSES), at("4.53.0", PASSES))
    refused = at("4.52.0", Outcome.NOT_RUN, reason="refused: torch is no file of it")
    shown = {one.seen.cell.environment: one for one in grid({**line, "4.52.0": refused})}["4.52.0"]

    assert (list(told(line)), told({**line, "4.52.0": refused})) == (["4.52.0"], {})
    assert seen_as(shown, Precision.BF16).text == "was not run: refused: torch is no file of it"


def test_two_failures_that_differ_in_their_words_infer_nothing() -> None:
    loose = case(BREAKS.replace('match = "it breaks"', 'match = ["it breaks", "it tears"]'))
    torn = failed("ValueError", "it tears")
    found = each(at("4.50.0", FAILS, loose), at("4.50.2", FAILS, loose, failed=torn))

    assert told(found, loose) == {}
    assert told({**found, "4.50.2": at("4.50.2", FAILS, loose)}, loose) != {}


def test_across_an_expected_change_nothing_is_inferred() -> None:
    found = each(at("4.49.0", PASSES), at("4.51.0", PASSES))

    assert told(found) == {}


def test_a_release_that_cannot_run_the_case_or_be_built_does_not_stand_between() -> None:
    unbuilt = dataclasses.replace(at("4.52.0", Outcome.UNBUILDABLE), reason="no wheel")
    found = {**AS_EXPECTED, "4.52.0": unbuilt}
    between = case(BREAKS, dependencies=["torch", "transformers!=4.50.0"])
    rest = each(at("4.49.0", PASSES, between), at("4.51.0", PASSES, between))

    assert told(found) == {"4.50.1": ("4.50.0", "4.50.2", FAILS)}
    assert told(rest, between) == {}


def test_main_is_never_inferred_and_nothing_is_inferred_from_it() -> None:
    held = {**LINE, "main": environment("main", source=Source.MAIN, transformers="5.0.0.dev0")}
    ran = provenance(TOY, held["main"])
    found = each(at("4.51.0", PASSES), seen(PASSES, cell("main"), ran=ran))

    assert [one for one in grid(found, held=held) if one.inferred] == []


def test_pairs_are_inferred_along_their_own_versions() -> None:
    of = case('environments = ["4.53.0+peft0.15.0", "4.53.0+peft0.16.0", "4.53.0+peft0.17.0"]')
    held = {
        **environments("4.52.0"),
        "4.53.0": environment("4.53.0", peft="0.18.0"),
        **{
            name: environment(name, source=Source.PAIR, transformers="4.53.0", peft=name[-6:])
            for name in of.block.environments
        },
    }
    ends = ("4.53.0+peft0.15.0", "4.53.0")
    found = {name: seen(PASSES, cell(name), ran=provenance(of, held[name])) for name in ends}
    inferred = {one.seen.cell.environment: one.inferred for one in grid(found, of, held)}
    between = Inferred(*ends, PASSES)

    assert inferred == {
        "4.52.0": None,
        "4.53.0": None,
        "4.53.0+peft0.15.0": None,
        "4.53.0+peft0.16.0": between,
        "4.53.0+peft0.17.0": between,
    }


@given(st.lists(st.sampled_from([PASSES, FAILS, None]), min_size=7, max_size=7))
def test_only_what_was_not_run_is_ever_inferred_and_its_neighbours_were(
    outcomes: list[Outcome | None],
) -> None:
    found = {name: at(name, one) for name, one in zip(NAMES, outcomes, strict=True) if one}
    for one in grid(found):
        assert one.verdict is Verdict.UNPROVEN or one.inferred is None
        if one.inferred:
            assert one.seen.cell.environment not in found
            assert {one.inferred.older, one.inferred.newer} <= set(found)


def test_results_name_the_two_cells_in_a_column_of_their_own() -> None:
    frame = tabulate(grid(AS_EXPECTED), NAMES, wide=True)
    rows = frame[frame["inferred"] != ""][["release", "outcome", "verdict", "inferred"]]

    assert rows.to_numpy().tolist() == [
        ["4.50.1", "not-run", "unproven", "4.50.0 and 4.50.2 both fail in the same way"],
        ["4.52.0", "not-run", "unproven", "4.51.0 and 4.53.0 both pass"],
    ]


def test_no_badge_is_green_where_a_cell_was_inferred() -> None:
    judged = grid(AS_EXPECTED)
    found = arranged({TOY.name: TOY}, tuple(LINE.values()), judged)
    said = {one.path: one.message for one in badges(found, Settings(found))}

    assert said["badge/release/4.52.0"] == "unknown (nothing measured)"
    assert said["badge/release/4.53.0"] == "0 of 1 bug fail (cpu, torch 2.13.0, Python 3.11)"


def test_a_bug_begins_right_behind_the_last_release_that_was_measured_to_pass() -> None:
    rows = each(at("4.49.0", PASSES), at("4.50.2", FAILS), at("4.51.0", PASSES))
    found = arranged({TOY.name: TOY}, tuple(LINE.values()), grid(rows))
    (affected,) = osv._affected(found, TOY)

    assert (affected["versions"], affected["ranges"][0]["events"]) == (
        ["4.50.2"],
        [{"introduced": "4.50.0"}, {"fixed": "4.51.0"}],
    )


def test_an_entry_of_the_osv_database_knows_of_no_inferred_cell() -> None:
    whole = grid(AS_EXPECTED)
    bare = tuple(dataclasses.replace(one, inferred=None) for one in whole)
    with_, without = (
        list(osv._affected(arranged({TOY.name: TOY}, tuple(LINE.values()), rows), TOY))
        for rows in (whole, bare)
    )

    assert with_ == without
    assert ("4.50.0" in str(with_), "4.50.1" in str(with_)) == (True, False)


def test_the_headline_counts_inferred_cells_apart_and_as_unproven() -> None:
    found = arranged({TOY.name: TOY}, tuple(LINE.values()), grid(AS_EXPECTED))
    tallies = {one.verdict: one for one in index(found, ()).headline.tallies}
    marks = dict(tallies[Verdict.UNPROVEN].marks)

    assert (tallies[Verdict.AS_EXPECTED].numbers, marks[Mark.INFERRED]) == ((5,), (2,))


def test_what_is_inferred_is_a_gap_to_whoever_publishes() -> None:
    with pytest.raises(RunnerError) as caught:
        publish._refuse_gaps(grid(AS_EXPECTED))

    assert "2 cells without a current result" in str(caught.value)
    assert [row for row in publish._evidence(grid(AS_EXPECTED)) if not row.outcome.was_run] == []
