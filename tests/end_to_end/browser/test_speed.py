"""What keeps a page from being seen at once, and what moves while it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chromium import weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser
PAGES = ("index.html", "releases.html", "case/cache_float.html")
SHIFTED = """() => new Promise((done) => {
  let sum = 0;
  const add = (list) => { for (const one of list.getEntries()) sum += one.value; };
  new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(sum), 500);
})"""
BLOCKING = """() => [...document.scripts].filter((one) => one.src && !one.defer && !one.async
  && one.compareDocumentPosition(document.querySelector("main, h1"))
     & Node.DOCUMENT_POSITION_FOLLOWING).map((one) => one.src)"""


@pytest.mark.parametrize("name", PAGES)
def test_no_script_stands_before_what_is_read(show: Show, name: str) -> None:
    assert show(name).evaluate(BLOCKING) == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_moves_while_it_is_read(show: Show, name: str, width: int) -> None:
    page = show(name, viewport={"width": width, "height": 900})

    assert page.evaluate(SHIFTED) < 0.01


def test_all_that_the_first_page_loads_weighs_120_kilobytes_at_most(
    browser: Browser, real_site: Path
) -> None:
    sizes = weights(browser, real_site)

    assert sum(sizes.values()) <= 120_000, sizes


def test_scripts_are_published_without_their_comments(real_site: Path) -> None:
    lines = [
        line.strip()
        for path in real_site.glob("*.js")
        for line in path.read_text("utf-8").splitlines()
    ]

    assert len(lines) > 500
    assert [line for line in lines if line.startswith("//")] == []


def test_cells_that_stay_are_not_drawn_anew(browser: Browser, real_site: Path) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{real_site.as_uri()}/index.html")
    page.wait_for_selector(".cell")
    cells = "[...document.querySelector('#matrix .row:not([hidden]):has(.cell)').children]"
    before = page.evaluate(f"window.before = {cells}; window.before.length")
    page.fill("#query", "since:5.0")
    page.keyboard.press("Enter")
    # A function, not an expression: the page's policy forbids a string that is evaluated later.
    page.wait_for_function(f"() => {cells}.length < window.before.length")

    assert page.evaluate(f"{cells}.every((one) => window.before.includes(one))")
    assert 5 < page.evaluate(f"{cells}.length") < before
    page.fill("#query", "")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {cells}.length === window.before.length")
    names = f"{cells}.map((one) => one.getAttribute('aria-label'))"
    assert page.evaluate(names) == page.evaluate(
        "window.before.map((one) => one.getAttribute('aria-label'))"
    )
    page.close()
