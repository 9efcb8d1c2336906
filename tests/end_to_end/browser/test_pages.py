"""The pages behind the first one in a real browser, from disk: widths, schemes, who reads how."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chromium import violations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser

KINDS = (
    "compare.html",
    *("releases.html", "models.html", "packages.html", "changes.html", "claims.html"),
    *("case/*.html", "release/*.html", "model/*.html", "package/*.html"),
)
HEIGHTS = """() => [...document.querySelectorAll("h1, p, td, .name a, .mark")].slice(0, 200)
  .map((one) => Number.parseFloat(getComputedStyle(one).fontSize))"""
WIDTH = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def _one(site: Path, kind: str) -> str:
    """Return the largest page of a kind."""
    found = max(site.glob(kind), key=lambda path: path.stat().st_size)
    return found.relative_to(site).as_posix()


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1300, "dark")])
def test_every_kind_of_page_leaves_nobody_out(
    show: Show, site: Path, width: int, scheme: str
) -> None:
    found = {}
    for kind in KINDS:
        size = {"width": width, "height": 900}
        found[kind] = violations(show(_one(site, kind), viewport=size, color_scheme=scheme))

    assert found == {kind: [] for kind in KINDS}


@pytest.mark.parametrize("width", [320, 360, 640, 1300, 2560])
def test_every_kind_of_page_fits(show: Show, site: Path, width: int) -> None:
    size = {"width": width, "height": 900}
    every = ("index.html", *KINDS)
    found = {kind: show(_one(site, kind), viewport=size).evaluate(WIDTH) for kind in every}

    assert found == dict.fromkeys(every, 0)


def test_whoever_reads_large_has_everything_larger(show: Show, site: Path) -> None:
    """A browser's own size of text is what `rem` goes by; nothing is left behind, nothing hangs
    over."""
    grown = {}
    for kind in ("index.html", "case/*.html", "release/*.html", "changes.html"):
        page = show(_one(site, kind), viewport={"width": 1280, "height": 900})
        before = page.evaluate(HEIGHTS)
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        grown[kind] = [
            round(after / height, 1)
            for height, after in zip(before, page.evaluate(HEIGHTS), strict=True)
        ]
        assert page.evaluate(WIDTH) == 0

    assert {kind: set(times) for kind, times in grown.items()} == {kind: {2.0} for kind in grown}


def test_the_heads_of_folded_lines_are_printed_and_what_only_works_on_a_screen_is_not(
    show: Show,
) -> None:
    page = show("index.html")
    page.emulate_media(media="print", color_scheme="dark")

    assert page.locator(".head button").first.is_visible()
    assert [page.locator(name).first.is_visible() for name in ("#take", "#query", "nav")] == [
        *(3 * [False]),
    ]
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_every_kind_of_page_is_reached_from_the_first(show: Show) -> None:
    page = show("index.html")
    for name in ("Releases", "Compare", "Models", "Packages", "Changes", "Claims"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        assert page.get_by_role("heading", level=1).count() == 1
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="All cases").click()

    assert page.url.endswith("index.html")


def test_the_file_of_any_environment_is_made_in_the_page(show: Show, site: Path) -> None:
    page = show("case/cache_float.html")
    made = {}
    for name in ("4.50.1", "4.51.0"):
        page.select_option("#pinned", name)
        with page.expect_download() as waited:
            page.click("#make")
        assert waited.value.suggested_filename == f"cache_float-{name}.py"
        made[name] = waited.value.path().read_text("utf-8")

    # The newest one that fails lies there as a file, written by somebody else.
    assert made["4.50.1"] == (site / "download" / "cache_float-4.50.1.py").read_text("utf-8")
    assert "transformers==4.51.0" in made["4.51.0"]
    assert "bf16 passes" in made["4.51.0"]


def test_a_case_shows_where_it_fails_as_a_picture_with_words(show: Show, site: Path) -> None:
    page = show(_one(site, "case/*.html"))
    pictures = page.get_by_role("img")

    assert pictures.count() > 1
    assert all(one.text_content() or one.get_attribute("alt") for one in pictures.all())
