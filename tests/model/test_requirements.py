"""Requirements held against installed versions, development versions included."""

from __future__ import annotations

import pytest
from factories import MARKERS
from packaging.requirements import Requirement

from repromatrix.runner.model.requirements import holds, parse, settled, unsatisfied


def _holds(requirement: str, version: str) -> bool:
    return holds(parse(requirement), {"transformers": version}, MARKERS)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("5.24.0.dev0", "5.24.0"),
        ("5.24.0.dev0+g0123456789ab", "5.24.0"),
        ("4.52.0rc1", "4.52.0"),
        ("4.49.0.post1", "4.49.0.post1"),
        ("2.13.0+cpu", "2.13.0+cpu"),
        ("4.50.0", "4.50.0"),
    ],
)
def test_a_version_is_the_release_that_it_will_become(version: str, expected: str) -> None:
    assert expected == str(settled(version))


@pytest.mark.parametrize("version", ["5.24.0.dev0", "5.24.0.dev0+g0123456789ab", "5.24.0rc1"])
def test_main_falls_on_one_side_of_a_natural_pair(version: str) -> None:
    sides = [_holds(f"transformers{side}5.24", version) for side in (">=", "<", "==", ">")]

    assert sides == [True, False, True, False]


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("transformers>=4.50,<4.51", True),
        ("transformers>=4.50,<4.50.3", False),
        ("transformers==4.50.3", True),
        ("Transformers", True),
        ("transformers[torch]>=4.50", True),
        ("transformers==4.50.3; sys_platform == 'win32'", True),
        ("transformers==4.49.0; sys_platform == 'linux'", False),
        ("peft", False),
    ],
)
def test_a_requirement_holds_where_its_version_is_installed(
    requirement: str,
    expected: bool,  # noqa: FBT001
) -> None:
    assert expected is _holds(requirement, "4.50.3")


def test_a_local_build_counts_as_its_version() -> None:
    pins = {"torch": "2.13.0+cpu"}
    texts = ("torch==2.13.0", "torch>=2.13", "torch<2.13", "torch<2.14")
    found = [holds(Requirement(text), pins, MARKERS) for text in texts]

    assert found == [True, True, False, True]


def test_whatever_is_not_satisfied_is_named_with_what_is_installed() -> None:
    wanted = [parse(text) for text in ("transformers>=4.51", "peft", "torch")]
    expected = ("needs transformers>=4.51, has 4.50.0", "needs peft, has nothing")

    actual = unsatisfied(wanted, {"transformers": "4.50.0", "torch": "2.13.0"}, MARKERS)

    assert expected == actual


def test_a_text_that_is_no_requirement_is_refused_with_packagings_reason() -> None:
    with pytest.raises(ValueError, match=r"^Expected semicolon "):
        parse("transformers at least 4.50")
