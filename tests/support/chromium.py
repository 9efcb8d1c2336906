"""The system's Chromium, driven by Playwright, which brings no browser of its own."""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import url2pathname

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

# The first has no windows, whose own pages take longer than the page of a test.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
# As root, as in most containers, Chromium does not start with its own sandbox.
ARGUMENTS = ("--disable-gpu", *(("--no-sandbox",) if os.geteuid() == 0 else ()))

PATIENCE = 120_000.0
"""Milliseconds for whatever is waited for: of Playwright's 30 s, others may have taken the most."""


def executable() -> str:
    """Return the path of a Chromium, or nothing."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


def missing() -> str:
    """Return what a browser test lacks here, or nothing."""
    packages = ("playwright", "axe_playwright_python")
    if not all(map(importlib.util.find_spec, packages)):
        return "no Playwright (pip install --group tests)"
    return "" if executable() else f"no Chromium ({', '.join(NAMES)}) on the path"


@contextmanager
def opened() -> Iterator[Browser]:
    """Start Chromium without a window; it ends with the block."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not everybody has it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(), args=[*ARGUMENTS], timeout=PATIENCE
        )
        browser.on("context", lambda context: context.set_default_timeout(PATIENCE))
        try:
            yield browser
        finally:
            browser.close()


def processor_time(page: Page) -> Callable[[], float]:
    """Begin to count the seconds for which a page keeps a core busy, during which it is frozen.

    Unlike those on the clock they do not depend on what else the machine does.
    """
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def counted() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")

    before = counted()
    return lambda: counted() - before


def violations(page: Page) -> list[str]:
    """Return what axe-core finds on a page as it stands: the rule, and the first element."""
    if not page.evaluate("'axe' in window"):
        script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
        # By the debugger's way in: the page's own policy lets no such script through.
        page.context.new_cdp_session(page).send("Runtime.evaluate", {"expression": script})
    # The size of what is clicked is a rule that axe leaves out unless it is told.
    rules = "{ 'target-size': { enabled: true } }"
    asked = f"axe.run({{ preload: false, resultTypes: ['violations'], rules: {rules} }})"
    found = page.evaluate(asked)["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


def weights(browser: Browser, site: Path) -> dict[str, int]:
    """Return what the first page loads before anybody acts: the bytes of each file, compressed."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.wait_for_selector(".cell")
    page.wait_for_timeout(500)  # what is loaded late, though nobody asked, counts as well
    page.close()
    paths = {
        Path(url2pathname(url.removeprefix("file://").partition("?")[0]))
        for url in asked
        if url.startswith("file:")
    }
    sizes = {
        path.relative_to(site).as_posix(): len(gzip.compress(path.read_bytes())) for path in paths
    }
    return dict(sorted(sizes.items(), key=lambda entry: -entry[1]))
