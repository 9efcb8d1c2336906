"""Extras and pairs, really resolved, built and measured on one release."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from factories import case_text
from rich.console import Console

from repromatrix.runner.cli.lock import pin
from repromatrix.runner.cli.matrix import MatrixOptions, measure
from repromatrix.runner.evidence.answers import both
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.builds, pytest.mark.whole]

RELEASE = "4.53.3"
PAIR = f"{RELEASE}+peft0.15.2"
QUIET = Console(quiet=True)
PLAIN = '"""peft must be there. It is."""\n\nimport peft\nimport torch\n\ntorch.ones(2) + 1\n'
EXTENDED = (
    '"""einops must be there. It is."""\n\nimport einops\nimport torch\n\ntorch.ones(2) + 1\n'
)


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    """Return a checkout with one release, which may have einops laid on top."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "cases").mkdir()
    shutil.copytree(ROOT / "environments", tmp_path / "environments")
    shutil.copytree(ROOT / "reports" / "templates", tmp_path / "reports" / "templates")
    matrix = tmp_path / "environments" / "matrix.toml"
    lines = matrix.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "{ name =" not in line or f'"{RELEASE}"' in line]
    kept = ['extras = ["einops"]\n' if line.startswith("extras") else line for line in kept]
    matrix.write_text("".join(kept))
    for path in (tmp_path / "environments" / "locks").iterdir():
        if path.stem != RELEASE:
            path.unlink()
    return Paths(root=tmp_path)


def _measured(places: Paths) -> dict[tuple[str, str], tuple[str, str]]:
    options = MatrixOptions(release=[RELEASE, PAIR], precision=["fp32"], jobs=2)
    measure(places, options, QUIET)
    return {
        (row.cell.case, row.cell.environment): (
            row.outcome.value,
            row.provenance.packages.get("peft", ""),
        )
        for row in both(places, pytest.fail)
    }


def test_a_case_is_measured_with_its_extras_and_in_its_pairs_and_nothing_else_is_stale(
    places: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROMATRIX_SITE", str(places.root / "site"))
    paired = case_text(f'environments = ["{PAIR}"]\n', PLAIN, dependencies=("torch", "peft"))
    (places.cases / "peft_there.py").write_text(paired)
    pin(places, QUIET, missing=True)
    first = _measured(places)

    extended = case_text("", EXTENDED, dependencies=("torch", "einops"))
    (places.cases / "einops_there.py").write_text(extended)
    pin(places, QUIET, missing=True)
    second = _measured(places)

    assert first == {
        ("peft_there", RELEASE): ("passes", "0.16.0"),
        ("peft_there", PAIR): ("passes", "0.15.2"),
    }
    assert second == first | {("einops_there", f"{RELEASE}+einops"): ("passes", "0.16.0")}
    names = sorted(path.stem for path in places.locks.glob("[!t]*"))  # not those of torches
    assert names == [RELEASE, f"{RELEASE}+einops", PAIR]
