"""The drill of odd surroundings, small: one that has several oddities at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from drills.places import ALL, quick, tried
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

BY_NAME = {one.what: one for one in ALL}
LATIN, NO_SHM = "a locale of Latin letters, odd path", "no /dev/shm"
MADE_UP = """
import locale, os, tempfile
from pathlib import Path

def test_is_where_it_is_said_to_be():
    assert {holds}

def test_fails():
    raise AssertionError
"""


@pytest.mark.parametrize(
    "what", [pytest.param("the locale C, odd path", marks=pytest.mark.whole), LATIN]
)
def test_outcomes_are_the_same_in_odd_surroundings(what: str) -> None:
    if BY_NAME[what].missing():
        pytest.skip(BY_NAME[what].missing())
    expected = [(0, 0, 0)]
    actual = [(one.changed, one.older, one.undone) for one in tried([BY_NAME[what]])]

    assert expected == actual


@pytest.mark.parametrize(
    ("what", "holds"),
    [
        ("an ordinary user", "os.geteuid() == 1000"),
        ("umask 077", "os.umask(0o77) == 0o77"),
        ("a read-only home", "not os.access(Path.home(), os.W_OK)"),
        ("a locale of Latin letters", "locale.getencoding() == 'ISO-8859-1'"),
        ("temporary files on another file system", "os.path.ismount(tempfile.gettempdir())"),
        (NO_SHM, "not Path('/dev/shm').exists() and Path('/dev/null').exists()"),
    ],
)
def test_quick_tests_run_in_odd_surroundings_and_are_counted(
    what: str, holds: str, tmp_path: Path
) -> None:
    if BY_NAME[what].missing():
        pytest.skip(BY_NAME[what].missing())
    (tmp_path / "conftest.py").symlink_to(ROOT / "tests" / "conftest.py")
    path = tmp_path / "test_made_up.py"
    path.write_text(MADE_UP.format(holds=holds), encoding="utf-8")

    assert quick(BY_NAME[what], str(path)) == (1, 1)
