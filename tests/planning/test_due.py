"""Which cells are due: also under another torch, where a result tells most."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from factories import BREAKS, case, cell, environment, environments, failed, provenance, seen

from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.plan import Axes, due, is_heavy, telling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Cell, Environment
    from repromatrix.runner.model.observation import Observation

NAMES = tuple(f"4.{49 + minor}.{patch}" for minor in range(5) for patch in range(3))
LINE = environments(*NAMES)
SOFTLY = '[tool.repromatrix.workarounds]\nsoftly = "Break softly."\n'
TOY = case(BREAKS + SOFTLY)  # bf16 is expected to fail on 4.50
HEAVY = case("processes = 2\n")


def due_on(
    of: Case,
    precision: Precision,
    workaround: str = "",
    held: Mapping[str, Environment] = LINE,
    rows: tuple[Observation, ...] = (),
) -> list[str]:
    axes = Axes(cases={of.name: of}, environments=held, precisions=[precision], device=Device.CPU)
    is_due = due(axes, {row.cell: row for row in rows})
    return [name for name in held if is_due(cell(name, precision, workaround=workaround))]


def at(name: str, outcome: Outcome, workaround: str = "") -> Observation:
    ran = provenance(TOY, LINE[name])
    return seen(outcome, cell(name, workaround=workaround), ran=ran)


def test_a_case_without_a_workaround_is_due_on_every_release() -> None:
    assert due_on(TOY, Precision.FP32) == list(NAMES)


def test_a_workaround_is_due_where_its_case_fails_beside_changes_and_on_the_newest_of_a_line() -> (
    None
):
    assert due_on(TOY, Precision.BF16, "softly") == [
        *("4.49.0", "4.49.2", "4.50.0", "4.50.1", "4.50.2", "4.51.0"),
        *("4.51.2", "4.52.2", "4.53.2"),
    ]
    assert due_on(TOY, Precision.FP32, "softly") == [
        *("4.49.0", "4.49.2", "4.50.2", "4.51.2", "4.52.2", "4.53.2"),
    ]


def test_a_workaround_is_due_where_its_case_is_known_to_fail() -> None:
    failing = at("4.52.0", Outcome.FAILS)

    assert "4.52.0" in due_on(TOY, Precision.BF16, "softly", rows=(failing,))
    assert "4.52.0" not in due_on(TOY, Precision.BF16, "softly")


def test_between_two_results_of_a_workaround_that_disagree_the_middle_is_due() -> None:
    ends = at("4.52.2", Outcome.PASSES, "softly"), at("4.53.2", Outcome.FAILS, "softly")
    found = due_on(TOY, Precision.BF16, "softly", rows=ends)

    assert set(found) - set(due_on(TOY, Precision.BF16, "softly")) == {"4.53.1"}


def test_a_case_of_several_processes_is_due_at_the_ends_and_on_the_newest_of_a_line() -> None:
    assert is_heavy(HEAVY)
    assert not is_heavy(TOY)
    assert due_on(HEAVY, Precision.BF16) == [
        *("4.49.0", "4.49.2", "4.50.2", "4.51.2", "4.52.2", "4.53.2"),
    ]


def test_what_is_no_release_is_always_due() -> None:
    pair = environment("4.50.0+peft0.17.0", source=Source.PAIR, transformers="4.50.0")
    main = environment("main", source=Source.MAIN, transformers="5.0.0.dev0")
    of = dataclasses.replace(
        HEAVY, block=HEAVY.block.model_copy(update={"environments": (pair.name,)})
    )
    found = due_on(of, Precision.BF16, held={**LINE, pair.name: pair, "main": main})

    assert {pair.name, "main"} <= set(found)


POINTS = ("4.49.0", "4.50.0", "4.50.1", "4.51.0", "4.52.0", "4.53.0", "4.54.0")
POINTED = environments(*POINTS)


def known(
    signs: str, precision: Precision = Precision.BF16, workaround: str = ""
) -> dict[Cell, Observation]:
    """Return a row a release: `+` passes, `-` fails, `!` fails otherwise, `.` was not run."""
    found = {}
    for name, sign in zip(POINTS, signs, strict=True):
        at = cell(name, precision, workaround=workaround)
        how = failed("KeyError", "other") if sign == "!" else None
        outcome = Outcome.PASSES if sign == "+" else Outcome.FAILS
        if sign != ".":
            found[at] = seen(outcome, at, how=how)
    return found


def test_both_sides_of_every_change_and_both_ends_are_told() -> None:
    found = telling(TOY, POINTED, known("++--+++"), Device.CPU)

    assert found == ("4.49.0", "4.50.0", "4.50.1", "4.51.0", "4.52.0", "4.54.0")


def test_another_message_is_a_change_and_a_gap_is_none() -> None:
    assert telling(TOY, POINTED, known("--.!!--"), Device.CPU) == (
        *("4.49.0", "4.50.0", "4.51.0", "4.52.0", "4.53.0", "4.54.0"),
    )
    assert telling(TOY, POINTED, known("+.+.+++"), Device.CPU) == ("4.49.0", "4.54.0")


def test_the_changes_of_all_precisions_and_workarounds_count_together() -> None:
    rows = known("+++++++") | known("-++++++", Precision.FP16) | known("+++++--", workaround="a")

    assert telling(TOY, POINTED, rows, Device.CPU) == (
        *("4.49.0", "4.50.0", "4.52.0", "4.53.0", "4.54.0"),
    )


def test_the_ends_are_those_of_what_was_judged_or_of_what_applies() -> None:
    newer = case(BREAKS, dependencies=("torch", "transformers>=4.51"))

    assert telling(TOY, POINTED, known("..+++.."), Device.CPU) == ("4.50.1", "4.52.0")
    assert telling(newer, POINTED, {}, Device.CPU) == ("4.51.0", "4.54.0")
    assert telling(TOY, POINTED, known("++--+++"), Device.CUDA) == ("4.49.0", "4.54.0")
