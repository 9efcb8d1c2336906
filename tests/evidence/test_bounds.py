"""What cases do where their requirements keep them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import factories
import pytest

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import bounds
from repromatrix.runner.evidence.bounds import BoundRow
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

CASE = factories.case(factories.BREAKS)
HIDES = BoundRow(CASE.name, CASE.digest, "4.49.0", "bf16", "fails", "ValueError: it breaks", "yes")
PASSES = HIDES._replace(precision="fp32", outcome="passes", error="", hides="")
EDITED = HIDES._replace(case_digest="0" * 16)


def test_what_a_bound_hides_is_told_of_the_case_as_it_stands(tmp_path: Path) -> None:
    paths = Paths(root=tmp_path)
    paths.published.mkdir(parents=True)
    path = paths.published / bounds.NAME
    path.write_text(bounds.as_text([HIDES, PASSES, EDITED]))

    assert set(bounds.read_bounds(path)) == {HIDES, PASSES, EDITED}
    assert bounds.hidden(paths, CASE) == (HIDES,)
    assert bounds.hidden(Paths(root=tmp_path / "nowhere"), CASE) == ()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / bounds.NAME
    path.write_text("case,colour\na,b\n")

    with pytest.raises(RunnerError, match=r"bounds\.csv.*damaged.*checks -- bounds"):
        bounds.read_bounds(path)
