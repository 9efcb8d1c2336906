"""What was measured in this checkout decides nothing in its tests."""

from __future__ import annotations

import subprocess
import sys

from repromatrix.runner.paths import ROOT, Paths

SHOW = "from repromatrix.runner.paths import Paths; print(Paths().store)"


def test_a_test_and_what_it_starts_have_an_empty_store_of_their_own() -> None:
    started = subprocess.run(
        [sys.executable, "-c", SHOW], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert started.stdout.strip() == str(Paths().store)
    assert not Paths().store.exists()
    assert not Paths().store.is_relative_to(Paths().state)
