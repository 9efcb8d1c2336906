"""Some of the hostile cases, among neighbours that must not notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakes import CORPUS

from drills.hostile import HOSTILE, attack

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.builds

QUICK: tuple[str, ...] = (
    "segfaults",
    "closes_descriptors",
    "leaves_many_files",
    "changes_surroundings",
)
QUICK += ("changes_torch", "replaces_methods", "kills_worker", "litters_home", "eats_memory")


@pytest.mark.whole
def test_hostile_cases_end_as_they_must_disturb_nobody_and_leave_nothing(tmp_path: Path) -> None:
    result = attack(QUICK, 1, tmp_path)

    assert (result.disturbed, result.wrong) == ((), ())
    assert (result.folders_left, result.processes_left) == (0, 0)
    assert (result.cells, result.neighbours) == (16, 30)


def test_every_hostile_case_is_there_with_all_its_workarounds() -> None:
    for name, variants in HOSTILE.items():
        text = (CORPUS / f"fake_{name}.py").read_text()
        _, found, block = text.partition("# [tool.repromatrix.workarounds]\n")
        lines = block.partition("#\n")[0].partition("# ///")[0].splitlines() if found else []

        assert {"", *(line.split()[1] for line in lines)} == {*variants}, name
