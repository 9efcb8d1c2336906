"""A kill of each kind, and two runs at once; the check does it many times."""

from __future__ import annotations

import pytest

from checks import kill
from checks.kill import Scene, Target, Wrong

pytestmark = pytest.mark.builds


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return kill.undisturbed(tmp_path_factory.mktemp("scene"))


@pytest.mark.parametrize(
    "target",
    [
        Target.RUNNER,
        pytest.param(Target.WORKER, marks=pytest.mark.whole),
        pytest.param(Target.CELL, marks=pytest.mark.whole),
    ],
)
def test_a_kill_loses_doubles_and_leaves_nothing(target: Target, scene: Scene) -> None:
    wrong, _ = kill.killed(scene, target, 0.6)

    assert wrong == []


def test_what_is_lost_doubled_or_told_otherwise_is_seen(scene: Scene) -> None:
    (first, row), (second, _), *rest = scene.cells.items()
    changed = {first: row * 2, **{key: [("x", "", False, 1)] for key, _ in rest}}

    found = [*kill.wrong_cells(scene, changed, spared=False)]
    assert second not in changed
    assert found == [Wrong.LOST, Wrong.DOUBLED, *[Wrong.OTHER] * len(rest)]
    said = "3 cells measured in 1 s"
    assert kill.not_resumed(scene, said, 2, scene.usual.code, Target.RUNNER) == [Wrong.RESUMED]
    assert kill.not_resumed(scene, said, 3, scene.usual.code, Target.RUNNER) == []


@pytest.mark.whole
def test_runs_at_once_double_and_lose_nothing(scene: Scene) -> None:
    assert kill.together(scene, 2) == []
