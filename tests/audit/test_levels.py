"""How sure an answer is, at every boundary: unknown is never said to pass."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import (
    BREAKS,
    case,
    cell,
    environment,
    environments,
    installed,
    provenance,
    seen,
    what_is_known,
)
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from repromatrix.runner.audit.known import KnownEvidence, known
from repromatrix.runner.audit.questions import CellAnswer, Level, Says, answer, named, positions
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from repromatrix.runner.audit.packages import Installed

PASSES, FAILS = Outcome.PASSES, Outcome.FAILS
CLEAR, HITS, UNKNOWN = Says.CLEAR, Says.HITS, Says.UNKNOWN
MEASURED, DERIVED = Level.MEASURED, Level.DERIVED
LINE = {
    "4.49.0": PASSES,
    "4.50.0": FAILS,
    "4.50.1": FAILS,
    "4.51.0": PASSES,
    "4.51.1": Outcome.NOT_RUN,
    "4.52.0": PASSES,
}
PEFT = BREAKS.replace("transformers>=4.50,<4.51", "peft>=0.14,<0.16")


def at(mine: Installed, facts: KnownEvidence | None = None) -> CellAnswer:
    facts = facts or what_is_known(LINE)
    (position,) = positions(facts.cases.values(), mine, facts).values()
    return answer(position, "", Precision.BF16, Device.CPU, facts)


def short(one: CellAnswer) -> tuple[Says, Level, tuple[str, ...]]:
    return one.says, one.level, tuple(row.cell.environment for row in one.rests_on)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("4.49.0", (CLEAR, MEASURED, ("4.49.0",))),
        ("4.50.0", (HITS, MEASURED, ("4.50.0",))),
        ("4.50.0.post1", (HITS, DERIVED, ("4.50.0", "4.50.1"))),
        ("4.50.0+abc", (HITS, DERIVED, ("4.50.0", "4.50.1"))),
        ("4.50.1.dev0", (HITS, DERIVED, ("4.50.0", "4.50.1"))),
        ("4.51.2", (CLEAR, DERIVED, ("4.51.0", "4.52.0"))),
    ],
)
def test_a_version_is_measured_or_lies_between_two_that_were(
    version: str, expected: tuple[Says, Level, tuple[str, ...]]
) -> None:
    assert short(at(installed(version))) == expected


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("4.48.0", "older than what was measured (4.49.0)"),
        ("4.49.5", "between 4.49.0, which passes, and 4.50.0, which fails"),
        ("4.50.9", "between 4.50.1, which fails, and 4.51.0, which passes"),
        ("4.51.1", "4.51.1 was not run"),
        ("4.52.1.dev0", "newer than what was measured (4.52.0)"),
        ("5.99.0", "newer than what was measured (4.52.0)"),
        ("", "transformers is not pinned (>=1, not a pin)"),
    ],
)
def test_everything_else_is_unknown_and_says_why(version: str, why: str) -> None:
    found = at(installed(version))

    assert (found.says, found.level, found.why) == (UNKNOWN, Level.UNKNOWN, why)


def test_a_cell_that_proves_nothing_answers_nothing() -> None:
    toy, held = case(BREAKS), environment("4.50.0")
    ran = provenance(toy, held)
    unstable = seen(FAILS, ran=ran, unstable=True)
    idle = seen(PASSES, ran=ran, exercised=Exercised.NO)
    killed = seen(Outcome.OUT_OF_MEMORY, ran=ran)
    stale = seen(FAILS, ran=dataclasses.replace(ran, case_digest="another"))
    said = [
        at(installed(), known({toy.name: toy}, {held.name: held}, [row])).why
        for row in (unstable, idle, killed, stale)
    ]
    contested = known(
        {toy.name: toy}, {held.name: held}, [seen(FAILS, ran=ran), seen(PASSES, ran=ran)]
    )

    assert said == [
        "4.50.0 is unstable",
        "4.50.0 never computed in bf16",
        "4.50.0 runs out of memory",
        "4.50.0 was not run",
    ]
    assert at(installed(), contested).why == "4.50.0 has contradicting results"


def test_the_packages_that_count_are_those_that_expectations_and_pairs_name() -> None:
    pair = case('environments = ["4.53.3+accelerate1.2.0"]\n' + PEFT)

    assert named(case(BREAKS)) == ("transformers",)
    assert named(pair) == ("transformers", "accelerate", "peft")


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        (
            installed("4.49.0", whole=True, **{"ms-swift": "3.1.1"}),
            (HITS, MEASURED, ("ms-swift3.1.1",)),
        ),
        (
            installed("4.50.0", whole=True, **{"ms-swift": "3.3.0"}),
            (CLEAR, MEASURED, ("ms-swift3.3.0",)),
        ),
        (installed("4.49.0", whole=True, **{"ms-swift": "3.2.0"}), (UNKNOWN, Level.UNKNOWN, ())),
        (installed("4.50.0", whole=True, **{"ms-swift": "3.4.0"}), (UNKNOWN, Level.UNKNOWN, ())),
        (installed("4.49.0"), (Says.NOT_APPLICABLE, Level.UNKNOWN, ())),
    ],
    ids=["as the older", "as the newer", "between", "behind", "without"],
)
def test_in_stacks_the_program_counts_too_and_no_release_stands_for_them(
    mine: Installed, expected: tuple[Says, Level, tuple[str, ...]]
) -> None:
    toy = case(BREAKS, dependencies=("torch", "transformers", "ms-swift>=3"))
    pairs = {"3.1.1": ("4.49.0", FAILS), "3.3.0": ("4.50.0", PASSES)}
    stacks = {
        swift: environment(
            f"ms-swift{swift}",
            source=Source.STACK,
            **{"transformers": transformers, "ms-swift": swift},
        )
        for swift, (transformers, _) in pairs.items()
    }
    rows = [
        seen(pairs[swift][1], cell(one.name), ran=provenance(toy, one))
        for swift, one in stacks.items()
    ]
    held = environments("4.49.0", "4.50.0") | {one.name: one for one in stacks.values()}

    assert short(at(mine, known({toy.name: toy}, held, rows))) == expected


def test_another_version_of_a_named_package_is_not_measured() -> None:
    toy = case(PEFT, dependencies=("torch", "transformers", "peft"))
    facts = what_is_known(
        {"4.49.0": FAILS, "4.50.0": FAILS, "4.51.0": PASSES},
        toy,
        {"4.49.0": {"peft": "0.14.0"}, "4.50.0": {"peft": "0.15.0"}, "4.51.0": {"peft": "0.16.0"}},
    )

    assert short(at(installed("4.50.0", peft="0.15.0"), facts)) == (HITS, MEASURED, ("4.50.0",))
    assert short(at(installed("4.50.0", peft="0.14.5"), facts)) == (
        HITS,
        DERIVED,
        ("4.49.0", "4.50.0"),
    )
    assert at(installed("4.51.0", peft="0.15.0"), facts).why == (
        "between 4.50.0, which fails, and 4.51.0, which passes"
    )
    assert at(installed("4.49.0", peft="0.16.0"), facts).says is UNKNOWN
    assert at(installed("4.50.0", peft="0.17.0"), facts).why == (
        "nothing was measured on the newer side of these transformers and peft"
    )
    assert at(installed("4.50.0", peft=""), facts).why == "peft is not pinned (>=1, not a pin)"


def test_a_pair_says_whose_version_it_is() -> None:
    toy = case(
        'environments = ["4.50.0+peft0.16.0"]\n' + PEFT,
        dependencies=("torch", "transformers", "peft"),
    )
    facts = what_is_known(
        {"4.50.0": FAILS, "4.50.0+peft0.16.0": PASSES}, toy, {"4.50.0": {"peft": "0.15.0"}}
    )

    assert short(at(installed("4.50.0", peft="0.16.0"), facts)) == (
        CLEAR,
        MEASURED,
        ("4.50.0+peft0.16.0",),
    )
    assert at(installed("4.50.0", peft="0.15.5"), facts).says is UNKNOWN


def test_what_a_whole_set_does_not_name_is_not_installed_and_a_list_by_hand_says_nothing() -> None:
    toy = case(BREAKS, dependencies=("torch", "transformers", "peft"))
    facts = what_is_known(LINE, toy)

    assert at(installed("4.50.0"), facts).says is Says.NOT_APPLICABLE
    assert at(installed("4.50.0", whole=False), facts).says is UNKNOWN
    assert at(installed("4.50.0", whole=False, peft=""), facts).says is UNKNOWN


def test_a_case_that_needs_a_newer_release_does_not_apply_but_beyond_the_matrix_is_unknown() -> (
    None
):
    toy = case(BREAKS, dependencies=("torch", "transformers>=4.50"))
    facts = what_is_known({"4.49.0": Outcome.NOT_RUN, "4.50.0": FAILS, "4.51.0": PASSES}, toy)

    assert at(installed("4.49.0"), facts).says is Says.NOT_APPLICABLE
    assert at(installed("4.48.0"), facts).says is UNKNOWN


@given(
    outcomes=st.lists(
        st.sampled_from([PASSES, FAILS, Outcome.NOT_RUN, Outcome.OUT_OF_MEMORY]),
        min_size=1,
        max_size=8,
    ),
    minor=st.integers(min_value=-1, max_value=9),
    micro=st.sampled_from(["0", "0.dev0", "0+local", "1"]),
)
def test_nothing_is_said_to_pass_or_hit_without_the_same_answer_on_every_measured_side(
    outcomes: list[Outcome], minor: int, micro: str
) -> None:
    line = {f"4.{50 + place}.0": outcome for place, outcome in enumerate(outcomes)}
    version = f"4.{50 + minor}.{micro}"
    found = at(installed(version), what_is_known(line))
    said = {PASSES: CLEAR, FAILS: HITS}
    answered = {place: said[outcome] for place, outcome in enumerate(outcomes) if outcome in said}
    older = minor - 1 if micro == "0.dev0" else minor
    newer = minor if micro == "0.dev0" else minor + 1
    below = [answered[place] for place in sorted(answered) if place <= older]
    above = [answered[place] for place in sorted(answered) if place >= newer]

    if micro == "0" and 0 <= minor < len(outcomes):
        assert (found.says, found.level) == (
            (answered[minor], MEASURED) if minor in answered else (UNKNOWN, Level.UNKNOWN)
        )
    elif below and above and below[-1] is above[0]:
        assert (found.says, found.level) == (above[0], DERIVED)
    else:
        assert (found.says, found.level) == (UNKNOWN, Level.UNKNOWN)


BOUNDS = st.lists(
    st.tuples(st.sampled_from([">=", "<", "<=", "!=", "=="]), st.sampled_from([*LINE, "4.51.*"])),
    max_size=2,
)


@given(BOUNDS)
def test_of_a_range_is_said_what_is_said_of_every_measured_version_in_it(
    bounds: list[tuple[str, str]],
) -> None:
    usual = [(sign, version) for sign, version in bounds if "*" not in version or sign == "=="]
    text = ",".join(f"{sign}{version}" for sign, version in usual)
    mine = dataclasses.replace(
        installed(), pins={"torch": "2.13.0"}, loose={"transformers": "a range"}
    )
    inside = [version for version in LINE if SpecifierSet(text).contains(version)]
    said = {at(installed(version)).says for version in inside}
    found = at(dataclasses.replace(mine, ranges={"transformers": text}))

    assert found.says is (said.pop() if len(said) == 1 else UNKNOWN)
    assert found.level is not MEASURED or len(inside) == 1


def test_a_range_of_two_packages_is_answered_where_both_agree_and_are_few() -> None:
    toy = case(PEFT, dependencies=("torch", "transformers", "peft>=0.14"))
    pins = {name: {"peft": f"0.{number}.0"} for number, name in enumerate(LINE, 14)}
    facts = what_is_known(LINE, toy, pins)
    mine = dataclasses.replace(installed("4.50.0"), loose={"peft": "a range"})

    def says(peft: str) -> tuple[Says, str]:
        found = at(dataclasses.replace(mine, ranges={"peft": peft}), facts)
        return found.says, found.why

    assert says("==0.15.*") == (HITS, "")
    assert says("<0.14") == (UNKNOWN, "peft is not pinned (a range)")
