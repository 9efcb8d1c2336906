"""What every test shares: the checkout, read once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from runner import project
from runner.environments import shelf
from runner.places import Places

if TYPE_CHECKING:
    from runner.model.matrix import Matrix
    from runner.project import Project

# Properties are about logic, not about how busy the machine is.
settings.register_profile("here", deadline=None, database=None)
settings.load_profile("here")


@pytest.fixture(autouse=True)
def _nothing_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what people set for their own runs away from the tests; environments are shared."""
    for name in [name for name in os.environ if name.startswith("REPROMATRIX_")]:
        if name != "REPROMATRIX_ENVIRONMENTS":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def places() -> Places:
    """Return the folders of this checkout."""
    return Places()


@pytest.fixture(scope="session")
def matrix(places: Places) -> Matrix:
    """Return the axes of this checkout."""
    return shelf.load_matrix(places)


@pytest.fixture(scope="session")
def checkout(places: Places) -> Project:
    """Return the environments of this checkout, without its cases."""
    return project.load(places, [])
