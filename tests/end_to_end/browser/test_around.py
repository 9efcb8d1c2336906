"""What stands around the table in a real browser: reports, copied commands, documents, data."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
import small_site

from repromatrix.reports.build import render
from repromatrix.reports.site import Published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser

SOURCE = "https://github.com/someone/repromatrix"
OPACITY = "one => getComputedStyle(one).opacity"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Draw a site that knows its repository."""
    folder = tmp_path_factory.mktemp("around")
    environments = tuple(small_site.ENVIRONMENTS.values())
    published = Published(source=SOURCE)
    render(
        small_site.CASES,
        environments,
        small_site.judged(),
        folder,
        published=published,
    )
    return folder


def _asked(address: str | None) -> dict[str, str]:
    return {key: value for key, [value] in parse_qs(urlsplit(address or "").query).items()}


def test_an_opened_cell_fills_in_the_form_for_a_wrong_cell(show: Show) -> None:
    page = show("index.html#at=cache_float&at=&at=cpu&at=4.50.0&open=4.50")
    link = page.locator(".detail").get_by_role("link", name="Report a wrong cell")

    assert _asked(link.get_attribute("href")) == {
        "template": "wrong-cell.yml",
        "title": "Wrong cell: cache_float on 4.50.0",
        "case": "cache_float",
        "release": "4.50.0",
        "precision": "fp32, bf16, fp16",
    }


@pytest.mark.parametrize(
    "address",
    ["case/cache_float.html", "index.html#at=cache_float&at=cache-off&at=cpu&at=4.50&ways=1"],
)
def test_a_snippet_is_copied_by_the_keyboard(show: Show, address: str) -> None:
    page = show(address, permissions=["clipboard-read", "clipboard-write"])
    frame = page.locator(".copyable", has_text="use_cache = False").first
    button = frame.locator("button.copy")
    button.focus()
    page.keyboard.press("Enter")
    frame.locator("button", has_text="Copied").wait_for()

    assert page.evaluate("navigator.clipboard.readText()") == "model.config.use_cache = False"


def test_without_a_clipboard_a_command_is_selected(show: Show) -> None:
    page = show("case/cache_float.html")
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(); }")
    page.evaluate("() => { document.execCommand = () => false; }")
    button = page.locator("button.copy").first
    button.click()

    assert (
        page.evaluate("getSelection().toString().trim()")
        == (page.locator("[data-copy]").first.text_content() or "").strip()
    )
    assert button.text_content() == "Copy"


def test_the_button_of_a_tall_source_stands_at_its_top(show: Show) -> None:
    frame = show("case/cache_float.html").locator(".copyable:has(> pre.source)")
    top = "(one) => one.getBoundingClientRect().top"

    assert frame.locator("pre").evaluate("(one) => one.offsetHeight") > 100
    assert frame.locator("button").evaluate(top) == frame.locator("pre").evaluate(top)


def test_a_heading_links_to_itself_when_the_keyboard_comes_by(show: Show) -> None:
    page = show("data.html")
    link = page.locator("#cells h2 .anchor")

    assert link.evaluate(OPACITY) == "0"
    link.focus()
    assert link.evaluate(OPACITY) == "1"
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.endswith("#cells"))
