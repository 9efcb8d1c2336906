"""Releases under another torch: its lock is laid over theirs, and it is chosen by no machine."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import BREAKS, case, cell, environment, provenance, seen

from repromatrix.runner import project
from repromatrix.runner.environments import locks
from repromatrix.runner.environments.uv import torch_backend
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.cell import Source, belongs, obstacles
from repromatrix.runner.model.lock import read_lock, torch_part
from repromatrix.runner.model.outcomes import Device, Outcome, Verdict
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

NAME = "4.50.0+torch2.6.0"
WHOLE = """\
fsspec==2026.9.0 \\
    --hash=sha256:aa
nvidia-nccl-cu12==2.21.5 \\
    --hash=sha256:bb
sympy==1.13.1 \\
    --hash=sha256:cc
torch==2.6.0 \\
    --hash=sha256:dd
"""


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    found = small_checkout.checkout(tmp_path, ("4.49.0", "4.50.0"))
    text = (ROOT / "environments" / "locks" / "torch2.6.0.txt").read_text()
    (found.locks / "torch2.6.0.txt").write_text(text)
    (found.locks / "torch2.8.0.txt").unlink()
    return found


def test_of_what_a_torch_needs_only_its_own_packages_and_what_is_named_is_locked() -> None:
    kept = torch_part(WHOLE, {"sympy"})

    assert [line.split("==")[0] for line in kept.splitlines() if "==" in line] == [
        *("nvidia-nccl-cu12", "sympy", "torch")
    ]
    assert read_lock(kept, "torch2.6.0", "", of_torch=True).versions({})["torch"] == "2.6.0"
    with pytest.raises(RunnerError):
        read_lock(kept, "4.50.0", "")


def test_a_release_under_another_torch_differs_from_it_by_that_lock_alone(places: Paths) -> None:
    loaded = project.load(places, also=[NAME])
    before, after = loaded.environments["4.50.0"].pins, loaded.environments[NAME].pins
    own = locks.load_torch(places, loaded.matrix, "2.6.0").versions({})

    assert loaded.environments[NAME].source is Source.TORCH
    assert after == {**before, **own}
    assert (after["torch"], after["sympy"]) == ("2.6.0", "1.13.1")
    assert loaded.environments[NAME].digest != loaded.environments["4.50.0"].digest


def test_a_torch_that_is_locked_is_not_chosen_by_the_machine(
    places: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = project.load(places, also=[NAME])
    here = project.recipe(loaded, NAME), project.recipe(loaded, "4.50.0")
    monkeypatch.setenv("UV_TORCH_BACKEND", "cu130")
    there = project.recipe(loaded, NAME), project.recipe(loaded, "4.50.0")

    assert torch_backend() == "cu130"
    assert (here[0].torch, here[1].torch) == ("", loaded.matrix.torch.version)
    assert here[0] == there[0]
    assert here[1].digest != there[1].digest


def test_without_being_named_no_release_stands_under_another_torch(places: Paths) -> None:
    assert not [name for name in project.load(places).names if "torch" in name]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("4.50.0+torch2.5.1", "torch 2.5.1 is none of those"),
        ("4.50.0+torch2.8.0", "the file does not exist"),
        ("4.99.0+torch2.6.0", "4.99.0 is not a release"),
    ],
)
def test_a_torch_or_a_release_that_is_not_there_is_refused(
    places: Paths, name: str, what: str
) -> None:
    with pytest.raises(RunnerError, match=what):
        project.load(places, also=[name])


def test_the_lock_of_a_torch_is_stale_when_what_it_was_made_from_changes(places: Paths) -> None:
    matrix = locks.load_matrix(places)
    torch = matrix.torch.others[0]
    other = torch.model_copy(update={"requires": ()})

    assert locks.torch_inputs(matrix, torch) != locks.torch_inputs(matrix, other)
    (places.locks / "torch2.6.0.txt").write_text("# input: 0123456789abcdef\n" + WHOLE)
    with pytest.raises(RunnerError, match="resolved from other inputs"):
        locks.load_torch(places, matrix, "2.6.0")


def test_a_case_has_cells_under_a_torch_where_its_extras_are() -> None:
    plain, extended = case(), case(dependencies=("torch", "transformers", "timm"), extras=("timm",))
    places_ = [
        dataclasses.replace(environment(name), source=Source.TORCH)
        for name in (NAME, "4.50.0+timm+torch2.6.0")
    ]

    assert [belongs(plain, place) for place in places_] == [True, False]
    assert [belongs(extended, place) for place in places_] == [False, True]


def test_no_case_applies_where_no_model_can_be_imported(places: Paths) -> None:
    text = places.matrix.read_text().replace('"5.19.0"]', '"5.19.0", "4.50.0"]')
    before = project.load(places, also=[NAME]).environments[NAME]
    places.matrix.write_text(text)
    loaded = project.load(places, also=[NAME])
    broken, toy = loaded.environments[NAME], case(BREAKS)
    row = seen(Outcome.FAILS, cell(NAME), ran=provenance(toy, broken))

    assert broken.unusable == "transformers 4.50.0 imports no model under torch 2.6.0"
    assert (before.unusable, loaded.environments["4.50.0"].unusable) == ("", "")
    assert obstacles(toy, broken, Device.CPU) == (broken.unusable,)
    assert before.digest == broken.digest
    assert [
        one.verdict
        for held in (before, broken)
        for one in judge_all([row], {toy.name: toy}, {NAME: held})
    ] == [Verdict.AS_EXPECTED, Verdict.NOT_APPLICABLE]
