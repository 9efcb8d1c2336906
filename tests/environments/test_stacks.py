"""Stacks: programs on top of transformers, from their names and locks to their columns."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environment, environments, provenance, seen, what_is_known
from rich.console import Console

from repromatrix.reports.sections.grid import grid
from repromatrix.reports.view import survey
from repromatrix.runner import project
from repromatrix.runner.audit.advice import advise
from repromatrix.runner.audit.known import known as known_from
from repromatrix.runner.audit.questions import AuditQuestion
from repromatrix.runner.audit.render_advice import document
from repromatrix.runner.cli.lock import pin
from repromatrix.runner.document import write
from repromatrix.runner.environments import locks
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.judging.ranges import Point, axes
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Source, belongs, obstacles
from repromatrix.runner.model.environment_name import stacked
from repromatrix.runner.model.matrix import read_matrix
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.planning.selection import environments_of
from repromatrix.runner.subprocesses import Finished

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.cell import Environment
    from repromatrix.runner.project import Project

TWO = """
stacks = [
  {{ name = "ms-swift3.3.0", date = 2025-04-11, beside = ["transformers==4.50.0", "torchvision"] }},
  {{ name = "{name}", date = 2025-02-20, overrides = ["setuptools>=77"] }},
]
[torch]
"""
NEEDS = ("torch", "transformers", "ms-swift>=3")


def _stack(version: str, transformers: str) -> Environment:
    pins = {"transformers": transformers, "ms-swift": version}
    return environment(f"ms-swift{version}", source=Source.STACK, **pins)


def _stacks() -> dict[str, Environment]:
    found = [_stack("3.10.0", "4.55.0"), _stack("3.3.0", "4.50.0")]
    return environments("4.49.0", "4.50.0") | {one.name: one for one in found}


def _matrix_text(name: str) -> str:
    text = (ROOT / "environments" / "matrix.toml").read_text()
    before, _, after = text.partition("stacks = [")
    return before + TWO.format(name=name) + after.partition("[torch]")[2]


@pytest.fixture
def checkout_of_one(tmp_path: Path) -> Paths:
    """Return a checkout whose matrix knows two stacks, one of them with a lock."""
    places = Paths(root=tmp_path)
    places.cases.mkdir()
    places.locks.mkdir(parents=True)
    places.matrix.write_text(_matrix_text("ms-swift3.1.1"))
    shutil.copy(ROOT / "environments" / "locks" / "ms-swift3.3.0.txt", places.locks)
    return places


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ms-swift3.3.0", ("ms-swift", "3.3.0")),
        ("trl0.16.0", ("trl", "0.16.0")),
        ("4.50.0", None),
        ("main", None),
        ("4.50.0+peft0.15.2", None),
    ],
)
def test_a_stack_is_named_after_a_package_and_its_version(
    name: str, expected: tuple[str, str] | None
) -> None:
    assert stacked(name) == expected


def test_stacks_are_read_with_what_is_installed_beside_them() -> None:
    matrix = read_matrix(_matrix_text("ms-swift3.1.1"))
    stack = matrix.stack("ms-swift3.3.0")

    assert [one.name for one in matrix.stacks] == ["ms-swift3.3.0", "ms-swift3.1.1"]
    assert matrix.pinned[-2:] == ("ms-swift3.3.0", "ms-swift3.1.1")
    assert matrix.stack("4.50.0") is None
    assert stack is not None
    assert [*map(str, stack.beside)] == ["transformers==4.50.0", "torchvision"]


@pytest.mark.parametrize("name", ["ms-swift3.3.0", "ms-swift", "3.3.0", "Ms_Swift3.3.0"])
def test_a_stack_that_stands_twice_or_names_no_version_is_refused(name: str) -> None:
    with pytest.raises(RunnerError) as caught:
        read_matrix(_matrix_text(name))

    assert [str(fault).split(": ")[1] for fault in caught.value.faults] == ["stacks"]
    assert repr(name) in str(caught.value)


def test_a_case_has_cells_in_the_stacks_of_what_it_depends_on_and_applies_nowhere_else() -> None:
    places = [*_stacks().values(), environment("trl1.0.0", source=Source.STACK, trl="1.0.0")]
    plain, stacky = case(), case(dependencies=NEEDS)

    assert [[belongs(one, place) for place in places] for one in (plain, stacky)] == [
        [True, True, False, False, False],
        [True, True, True, True, False],
    ]
    assert [obstacles(stacky, place, Device.CPU) for place in places[:3]] == [
        ("needs ms-swift>=3, has nothing",),
        ("needs ms-swift>=3, has nothing",),
        (),
    ]


def test_the_versions_of_a_stack_are_an_axis_of_their_own() -> None:
    assert axes(case(dependencies=NEEDS), _stacks()) == (
        (Point("4.49.0", "4.49.0"), Point("4.50.0", "4.50.0")),
        (
            Point("ms-swift 3.3.0", "ms-swift3.3.0"),
            Point("ms-swift 3.10.0", "ms-swift3.10.0"),
        ),
    )
    assert len(axes(case(), _stacks())) == 1


def test_a_stack_is_selected_by_its_name_and_by_no_specifier() -> None:
    names = [*_stacks()]

    assert environments_of([">=3"], names) == ["4.49.0", "4.50.0"]
    assert environments_of(["ms-swift3.3.0,4.50.0"], names) == ["4.50.0", "ms-swift3.3.0"]


def test_a_case_of_stacks_alone_advises_no_release_and_says_that_none_can_run_it() -> None:
    stacky = case(dependencies=NEEDS)
    found = advise(what_is_known({"4.49.0": Outcome.NOT_RUN}, stacky), AuditQuestion())

    assert found.newest is None
    assert document(found).headline == "No release can run any of 1 case, fp32 bf16 fp16."


def test_advice_says_what_is_known_of_a_case_in_the_stacks_that_can_run_it() -> None:
    stacky, known = case(dependencies=NEEDS), _stacks()
    rows = [
        seen(outcome, cell(name), ran=provenance(stacky, known[name]))
        for name, outcome in {
            "ms-swift3.3.0": Outcome.PASSES,
            "ms-swift3.10.0": Outcome.FAILS,
        }.items()
    ]
    facts = known_from({stacky.name: stacky}, known, rows)
    found = advise(facts, AuditQuestion(precisions=(Precision.BF16,)))

    assert write(document(found), "text").split("\n\n")[1].splitlines() == [
        "Cases that no release by itself can run:",
        "  ms-swift3.10.0: fails toy_breaks (bf16)",
        "  ms-swift3.3.0: passes toy_breaks (bf16)",
    ]


def test_a_stack_is_a_column_beside_the_releases_where_a_case_asks_for_it() -> None:
    plain, stacky = case(), case(name="stacky", dependencies=NEEDS)
    arranged = survey({one.name: one for one in (plain, stacky)}, [*_stacks().values()], ())

    def heads(of: Case) -> list[str]:
        return [line.label for line in grid(arranged, of, Device.CPU).lines]

    assert heads(plain) == ["4.49", "4.50"]
    assert heads(stacky) == ["ms-swift3.10.0", "ms-swift3.3.0"]


def test_the_stacks_of_this_checkout_hold_what_they_are_named_after(checkout: Project) -> None:
    stacks = checkout.matrix.stacks
    found = [checkout.environments[stack.name] for stack in stacks]

    assert [one.version(stack.package) for one, stack in zip(found, stacks, strict=True)] == [
        stack.version for stack in stacks
    ]
    assert {one.source for one in found} == {Source.STACK}
    assert [checkout.names.index(one.name) for one in found] == sorted(
        checkout.names.index(one.name) for one in found
    )


def test_what_was_resolved_against_what_a_package_says_is_installed_so(checkout: Project) -> None:
    name = "ms-swift3.3.0"
    lock, held = checkout.locks[name], checkout.environments[name]
    recipe = locks.recipe(checkout.matrix, lock, held)
    release = locks.recipe(
        checkout.matrix, checkout.locks["4.50.0"], checkout.environments["4.50.0"]
    )

    assert (recipe.overrides, release.overrides) == (("setuptools>=77.0.3",), ())


def test_a_stack_that_does_not_resolve_keeps_its_old_lock(
    checkout_of_one: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_text() for path in checkout_of_one.locks.iterdir()}
    said = "error: No solution found:\n  because ms-swift>=3 depends on setuptools<70"
    refused = Finished(code=1, out="", err=said)
    monkeypatch.setattr("repromatrix.runner.environments.uv.call", lambda *_, **__: refused)

    with pytest.raises(RunnerError) as caught:
        pin(checkout_of_one, Console(quiet=True), ["ms-swift3.3.0"])

    assert "because ms-swift>=3 depends on setuptools<70" in str(caught.value)
    assert caught.value.code is ExitCode.UNBUILDABLE
    assert before == {path: path.read_text() for path in checkout_of_one.locks.iterdir()}


def test_a_lock_of_a_stack_is_stale_when_its_line_changes(checkout_of_one: Paths) -> None:
    found = checkout_of_one.matrix.read_text()
    checkout_of_one.matrix.write_text(found.replace("transformers==4.50.0", "transformers==4.51.0"))
    loaded, faults = project.read(checkout_of_one)

    told = [str(one) for one in faults if "ms-swift" in str(one)]
    changed = loaded.matrix.stack("ms-swift3.3.0")
    assert changed is not None
    assert "transformers==4.51.0" in locks.stack_inputs(loaded.matrix, changed)
    assert [one.partition(":")[0] for one in told] == [
        "environments/locks/ms-swift3.3.0.txt",
        "environments/locks/ms-swift3.1.1.txt",
    ]
    assert "resolved from other inputs" in told[0]
    assert "the file does not exist" in told[1]
