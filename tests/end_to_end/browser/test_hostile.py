"""Markup in every field of a case and of an outcome, on every page, in a real browser.

Whoever opens a page counts as a complaint what its Content-Security-Policy refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hostile_site import HOSTILE, draw_hostile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser
FOREIGN = "[onerror], [src=x], a[href^='javascript:']"
BROUGHT_IN = f'document.querySelectorAll("{FOREIGN}").length'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    draw_hostile(folder)
    return folder


def test_nothing_that_a_case_or_an_outcome_says_is_executed(show: Show, site: Path) -> None:
    # The lost page goes by the root of a server, which a file has not.
    every = (path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    pages = sorted(name for name in every if name != "404.html")
    found = {}
    for name in pages:
        page = show(name)
        found[name] = page.evaluate(BROUGHT_IN)
        page.close()

    assert len(pages) > 8
    assert found == dict.fromkeys(pages, 0)


def test_a_hostile_message_that_is_pasted_stays_text(show: Show) -> None:
    page = show("index.html")
    page.fill("#query", "ValueError: " + HOSTILE.encode("utf-8", "replace").decode())
    page.wait_for_timeout(200)

    assert page.evaluate(BROUGHT_IN) == 0
