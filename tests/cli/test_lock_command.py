"""Adding a release to the matrix."""

from __future__ import annotations

import datetime as dt

import pytest
from packaging.version import Version

from repromatrix.runner.cli.lock import entered

TEXT = """releases = [
  { name = "4.49.0",  date = 2025-02-17 },
  { name = "5.10.4",  date = 2026-06-15 },
]
stacks = [
  { name = "ms-swift3.3.0", date = 2025-04-11 },
]
"""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("5.11.0", [0, 1, "new"]),
        ("4.50.0", [0, "new", 1]),
        ("4.48.0", ["new", 0, 1]),
    ],
)
def test_a_release_is_entered_by_its_version_and_aligned(
    version: str, expected: list[int | str]
) -> None:
    first, *old = TEXT.splitlines(keepends=True)
    new = f'  {{ name = "{version}",  date = 2026-06-10 }},\n'
    wanted = [new if part == "new" else old[int(part)] for part in expected]

    assert "".join([first, *wanted, *old[2:]]) == entered(
        TEXT, Version(version), dt.date(2026, 6, 10)
    )
