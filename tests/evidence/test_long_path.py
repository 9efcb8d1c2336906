"""A path that SQLite does not open is said to be too long, not to be damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import answers
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.usefixtures("store_below_root")
def test_a_store_below_too_long_a_path_is_refused_with_what_to_do(tmp_path: Path) -> None:
    places = Paths(root=tmp_path.joinpath(*["long" * 25] * 5))
    with pytest.raises(RunnerError) as caught, answers.opened(places, print):
        pass

    assert [fault.where for fault in caught.value.faults] == [".repromatrix/evidence.sqlite"]
    assert list(tmp_path.iterdir()) == []
