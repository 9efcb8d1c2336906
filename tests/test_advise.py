"""The newest release on which all cases pass, and a specifier whose exclusions are cited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from factories import BREAKS, case, what_is_known
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from runner.answering.advise import advise
from runner.answering.known import Question
from runner.errors import ExitCode
from runner.model.outcomes import Outcome, Precision
from runner.telling.advise import markdown, text

if TYPE_CHECKING:
    from runner.answering.advise import Advice

PASSES, FAILS, NOT_RUN = Outcome.PASSES, Outcome.FAILS, Outcome.NOT_RUN
BF16 = Question(precisions=(Precision.BF16,))


def advice(**line: Outcome) -> Advice:
    return advise(
        what_is_known({name.strip("v").replace("_", "."): one for name, one in line.items()}), BF16
    )


def test_every_exclusion_cites_its_cell() -> None:
    found = advice(
        v4_48_0=FAILS,
        v4_49_0=PASSES,
        v4_50_0=FAILS,
        v4_50_1=FAILS,
        v4_51_0=PASSES,
        v4_51_1=FAILS,
        v4_51_2=PASSES,
        v4_52_0=FAILS,
    )

    assert (found.specifier, found.code) == (
        ">=4.49.0,!=4.50.*,!=4.51.1,<=4.51.2",
        ExitCode.AS_EXPECTED,
    )
    assert [[row.cell.environment for row in one.cites] for one in found.exclusions] == [
        ["4.48.0"],
        ["4.50.0", "4.50.1"],
        ["4.51.1"],
        ["4.52.0"],
    ]
    assert found.within == ("4.49.0", "4.51.0", "4.51.2")


def test_what_is_not_measured_is_not_advised_and_the_runs_are_named() -> None:
    found = advice(v4_49_0=PASSES, v4_50_0=NOT_RUN, v4_51_0=NOT_RUN)

    assert (found.specifier, found.code) == ("==4.49.0", ExitCode.AS_EXPECTED)
    assert text(found) == (
        "4.49.0 is the newest release on which all pass: 1 case, bf16.\n"
        "transformers==4.49.0\n"
        "\n"
        "  ==4.49.0     4.50.0: not enough evidence, toy_breaks (bf16)\n"
        "\n"
        "Not enough evidence for 2 newer releases (4.50.0, 4.51.0). Run:\n"
        "  nox -s matrix -- --case toy_breaks --release 4.50.0,4.51.0"
        " --precision bf16 --workaround none\n"
        "\n"
        "Measured on CPU, torch 2.13.0+cpu, Python 3.11.\n"
    )


def test_without_a_passing_release_the_answer_is_no_or_not_enough_evidence() -> None:
    no, open_ = advice(v4_49_0=FAILS, v4_50_0=FAILS), advice(v4_49_0=FAILS, v4_50_0=NOT_RUN)

    assert (no.code, open_.code) == (ExitCode.UNEXPECTED, ExitCode.UNDECIDED)
    assert text(no).startswith("No release passes all of 1 case, bf16:")
    assert text(open_).startswith("Not enough evidence: no release is measured to pass")
    assert markdown(open_).count("`nox -s matrix -- --case toy_breaks --release 4.50.0") == 1


def test_a_release_to_which_nothing_applies_is_not_advised() -> None:
    toy = case(BREAKS, dependencies=("torch", "transformers>=4.50"))
    found = advise(what_is_known({"4.49.0": NOT_RUN, "4.50.0": FAILS}, toy), BF16)

    assert (found.newest, found.code) == (None, ExitCode.UNEXPECTED)


@given(
    outcomes=st.lists(st.sampled_from([PASSES, FAILS, NOT_RUN]), min_size=1, max_size=30),
    lines=st.integers(min_value=1, max_value=4),
)
def test_the_specifier_allows_measured_passes_alone_and_the_newest_of_them(
    outcomes: list[Outcome], lines: int
) -> None:
    line = {f"4.{place // lines}.{place % lines}": one for place, one in enumerate(outcomes)}
    found = advise(what_is_known(line), BF16)
    passing = [name for name, one in line.items() if one is PASSES]

    if not passing:
        assert found.specifier == ""
        return
    allowed = [name for name in line if SpecifierSet(found.specifier).contains(name)]
    assert allowed == list(found.within)
    assert set(allowed) <= set(passing)
    assert allowed[-1] == passing[-1]
    failing = {name for name, one in line.items() if one is FAILS}
    for one in found.exclusions:
        said = {standing.release for standing in one.releases}
        assert {row.cell.environment for row in one.cites} == said & failing
