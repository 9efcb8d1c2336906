"""Which releases tell most of a case under another torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from factories import BREAKS, case, cell, environments, failed, seen

from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.other_torch import telling

if TYPE_CHECKING:
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

NAMES = ("4.49.0", "4.50.0", "4.50.1", "4.51.0", "4.52.0", "4.53.0", "4.54.0")
LINE = environments(*NAMES)
TOY = case(BREAKS)


def known(
    signs: str, precision: Precision = Precision.BF16, workaround: str = ""
) -> dict[Cell, Observation]:
    """Return a row a release: `+` passes, `-` fails, `!` fails otherwise, `.` was not run."""
    found = {}
    for name, sign in zip(NAMES, signs, strict=True):
        at = cell(name, precision, workaround=workaround)
        how = failed("KeyError", "other") if sign == "!" else None
        outcome = Outcome.PASSES if sign == "+" else Outcome.FAILS
        if sign != ".":
            found[at] = seen(outcome, at, how=how)
    return found


def test_both_sides_of_every_change_and_both_ends_are_told() -> None:
    found = telling(TOY, LINE, known("++--+++"), Device.CPU)

    assert found == ("4.49.0", "4.50.0", "4.50.1", "4.51.0", "4.52.0", "4.54.0")


def test_another_message_is_a_change_and_a_gap_is_none() -> None:
    assert telling(TOY, LINE, known("--.!!--"), Device.CPU) == (
        *("4.49.0", "4.50.0", "4.51.0", "4.52.0", "4.53.0", "4.54.0"),
    )
    assert telling(TOY, LINE, known("+.+.+++"), Device.CPU) == ("4.49.0", "4.54.0")


def test_the_changes_of_all_precisions_and_workarounds_count_together() -> None:
    rows = known("+++++++") | known("-++++++", Precision.FP16) | known("+++++--", workaround="a")

    assert telling(TOY, LINE, rows, Device.CPU) == (
        *("4.49.0", "4.50.0", "4.52.0", "4.53.0", "4.54.0"),
    )


def test_the_ends_are_those_of_what_was_judged_or_of_what_applies() -> None:
    newer = case(BREAKS, dependencies=("torch", "transformers>=4.51"))

    assert telling(TOY, LINE, known("..+++.."), Device.CPU) == ("4.50.1", "4.52.0")
    assert telling(newer, LINE, {}, Device.CPU) == ("4.51.0", "4.54.0")
    assert telling(TOY, LINE, known("++--+++"), Device.CUDA) == ("4.49.0", "4.54.0")
