"""Names of environments."""

from __future__ import annotations

import pytest

from repromatrix.runner.model.environment_name import (
    EnvironmentName,
    taken_apart,
    under_torch,
    with_extras,
    with_torch,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("4.50.0", EnvironmentName(base="4.50.0")),
        ("main", EnvironmentName(base="main")),
        ("4.50.0+timm", EnvironmentName(base="4.50.0", extras=("timm",))),
        ("4.53.3+peft0.15.2", EnvironmentName(base="4.53.3", changed=(("peft", "0.15.2"),))),
        (
            "4.53.3+huggingface-hub0.30.0+peft0.15.2+timm",
            EnvironmentName(
                base="4.53.3",
                changed=(("huggingface-hub", "0.30.0"), ("peft", "0.15.2")),
                extras=("timm",),
            ),
        ),
        ("5.0.0+py7zr1.0.0", EnvironmentName(base="5.0.0", changed=(("py7zr", "1.0.0"),))),
        ("5.0.0+py7zr", EnvironmentName(base="5.0.0", extras=("py7zr",))),
    ],
)
def test_a_name_says_its_base_what_is_changed_and_what_is_laid_on_top(
    text: str, name: EnvironmentName
) -> None:
    assert taken_apart(text) == name


@pytest.mark.parametrize("text", ["4.50.0+", "4.50.0+Timm", "4.50.0+0.15.2", "4.50.0+a_b"])
def test_a_part_that_names_no_package_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no package"):
        taken_apart(text)


def test_extras_are_written_behind_their_base() -> None:
    assert with_extras("4.50.0", ("librosa", "timm")) == "4.50.0+librosa+timm"
    assert with_extras("4.50.0", ()) == "4.50.0"


@pytest.mark.parametrize("base", ["4.50.0", "4.50.0+timm", "4.53.3+peft0.15.2"])
def test_a_torch_is_written_last_and_is_laid_over_the_rest(base: str) -> None:
    assert under_torch(with_torch(base, "2.6.0")) == (base, "2.6.0")
    assert under_torch(base) is None


@pytest.mark.parametrize("name", ["torch2.6.0", "4.50.0+torch2.6.0+timm", "4.50.0+torchvision0.21"])
def test_a_name_that_ends_in_no_torch_is_under_none(name: str) -> None:
    assert under_torch(name) is None
