"""A case, read: what its block may say, and what its digest covers."""

from __future__ import annotations

import pytest
from factories import BREAKS, CODE, case

from repromatrix.runner.model.case import (
    Case,
    CaseKind,
    Exercise,
    Isolation,
    Workaround,
    by_variant,
    stem_of,
    variant_of,
)
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

EVERYTHING = """
kind = "policy"
needs = ["cuda"]
isolation = "process"
exercises = "load"
simulates = "A kernel, by its contract."
environments = ["4.53.3+peft0.15.2"]
timeout = 5
found-by = "measurement"
workarounds.eager = "Choose eager attention."
workarounds.never = { says = "Do not do it.", skips = true }

[[tool.repromatrix.claims]]
report = "https://example.org/2"
says = "It breaks."

[[tool.repromatrix.fails]]
when = ["transformers>=4.50,<4.51"]
precisions = ["bf16"]
devices = ["cuda"]
workarounds = ["*"]
raises = "ValueError"
match = ["on a CPU", "on a GPU"]
fixed-by = "https://example.org/3"
note = "Seen twice."

[[tool.repromatrix.fails]]
outcome = "crashes"
"""


def test_a_case_that_says_only_what_it_must_has_defaults_for_the_rest() -> None:
    block = case(name="toy_breaks").block
    expected: tuple[object, ...] = (
        CaseKind.BUG,
        (),
        Isolation.FORK,
        Exercise.COMPUTE,
        None,
        {},
        (),
        (),
    )

    actual = (
        *(block.kind, block.needs, block.isolation, block.exercises),
        *(block.timeout, block.workarounds, block.claims, block.fails),
    )

    assert expected == actual


def test_every_key_is_read() -> None:
    block = case(EVERYTHING).block
    entry = block.fails[0]

    assert {
        "eager": Workaround(says="Choose eager attention."),
        "never": Workaround(says="Do not do it.", skips=True),
    } == block.workarounds
    assert (*(block.kind, block.isolation, block.exercises, block.timeout),) == (
        CaseKind.POLICY,
        Isolation.PROCESS,
        Exercise.LOAD,
        5.0,
    )
    assert (*([str(one) for one in entry.when], entry.match, entry.workarounds),) == (
        ["transformers<4.51,>=4.50"],
        ("on a CPU", "on a GPU"),
        ("*",),
    )


def test_an_entry_holds_everywhere_in_the_plain_case_unless_it_says_where() -> None:
    entry = case(EVERYTHING).block.fails[1]
    expected: tuple[object, ...] = ((), tuple(Precision), tuple(Device), ("",), Outcome.CRASHES)

    assert expected == (
        *(entry.when, entry.precisions, entry.devices, entry.workarounds, entry.outcome),
    )


def test_an_entry_says_where_it_happens() -> None:
    one = case(f"{BREAKS}where = 'a.b:C.f'\n").block.fails[0]
    several = case(f"{BREAKS}where = ['a.b:C.f', 'a.c:C.f']\n").block.fails[0]

    assert (one.where, several.where) == (("a.b:C.f",), ("a.b:C.f", "a.c:C.f"))
    assert [one.is_at(place) for place in ("a.b:C.f", "a.c:C.f", "")] == [True, False, True]
    assert [several.is_at(place) for place in ("a.c:C.f", "a.d:C.f")] == [True, False]


def test_each_variant_is_a_case_with_its_own_name_model_and_digest() -> None:
    one = case("variants = ['toy', 'big']\nworkarounds.eager = 'Choose eager.'\n")
    toy, big = by_variant(one)

    assert [(each.name, each.stem, each.variant) for each in (toy, big)] == [
        ("toy_breaks[toy]", "toy_breaks", "toy"),
        ("toy_breaks[big]", "toy_breaks", "big"),
    ]
    assert (toy.block.title, big.block.title) == ("A toy breaks [toy]", "A toy breaks [big]")
    assert (toy.block.models, big.block.models, toy.branches) == (("toy",), ("toy",), ("", "eager"))
    assert len({one.digest, toy.digest, big.digest}) == 3
    assert (stem_of(toy.name), variant_of(toy.name), variant_of(one.name)) == (
        *("toy_breaks", "toy", ""),
    )


def test_a_case_without_variants_is_itself_and_keeps_its_digest() -> None:
    assert by_variant(case(EVERYTHING)) == (case(EVERYTHING),)


def test_families_that_share_the_code_are_answered_for_and_not_built() -> None:
    block = case("same-code = ['doll']\n").block

    assert (block.families, block.answers_for) == (("toy",), ("toy", "doll"))
    assert [block.is_about({name}) for name in ("toy", "doll", "car")] == [True, True, False]
    assert [block.is_by_shared_code({name}) for name in ("toy", "doll")] == [False, True]
    assert not block.is_by_shared_code({"toy", "doll"})


def test_the_plain_case_is_the_first_branch() -> None:
    assert case(EVERYTHING).branches == ("", "eager", "never")


@pytest.mark.parametrize(
    ("error_class", "message", "expected"),
    [
        ("ValueError", "so it is on a GPU, again", True),
        ("ValueError", "on a CPU", True),
        ("ValueError", "on a TPU", False),
        ("MyValueError", "on a CPU", False),
    ],
)
def test_a_failure_is_described_by_its_exact_class_and_any_of_its_substrings(
    error_class: str,
    message: str,
    expected: bool,  # noqa: FBT001
) -> None:
    assert expected is case(EVERYTHING).block.fails[0].has_words(error_class, message)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        (case(BREAKS), True),
        (case('kind = "policy"'), True),
        (case("simulates = 'A kernel.'"), True),
        (case("workarounds.eager = 'Choose eager attention.'"), False),
        (case(code=CODE + "torch.zeros(1)\n"), False),
        (case(dependencies=["torch", "transformers>=4.50"]), False),
        (case(dependencies=["transformers", "torch"]), True),
        (case(requires_python=">=3.11"), False),
        (case("needs = ['cuda']"), False),
        (case("isolation = 'process'"), False),
        (case("timeout = 5"), False),
        (case("environments = ['4.53.3+peft0.15.2']"), False),
    ],
)
def test_the_digest_covers_what_is_run_and_nothing_that_is_said_about_it(
    changed: Case,
    same: bool,  # noqa: FBT001
) -> None:
    assert same is (case().digest == changed.digest)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"""What must hold."""\n', True),
        ('\n# A comment.\n"""What\n\nmust hold, \\"""."""  \n', True),
        ("r'''What must hold.'''\n", True),
        ('"""What must hold.""".strip()\n', False),
        ('f"""What must hold."""\n', False),
        ('x = 1\n"""What must hold."""\n', False),
    ],
)
def test_the_docstring_alone_is_not_in_the_digest(text: str, same: bool) -> None:  # noqa: FBT001
    head, rest = ("\n# A comment.\n" if "#" in text else ""), "\nimport torch\n"

    assert same is (case(code=head + rest).digest == case(code=text + rest).digest)


def test_what_a_workaround_says_and_its_snippet_are_not_in_the_digest() -> None:
    one, other = case("workarounds.eager = 'One.'"), case("workarounds.eager = 'Another.'")
    third = case("workarounds.eager = 'One.'\nsnippets.eager = 'model.to(dtype)'")

    assert third.block.snippets == {"eager": "model.to(dtype)"}
    assert one.digest == other.digest == third.digest
