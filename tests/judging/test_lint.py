"""What makes a case a fair one: rules for its names, its source and its block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, CODE, case, environment, environments

from repromatrix.runner.judging.lint import scrutinise, undecided
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Environment

HELD = environments("4.49.0", "4.50.0", "4.50.3", "4.51.0")
EAGER = "workarounds.eager = 'Choose eager.'\n"


def _keys(toy: Case, held: Mapping[str, Environment] = HELD) -> list[str]:
    found = [*scrutinise(toy, held, tuple(Precision), [Device.CPU]), *undecided(toy, held)]
    said = [str(fault).split(": ") for fault in found]
    return [parts[1] for parts in said if parts[0] == "cases/toy_breaks.py"]


def _with_code(*lines: str, toml: str = BREAKS) -> Case:
    return case(toml, CODE + "".join(f"{line}\n" for line in lines))


def test_a_fair_case_has_no_fault() -> None:
    assert _keys(case(EAGER + BREAKS)) == []


def test_a_case_has_fewer_than_60_lines_of_code() -> None:
    fair, long = _with_code(*["x = 1"] * 57, "", ""), _with_code(*["x = 1"] * 58)

    assert (_keys(fair), _keys(long)) == ([], ["length"])


SEED = 'torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))'
VARIANT = 'os.environ.get("REPRO_VARIANT", "toy")'
VARIES = "variants = ['toy', 'big']\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (SEED, []),
        ("torch.manual_seed(0)", ["line 22"]),
        (SEED.replace('"0"', '"zero"'), ["the default of REPRO_SEED"]),
        (SEED.replace(', "0"', ""), ["the default of REPRO_SEED"]),
    ],
)
def test_the_seed_can_be_chosen_and_is_a_number(line: str, found: list[str]) -> None:
    assert _keys(_with_code(line)) == found


@pytest.mark.parametrize(
    ("toml", "line", "found"),
    [
        (VARIES + BREAKS, VARIANT, []),
        (f"{VARIES}{BREAKS}variants = ['big']\n", VARIANT, []),
        (VARIES + BREAKS, "", ["variants"]),
        (VARIES + BREAKS, VARIANT.replace("toy", "car"), ["the default of REPRO_VARIANT"]),
        (BREAKS, VARIANT, ["variants"]),
        (f"{BREAKS}variants = ['car']\n", "", ["fails[0].variants"]),
        ("variants = ['toy', 'Big One']\n", VARIANT, ["variants"]),
        ("variants = ['toy', 'toy']\n", VARIANT, ["variants"]),
        (f"{VARIES}same-code = ['car']\n{BREAKS}", VARIANT, []),
        (f"{VARIES}same-code = ['big']\n{BREAKS}", VARIANT, ["same-code"]),
        (f"same-code = ['toy', 'Car']\n{BREAKS}", "", ["same-code", "same-code"]),
    ],
)
def test_variants_and_shared_code_are_held_to_what_is_built(
    toml: str, line: str, found: list[str]
) -> None:
    assert _keys(_with_code(line, toml=toml)) == found


def test_entries_of_different_variants_may_hold_on_one_release() -> None:
    two = f"{VARIES}{BREAKS}variants = ['toy']\n{BREAKS}variants = ['big']\n"

    assert _keys(_with_code(VARIANT, toml=two)) == []
    assert _keys(_with_code(VARIANT, toml=two.replace("['toy']", "['big']"))) == [
        "fails[0] and fails[1]"
    ]


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("raise ValueError(f'see, it breaks {1}')", True),
        ("raise ValueError('another one')", False),
        ("assert torch, 'it breaks'", False),
    ],
)
def test_a_case_that_raises_the_message_that_it_matches_is_refused(
    line: str,
    refused: bool,  # noqa: FBT001
) -> None:
    toy = _with_code(line)
    number = (toy.script.block + toy.script.code).splitlines().index(line) + 1

    assert ([f"line {number}"] if refused else []) == _keys(toy)


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        (["def main():", "    assert torch, 'it breaks'"], False),
        (["def main():", "    def kernel():", "        assert torch, 'it breaks'"], True),
        (["def kernel():", "    if torch:", "        assert torch, f'see, it breaks {1}'"], True),
        (["class Kernel:", "    def main(self):", "        assert torch, 'it breaks'"], True),
        (["def kernel():", "    assert torch != 'it breaks'"], False),
    ],
)
def test_only_main_may_assert_with_the_words_that_are_matched(
    lines: list[str],
    refused: bool,  # noqa: FBT001
) -> None:
    toy = _with_code(*lines)
    number = (toy.script.block + toy.script.code).splitlines().index(lines[-1]) + 1

    assert ([f"line {number}"] if refused else []) == _keys(toy)


@pytest.mark.parametrize(
    ("lines", "isolation", "refused"),
    [
        (["os.environ.setdefault('A', '1')", "from transformers import x"], "fork", True),
        (["os.putenv('A', '1')", "import transformers.models"], "fork", True),
        (["os.environ['A'] = '1'", "import transformers"], "process", False),
        (["os.environ['A'] = '1'", "import json"], "fork", False),
        (["import transformers", "os.environ['A'] = '1'"], "fork", False),
        (["device = os.environ.get('A')", "import transformers"], "fork", False),
    ],
)
def test_settings_before_imports_demand_a_process(
    lines: list[str],
    isolation: str,
    refused: bool,  # noqa: FBT001
) -> None:
    toml, code = (
        f"isolation = '{isolation}'",
        "".join(f"{line}\n" for line in ["import os", *lines]),
    )
    toy = case(toml, code='"""A toy must not break."""\n' + code)
    number = (toy.script.block + toy.script.code).splitlines().index(lines[1]) + 1

    assert ([f"line {number}"] if refused else []) == _keys(toy)


def test_overlapping_entries_are_refused_once_with_a_cell_of_theirs() -> None:
    toy = case(BREAKS + BREAKS.replace("4.50,<4.51", "4.49,<4.50") + BREAKS.replace(">=4.50,", ""))

    assert _keys(toy) == ["fails[1] and fails[2]", "fails[0] and fails[2]"]


def test_entries_that_overlap_only_where_there_is_no_environment_are_sound() -> None:
    toy = case(BREAKS + BREAKS.replace("4.50,<4.51", "4.50.1,<4.50.2"))

    assert _keys(toy) == []


def test_entries_of_different_variants_do_not_overlap() -> None:
    toy = case(EAGER + BREAKS + BREAKS + "workarounds = ['eager']")

    assert _keys(toy) == []


def test_a_report_says_something_of_the_bug_that_it_mends() -> None:
    said = {"report": "https://example.org/1", "says": "It breaks.", "outcome": "fails"}
    claim = "[[tool.repromatrix.claims]]\n" + "".join(f"{key} = '{said[key]}'\n" for key in said)
    fixed = f"{BREAKS}fixed-by = '{said['report']}'\n"

    assert _keys(case(fixed)) == ["reports"]
    assert _keys(case(fixed + claim)) == []


def test_an_entry_of_another_bug_has_a_title_of_its_own() -> None:
    other = BREAKS.replace("it breaks", "another").replace("bf16", "fp16")
    titled = other.replace("when", "title = 'Another toy breaks'\nwhen")
    placed = "where = 'toy.layers:Attention.forward'\n"

    assert _keys(case(BREAKS + other)) == ["fails[1]"]
    assert _keys(case(BREAKS + titled)) == []
    assert _keys(case(BREAKS + placed + other + placed)) == []


@pytest.mark.parametrize(
    ("entry", "keys"),
    [
        (BREAKS.replace("transformers>=4.50,<4.51", "torch<3"), []),
        (BREAKS.replace("when", "at-fault = 'peft'\nwhen"), []),
        (BREAKS.replace("when", "at-fault = 'unslooth'\nwhen"), ["fails[0].at-fault"]),
        (BREAKS.replace('when = ["transformers>=4.50,<4.51"]', ""), ["fails[0].at-fault"]),
        (BREAKS.replace("<4.51", '<4.51", "peft<1'), ["fails[0].at-fault"]),
        (f"{BREAKS}where = 'peft.layers:Attention.forward'\n", ["fails[0].at-fault"]),
    ],
)
def test_it_is_clear_which_package_has_the_fault(entry: str, keys: list[str]) -> None:
    peft = {"4.49.0+peft0.15.0": environment(source=Source.PAIR, peft="0.15.0")}

    assert _keys(case(entry), HELD | peft) == keys
