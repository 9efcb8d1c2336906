"""The snapshot that answers rest on, and its age."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence.published import Publication
from repromatrix.runner.evidence.snapshot import TODAY, newest, today
from repromatrix.runner.model.outcomes import Device

if TYPE_CHECKING:
    from pathlib import Path


def publications(folder: Path, **days: str) -> Path:
    """Write a list of publications, by name their days; `_` stands for `-`."""
    acts = [
        Publication(name.strip("d").replace("_", "-"), day, "x86_64", "2.13.0", "3.11", "")
        for name, day in days.items()
    ]
    lines = [act.line() for act in acts]
    (folder / "publications.toml").write_text("".join(["format = 1\n[publications]\n", *lines]))
    return folder


@pytest.mark.parametrize(
    ("day", "told"),
    [
        ("2026-11-25", "evidence of 2026-11-24-b, 1 day old"),
        ("2027-11-24", "evidence of 2026-11-24-b, 365 days old"),
        ("2026-11-24", "evidence of 2026-11-24-b, published today"),
        ("2026-11-23", "evidence of 2026-11-24-b"),
    ],
)
def test_the_newest_publication_is_told_with_its_age(
    day: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TODAY, day)
    days = {"d2026_11_24_b": "2026-11-24", "d2026_11_24": "2026-11-24", "d2026_11_9": "2026-11-09"}

    assert str(newest(publications(tmp_path, **days))) == told


def test_the_snapshot_of_a_device_holds_cells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TODAY, "2026-11-24")
    publications(tmp_path, d2026_11_23="2026-11-23", d2026_11_24="2026-11-24")
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "toy.csv").write_text("workaround,publication\n,2026-11-23\n")

    assert str(newest(tmp_path, Device.CPU)) == "evidence of 2026-11-23, 1 day old"
    assert newest(tmp_path, Device.CUDA) is None


def test_nothing_published_has_no_snapshot(tmp_path: Path) -> None:
    assert newest(tmp_path) is None


def test_a_day_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunnerError, match=r"^publications\.toml: the file is damaged"):
        newest(publications(tmp_path, d1="yesterday"))

    monkeypatch.setenv(TODAY, "tomorrow")
    with pytest.raises(RunnerError, match=r"^REPROMATRIX_TODAY: invalid value 'tomorrow'; exp"):
        today()
