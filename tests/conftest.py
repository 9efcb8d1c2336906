"""What every test shares: the checkout, read once."""

from __future__ import annotations

import fcntl
import itertools
import os
from typing import TYPE_CHECKING

import kept
import pytest
import small_site
from chromium import missing, opened
from hypothesis import settings
from limits import LONGER, SLOW
from real_site import draw as draw_real_site

from repromatrix.runner import project
from repromatrix.runner.environments import locks, uv
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from repromatrix.runner.model.matrix import Matrix
    from repromatrix.runner.project import Project

# Properties are about logic, not about how busy the machine is.
settings.register_profile("here", deadline=None, database=None)
settings.load_profile("here")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for, and begin with the files that take long."""
    if config.getoption("--quick") and config.getoption("--whole"):
        message = "--quick cannot be combined with --whole: one leaves out what the other adds."
        raise pytest.UsageError(message)
    for item in items:
        if "real_site" in getattr(item, "fixturenames", ()):
            item.add_marker("whole")
        seconds = [LONGER[mark.name] for mark in item.iter_markers() if mark.name in LONGER]
        if seconds and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(max(seconds)))
    unwanted = SLOW if config.getoption("--quick") else {"whole"}
    if not config.getoption("--whole"):
        left_out = [item for item in items if unwanted & _marks(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not unwanted & _marks(item)]
    long = {item.path for item in items if SLOW & _marks(item)}
    items.sort(key=lambda item: item.path not in long)


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last, below the counts, which tests were left out for want of a tool, and of which."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reasons: dict[str, list[str]] = {}
    for report in reporter.stats.get("skipped", ()) if reporter else ():
        file, _, said = report.longrepr
        reason = said.removeprefix("Skipped: ").splitlines()[0]
        reasons.setdefault(reason, []).append(report.location[0] or file)
    if reporter and reasons:
        told = (
            f"{len(files)} of {', '.join(sorted({*files}))} ({reason})"
            for reason, files in sorted(reasons.items())
        )
        reporter.write_line(f"Tests left out: {'; '.join(told)}.")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate",
        action="store_true",
        help="Write what is printed and drawn now into tests/*/expected, docs and README.md.",
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help="Leave out tests that build environments, or need a browser, a cluster or nox.",
    )
    parser.addoption(
        "--whole",
        action="store_true",
        help="Run every test, also those that repeat a proof at length; takes an hour.",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one process more than there are cores, as some tests wait for what they started.

    `--regenerate` runs in one: examples of one file are rewritten in turn.
    """
    return 0 if config.getoption("--regenerate") else (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep what people set and measured away from the tests; environments are shared.

    Fixtures that last longer than a test share one store, below the folder that is returned.
    """
    folder = tmp_path_factory.mktemp("stores")
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise every program that a test starts compiles all that it imports.
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        for name in [name for name in os.environ if name.startswith("REPROMATRIX_")]:
            if name != "REPROMATRIX_ENVIRONMENTS":
                patch.delenv(name)
        patch.setenv("REPROMATRIX_STORE", str(folder / "shared" / "evidence.sqlite"))
        yield folder


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _own_store(_nothing_of_the_users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test, and the programs that it starts, a store that nobody has written to."""
    path = _nothing_of_the_users / str(next(_numbers)) / "evidence.sqlite"
    monkeypatch.setenv("REPROMATRIX_STORE", str(path))


@pytest.fixture
def store_below_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let evidence lie where a checkout keeps it: for checkouts that the test itself made."""
    monkeypatch.delenv("REPROMATRIX_STORE")


@pytest.fixture(scope="session")
def places() -> Paths:
    """Return the folders of this checkout."""
    return Paths()


@pytest.fixture(scope="session")
def matrix(places: Paths) -> Matrix:
    """Return the axes of this checkout."""
    return locks.load_matrix(places)


@pytest.fixture(scope="session")
def checkout(places: Paths) -> Project:
    """Return the environments of this checkout, without its cases."""
    return project.load(places, [])


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small site with known facts."""
    folder = tmp_path_factory.mktemp("a site") / "with space"
    small_site.draw(folder)
    return folder


@pytest.fixture(scope="session")
def real_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site that the published evidence gives: for reading alone.

    The processes of a run share it, as its drawing keeps one busy for a minute.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, whole = shared / "real", shared / "real is whole"
    with (shared / "real.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever waits is bound by the time limit of its test
        if not whole.exists():
            draw_real_site(folder)
            whole.touch()
    return folder


@pytest.fixture
def forget_index() -> Iterator[Callable[[], None]]:
    """Let what an index once said answer no more; after the test it is forgotten anyhow."""

    def forget() -> None:
        uv._told.cache_clear()
        uv.choose_torch.cache_clear()

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


@pytest.fixture
def expected(request: pytest.FixtureRequest) -> kept.Expected:
    """Return what holds texts against those that lie beside the test, or writes them there."""

    def hold(name: str, texts: Mapping[str, str]) -> None:
        path = request.path.parent / "expected" / f"{name}.md"
        ended = {title: text.removesuffix("\n") + "\n" for title, text in texts.items()}
        if request.config.getoption("--regenerate"):
            kept.write(path, ended)
            return
        assert kept.read(path) == ended

    return hold
