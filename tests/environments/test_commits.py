from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner import project
from repromatrix.runner.environments import commits, locks
from repromatrix.runner.environments.building import Built, Recipe
from repromatrix.runner.environments.commits import Declaration, Home
from repromatrix.runner.environments.locks import NoSolutionError
from repromatrix.runner.errors import Problem
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

NEWER = """\
huggingface-hub==1.0.0rc1 \\
    --hash=sha256:00
transformers==4.56.1 \\
    --hash=sha256:01
"""


class Resolver:
    """Takes the place of uv: refuses so many times, then pins what `NEWER` pins."""

    def __init__(self, refuses: int = 0) -> None:
        self.refuses = refuses
        self.bounds: list[list[str]] = []
        self.metadata = ""
        self.recipes: list[Recipe] = []

    def compile_lock(self, *_: object, **told: object) -> str:
        self.bounds.append(told["bound"])  # type: ignore[arg-type]
        self.metadata = str(told["metadata"])
        assert told["until"] == dt.date(2025, 9, 25)
        if len(self.bounds) <= self.refuses:
            raise NoSolutionError(
                [Problem("a lock", "its packages cannot be resolved (they fight)")]
            )
        return NEWER

    def build(self, paths: Paths, recipe: Recipe) -> Built:
        self.recipes.append(recipe)
        folder = paths.built / recipe.name
        return Built(name=recipe.name, folder=folder, python=folder, versions=recipe.versions)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    loaded = project.load(Paths(), [])
    return Home(paths=Paths(root=tmp_path), matrix=loaded.matrix, locks=loaded.locks)


def resolver(patch: pytest.MonkeyPatch, refuses: int = 0) -> Resolver:
    fake = Resolver(refuses)
    patch.setattr(locks, "compile_lock", fake.compile_lock)
    patch.setattr(commits, "build", fake.build)
    return fake


def declares(*needs: str, day: dt.date = dt.date(2025, 9, 25)) -> Declaration:
    return Declaration(package="transformers", requirements=needs, day=day)


def test_where_the_release_before_has_all_that_is_declared_its_environment_serves(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = resolver(monkeypatch)

    environment, built = home.environment(declares("huggingface-hub>=0.34,<1.0", "tqdm"))

    assert (environment.name, built.name, fake.bounds) == ("4.56.1", "4.56.1", [])
    assert fake.recipes[0].metadata == ""


@pytest.mark.parametrize(
    ("day", "base"),
    [
        # 4.51.0 came on the fifth of April, and its packages are up to seven days younger.
        (dt.date(2025, 4, 11), "4.50.3"),
        (dt.date(2025, 4, 12), "4.51.0"),
        (dt.date(2024, 1, 1), "4.49.0"),
    ],
)
def test_nothing_is_newer_than_the_day(
    home: Home, monkeypatch: pytest.MonkeyPatch, day: dt.date, base: str
) -> None:
    resolver(monkeypatch)

    assert home.environment(declares("tqdm", day=day))[0].name == base


def test_what_the_release_lacks_is_resolved_with_the_rest_of_its_pins_and_kept(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = resolver(monkeypatch)
    needs = declares("huggingface-hub==1.0.0.rc1", "typer-slim")

    environment, _ = home.environment(needs)
    again, _ = home.environment(needs)

    assert environment.pins == {
        "huggingface-hub": "1.0.0rc1",
        "torch": home.matrix.torch.version,
        "transformers": "4.56.1",
    }
    assert again.name == environment.name
    assert environment.name.startswith("4.56.1~")
    (bound,) = fake.bounds
    assert {"accelerate==1.10.1", "peft==0.17.1"} <= set(bound)
    assert not any(pin.startswith("huggingface-hub") for pin in bound)
    described = 'requires-dist = ["huggingface-hub==1.0.0.rc1", "typer-slim"]'
    assert described in fake.metadata
    assert described in fake.recipes[0].metadata


def test_pins_give_way_before_the_companions_do_and_those_before_the_commit(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = resolver(monkeypatch, refuses=2)

    home.environment(declares("typer-slim"))

    assert fake.bounds[1:] == [["accelerate==1.10.1", "peft==0.17.1"], []]


def test_needs_that_no_versions_satisfy_are_said(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver(monkeypatch, refuses=3)

    with pytest.raises(NoSolutionError, match="they fight"):
        home.environment(declares("typer-slim"))
    assert not home.paths.mixtures.exists()
