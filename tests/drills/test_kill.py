"""A few kills of each kind, and two runs at once; the drill does it many times."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from drills import concurrent, kill
from drills.tally import Tally

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.builds


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> kill.Scene:
    return kill.fakes(tmp_path_factory.mktemp("scene"))


@pytest.mark.parametrize(
    "target",
    [
        kill.Target.RUNNER,
        pytest.param(kill.Target.WORKER, marks=pytest.mark.whole),
        pytest.param(kill.Target.CELL, marks=pytest.mark.whole),
    ],
)
def test_a_kill_loses_doubles_and_leaves_nothing(
    target: kill.Target, scene: kill.Scene, tmp_path: Path
) -> None:
    (found,) = kill.tried(tmp_path, scene, 1, 7, [target])

    assert found == kill.Found(committed=found.committed)


def test_what_is_lost_or_told_otherwise_is_seen(scene: kill.Scene) -> None:
    some = dict(list(scene.rows.items())[1:])
    changed = {key: [kill.Stored(**{**asdict(row), "outcome": "x"})] for key, row in some.items()}

    assert len(kill.wrong_rows(scene, changed, kill.Target.RUNNER)) == len(some)
    assert kill.not_resumed(scene, "3 cells measured in 1 s", 2, scene.code, kill.Target.RUNNER)


@pytest.mark.whole
def test_runs_at_once_double_and_lose_nothing(tmp_path: Path) -> None:
    tally = Tally("concurrent", tmp_path / "none")
    concurrent.drill(tally, at_once=(2,), times=1)

    assert [one.found for one in tally.counts] == [0] * 5
