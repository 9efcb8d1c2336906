"""A path that SQLite does not open is said to be too long, not to be damaged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runner.errors import Fault, RunnerError
from runner.evidence import reading
from runner.places import Places

if TYPE_CHECKING:
    from pathlib import Path


def test_a_store_below_too_long_a_path_is_refused_with_what_to_do(tmp_path: Path) -> None:
    places = Places(root=tmp_path.joinpath(*["long" * 25] * 5))
    length = len(os.fsencode(places.store))
    fault = Fault(
        where=".repromatrix/evidence.sqlite",
        found=f"a path of {length} bytes",
        allowed="500, which is all that SQLite opens",
        remedy="REPROMATRIX_STORE moves it.",
    )
    with pytest.raises(RunnerError) as caught, reading.opened(places, print):
        pass

    assert (fault,) == caught.value.faults
    assert list(tmp_path.iterdir()) == []
