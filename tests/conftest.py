"""What every test shares: the checkout, read once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import small_site
from chromium import missing, opened
from hypothesis import settings

from runner import project
from runner.environments import shelf, torch_build, uv
from runner.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

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


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small site with known facts."""
    folder = tmp_path_factory.mktemp("a site") / "with space"
    small_site.draw(folder)
    return folder


@pytest.fixture
def forget_index() -> Iterator[Callable[[], None]]:
    """Let what an index once said answer no more; after the test it is forgotten anyhow."""

    def forget() -> None:
        uv._told.cache_clear()
        torch_build.choose.cache_clear()

    yield forget
    forget()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if missing():
        pytest.skip(missing())
    with opened() as one:
        yield one


@pytest.fixture
def show(browser: Browser, site: Path) -> Iterator[Callable[..., Page]]:
    """Open a page of the site from disk; nothing may be complained of or asked from elsewhere."""
    complaints: list[str] = []
    contexts = []

    def open_page(address: str = "index.html", **kinds: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}} | kinds)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda one: complaints.append(one.text) if one.type in {"error", "warning"} else None,
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda one: (
                None if one.url.startswith((site.as_uri(), "data:")) else complaints.append(one.url)
            ),
        )
        name, hash_, rest = address.partition("#")
        page.goto((site / name).as_uri() + hash_ + rest)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
