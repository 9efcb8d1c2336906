"""Some of the hostile cases and a fork bomb, among neighbours that must not notice."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import load
from needs import bubblewrap

from checks.hostile import HOSTILE, attack, explode

QUICK = (
    *("segfaults", "closes_descriptors", "leaves_many_files", "changes_surroundings"),
    *("changes_torch", "replaces_methods", "kills_worker", "litters_home", "eats_memory"),
)


@pytest.mark.whole
@pytest.mark.builds
def test_hostile_cases_end_as_they_must_disturb_nobody_and_leave_nothing(tmp_path: Path) -> None:
    result = attack(QUICK, 1, tmp_path)

    assert (result.disturbed, result.wrong, result.left) == ((), (), 0)
    assert (result.cells, result.neighbours) == (16, 30)


@pytest.mark.builds
@pytest.mark.parametrize(
    "walls",
    [pytest.param(True, marks=bubblewrap), pytest.param(False, marks=pytest.mark.whole)],
)
def test_a_fork_bomb_disturbs_no_neighbour(tmp_path: Path, *, walls: bool) -> None:
    result = explode(["bomb_sessions"], tmp_path, walls=walls)

    assert (result.disturbed, result.wrong, result.left) == ((), (), 0)


def test_every_hostile_case_is_there_with_all_its_workarounds() -> None:
    cases = load().cases
    found = {name: {*cases[f"fake_{name}"].branches} for name in HOSTILE}

    assert found == {name: {*variants} for name, variants in HOSTILE.items()}
