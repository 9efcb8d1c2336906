"""Environments and cells: identity, and where a case can be run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import case, environment

from repromatrix.runner.model.cell import obstacles
from repromatrix.runner.model.outcomes import Device

if TYPE_CHECKING:
    from repromatrix.runner.model.case import Case


@pytest.mark.parametrize(
    ("toy", "expected"),
    [
        (case(), ()),
        (
            case(dependencies=["transformers>=4.51", "peft"]),
            ("needs transformers>=4.51, has 4.50.0", "needs peft, has nothing"),
        ),
        (case(requires_python=">=3.12"), ("needs Python >=3.12, has 3.11",)),
        (case("needs = ['cuda']"), ("needs cuda, runs on cpu",)),
        (case(dependencies=["peft; sys_platform == 'win32'"]), ()),
        (case(dependencies=["transformers[torch]"]), ()),
    ],
)
def test_what_keeps_a_case_from_running_is_named(toy: Case, expected: tuple[str, ...]) -> None:
    assert expected == obstacles(toy, environment(), Device.CPU)


def test_a_case_that_needs_cuda_has_no_obstacle_there() -> None:
    assert obstacles(case("needs = ['cuda']"), environment(), Device.CUDA) == ()


def test_a_case_of_several_processes_does_not_run_on_the_one_gpu_that_a_cell_sees() -> None:
    several = case("processes = 2")

    assert obstacles(several, environment(), Device.CUDA) == ("needs 2 GPUs, and a cell sees one",)
    assert obstacles(several, environment(), Device.CPU) == ()


def test_an_environment_is_what_it_holds_not_how_it_is_called() -> None:
    one = environment("4.50.0", peft="0.15.0")
    renamed = dataclasses.replace(one, name="other")
    changed = dataclasses.replace(one, pins={**one.pins, "peft": "0.15.1"})

    assert one.digest == renamed.digest
    assert one.digest != changed.digest


def test_another_python_is_another_environment() -> None:
    assert environment().digest != dataclasses.replace(environment(), python="3.12").digest


def test_an_environment_is_how_its_packages_were_built_too() -> None:
    one = dataclasses.replace(environment(), built=("flash-attn told CUDA=no",))

    assert one.digest != environment().digest


def test_a_stated_digest_stands_for_what_is_not_known() -> None:
    assert dataclasses.replace(environment(), stated_digest="abc").digest == "abc"


def test_the_version_of_what_is_not_installed_is_nothing() -> None:
    assert (environment().version("torch"), environment().version("peft")) == ("2.13.0", "")
