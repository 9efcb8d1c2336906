"""The answer of `diff` in words: for the terminal, to paste, and for programs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, environment, failed, provenance, seen

from repromatrix.runner.compare.diff import compare, without_environment
from repromatrix.runner.compare.render import DiffReport, document, happened
from repromatrix.runner.document import write
from repromatrix.runner.model.outcomes import Exercised, Outcome, Precision

if TYPE_CHECKING:
    from kept import Expected

    from repromatrix.runner.model.observation import Observation

TOY = case('workarounds.aside = "Step aside."\n' + BREAKS)
OTHER = case(name="toy_melts")
CASES = {TOY.name: TOY, OTHER.name: OTHER}
MINE = environment("4.50.0@abc")
HOSTILE = failed("KeyError", "a | b `c` <img src=x> @someone")


def before(outcome: Outcome, at: dict[str, object], **facts: object) -> Observation:
    ran = dataclasses.replace(provenance(TOY), run="2026-11-21")
    row = seen(outcome, cell("4.50.0", **at), ran=ran, **facts)  # type: ignore[arg-type]
    return dataclasses.replace(row, source="2026-11-21")


def after(outcome: Outcome, at: dict[str, object], **facts: object) -> Observation:
    ran = dataclasses.replace(provenance(TOY, MINE), run="now")
    return seen(outcome, cell(MINE.name, **at), ran=ran, **facts)  # type: ignore[arg-type]


def answer(*pairs: tuple[Observation, Observation]) -> DiffReport:
    one = {without_environment(row.cell): row for row, _ in pairs}
    other = {without_environment(row.cell): row for _, row in pairs}
    return DiffReport(
        before="4.50.0",
        after="a checkout of transformers",
        differences=compare(one, other, CASES),
        cases=CASES,
        run="now",
        sides=("4.50.0", "../my clone"),
    )


BF16: dict[str, object] = {"precision": Precision.BF16}
FP16: dict[str, object] = {"precision": Precision.FP16}
FP32: dict[str, object] = {"precision": Precision.FP32}
ASIDE: dict[str, object] = {**BF16, "workaround": "aside"}
MELTS: dict[str, object] = {**BF16, "name": "toy_melts"}

WHOLE = answer(
    (before(Outcome.PASSES, FP32), after(Outcome.PASSES, FP32)),
    (before(Outcome.PASSES, BF16), after(Outcome.FAILS, BF16)),
    (before(Outcome.PASSES, FP16), after(Outcome.FAILS, FP16)),
    (before(Outcome.FAILS, ASIDE), after(Outcome.FAILS, ASIDE, how=HOSTILE)),
    (before(Outcome.FAILS, MELTS), after(Outcome.FAILS, MELTS, unstable=True)),
)


def text(report: DiffReport) -> str:
    return write(document(report), "text")


def published() -> DiffReport:
    """Return what was published at several days, against what was run now."""
    return answer(
        *(
            (dataclasses.replace(before(Outcome.PASSES, at), source=day), after(Outcome.PASSES, at))
            for at, day in ((FP32, "2026-11-23"), (BF16, "2026-11-21"), (FP16, "2026-11-22-b"))
        )
    )


def moved(before_: float, after_: float) -> DiffReport:
    """Return two sides that pass with different numbers."""
    one = dataclasses.replace(before(Outcome.PASSES, BF16), measured={"largest error": before_})
    other = dataclasses.replace(after(Outcome.PASSES, BF16), measured={"largest error": after_})
    return answer((one, other))


def test_every_answer_reads_as_expected_and_what_is_pasted_has_no_path_of_this_machine(
    expected: Expected,
) -> None:
    pasted = dataclasses.replace(WHOLE, sides=("4.50.0", "path/to/transformers"))
    texts = {
        "everything": text(WHOLE),
        "everything, to paste": write(document(pasted), "markdown"),
        "several publications": text(published()),
        "a number that moved": text(moved(0.5, 1.0)),
        "a number that moved, to paste": write(document(moved(0.5, 1.0)), "markdown"),
    }

    expected("diff", texts)
    assert "my clone" not in texts["everything, to paste"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (None, "not on this side"),
        (seen(Outcome.PASSES), "passes"),
        (
            seen(Outcome.PASSES, exercised=Exercised.NO),
            "passes (never computed in its precision)",
        ),
        (seen(Outcome.DECLINES), "declines to judge"),
        (
            dataclasses.replace(seen(Outcome.NOT_APPLICABLE), reason="needs peft"),
            "is not applicable (needs peft)",
        ),
        (seen(Outcome.CRASHES), "crashes (not as the case describes)"),
    ],
)
def test_each_side_says_what_happened(row: Observation | None, expected: str) -> None:
    assert happened(TOY, row) == expected


def test_a_file_of_the_users_is_typed_as_it_was() -> None:
    command = dataclasses.replace(WHOLE, files={"toy_breaks": "../toy_breaks.py"})

    assert "--case ../toy_breaks.py" in command.again(WHOLE.differences[0].cell)


def test_json_has_no_number_that_it_cannot_hold() -> None:
    (told,) = document(moved(float("nan"), float("inf"))).data["cells"]

    assert told["moved"] == {"largest error": ["nan", "inf"]}
