"""An extra that does not resolve beside a release: it is told, and its cells alone are lost."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import case_text
from rich.console import Console

from repromatrix.runner import project
from repromatrix.runner.cli.lock import pin
from repromatrix.runner.environments import locks
from repromatrix.runner.environments.locks import NoSolutionError
from repromatrix.runner.errors import ExitCode, Problem, RunnerError, refuse
from repromatrix.runner.model.cell import belongs, obstacles
from repromatrix.runner.model.outcomes import Device

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.paths import Paths

RELEASES = ("4.49.0", "4.50.0")
LOST = "4.49.0+timm"
WHY = "its packages cannot be resolved (timm needs another numpy)"


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    found = small_checkout.checkout(tmp_path, RELEASES)
    text = found.matrix.read_text().replace('extras = ["pillow", "scipy"]', 'extras = ["timm"]')
    found.matrix.write_text(text)
    (found.cases / "toy_plain.py").write_text(case_text())
    extended = case_text(dependencies=("torch", "transformers", "timm"))
    (found.cases / "toy_extended.py").write_text(extended)
    return found


def resolved(*_: object, where: str, **__: object) -> str:
    """Stand for uv, to which the extra excludes the older release."""
    if where == LOST:
        raise NoSolutionError([Problem(f"environments/locks/{where}.txt", WHY)])
    return "timm==1.0.0 \\\n    --hash=sha256:aa\n"


def test_it_is_told_and_only_its_cells_do_not_apply(
    places: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "compile_lock", resolved)
    console = Console(file=io.StringIO(), record=True, width=300)

    assert pin(places, console, missing=True) is ExitCode.AS_EXPECTED
    assert sorted(console.export_text().splitlines()) == [
        f"environments/locks/{LOST}.txt: no case that depends on the extra applies there: {WHY}",
        "environments/locks/4.50.0+timm.txt",
    ]
    loaded = project.load(places)
    reasons = {
        (case.name, name): obstacles(case, environment, Device.CPU)
        for case in loaded.cases.values()
        for name, environment in loaded.environments.items()
        if belongs(case, environment) and "main" not in name
    }
    assert reasons == {
        ("toy_plain", "4.49.0"): (),
        ("toy_plain", "4.50.0"): (),
        ("toy_extended", LOST): (f"timm beside 4.49.0: {WHY}", "needs timm, has nothing"),
        ("toy_extended", "4.50.0+timm"): (),
    }
    with pytest.raises(RunnerError, match="timm needs another numpy"):
        project.recipe(loaded, LOST)


def test_an_index_that_does_not_answer_is_no_such_thing(
    places: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object, **__: object) -> str:
        raise refuse(Problem("an index", "it does not answer"), ExitCode.UNBUILDABLE)

    monkeypatch.setattr(locks, "compile_lock", silent)
    with pytest.raises(RunnerError, match="it does not answer"):
        pin(places, Console(quiet=True), missing=True)
    assert not [*places.locks.glob("*+timm.txt")]
