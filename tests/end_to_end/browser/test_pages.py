"""The pages behind the first one in a real browser, from disk: widths, print, who reads how."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser

KINDS = (
    *("check.html", "compare.html", "data.html", "main.html"),
    *("releases.html", "models.html", "packages.html", "changes.html", "claims.html"),
    *("case/*.html", "release/*.html", "model/*.html", "package/*.html"),
)
HEIGHTS = """() => [...document.querySelectorAll("h1, p, td, .name a, .mark")].slice(0, 200)
  .map((one) => Number.parseFloat(getComputedStyle(one).fontSize))"""
WIDTH = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


BROKEN = r"""() => {
  const broken = new Set();
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const beside = text.parentElement.closest("pre, code, .grid, svg, .setting, .concerns");
    if (beside || !text.parentElement.checkVisibility()) continue;
    for (const word of text.data.matchAll(/\b\w{1,30}\b/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
      if (lines.size > 1) broken.add(word[0]);
    }
  }
  return [...broken];
}"""
CUT = """() => [...document.querySelectorAll("main .wide, main .entry, main .entries")]
  .filter((one) => one.checkVisibility() && !one.querySelector("svg"))
  .filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => one.getAttribute("aria-label") ?? one.textContent.slice(0, 80))"""


@pytest.fixture(scope="module")
def real(browser: Browser, real_site: Path) -> Iterator[Show]:
    """Open pages of the site that the published evidence gives."""
    page = browser.new_page()

    def open_page(address: str, width: int, height: int = 900) -> Page:
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{real_site.as_uri()}/{address}")
        return page

    yield open_page
    page.close()


def _one(site: Path, kind: str) -> str:
    """Return the largest page of a kind."""
    found = max(site.glob(kind), key=lambda path: path.stat().st_size)
    return found.relative_to(site).as_posix()


@pytest.mark.parametrize(
    "width",
    [320, *(pytest.param(width, marks=pytest.mark.whole) for width in (360, 640, 2560)), 1300],
)
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


def test_the_file_of_any_environment_is_made_in_the_page(show: Show) -> None:
    page = show("case/cache_float.html")
    made = {}
    for name in ("4.50.1", "4.51.0"):
        page.select_option("#pinned", name)
        with page.expect_download() as waited:
            page.click("#make")
        assert waited.value.suggested_filename == f"cache_float-{name}.py"
        made[name] = waited.value.path().read_text("utf-8")

    with page.expect_download() as waited:
        page.click("#pin")  # for the newest one that fails
    assert made["4.50.1"] == waited.value.path().read_text("utf-8")
    assert '#   "transformers==4.50.1",' in made["4.50.1"]
    assert "transformers==4.51.0" in made["4.51.0"]
    assert "bf16 passes" in made["4.51.0"]


def test_a_case_shows_where_it_fails_as_a_picture_with_words(show: Show, site: Path) -> None:
    page = show(_one(site, "case/*.html"))
    pictures = page.get_by_role("img")

    assert pictures.count() > 1
    assert all(one.text_content() or one.get_attribute("alt") for one in pictures.all())


@pytest.mark.parametrize(("width", "most"), [(1440, 4000), (390, 6000)])
def test_a_case_page_is_short_and_begins_with_what_decides(
    real: Show, width: int, most: int
) -> None:
    """It had 9,948 px, and 18,507 on a phone; its workarounds began at 2,266."""
    page = real("case/gemma3_trainer_eval.html", width)
    card, workarounds = (page.locator(name).bounding_box() for name in ("#summary", "#workarounds"))

    assert page.evaluate("document.documentElement.scrollHeight") < most
    assert card is not None
    assert card["y"] < 400
    assert workarounds is not None
    assert workarounds["y"] < 1000
    assert page.locator("#summary dt").all_inner_texts() == [
        *("status", "fails", "broken by", "fixed by", "can hit you with", "you see", "error"),
        "reports",
    ]
    assert "present since 4.50.0 (2025-03-21)" in page.inner_text("#summary")
    assert "4.51.0 (2025-04-05), huggingface/transformers#37044" in page.inner_text("#summary")


def test_every_measured_value_has_one_plot(real: Show) -> None:
    """There were twelve, nearly alike: one for each workaround."""
    page = real("case/gemma3_trainer_eval.html", 1440)

    assert page.locator("figure figcaption b").all_text_contents() == ["eval_loss", "train_loss"]


@pytest.mark.parametrize(
    "address",
    [
        *(
            "release/5.0.0.html",
            "release/5.23.0.html",
            "releases.html",
            "compare.html",
            "main.html",
        ),
        *("model/gemma3.html", "models.html", "package/peft.html", "claims.html"),
    ],
)
def test_on_a_phone_no_word_is_broken_and_nothing_is_cut_off(real: Show, address: str) -> None:
    page = real(address, 390, 844)

    assert page.evaluate(BROKEN) == []
    assert page.evaluate(CUT) == []


def test_on_a_phone_each_bug_of_a_release_stands_once(real: Show) -> None:
    page = real("release/5.23.0.html", 390, 844)
    names = page.locator("#failing .entry small:first-child").all_inner_texts()

    assert len(names) == len(set(names)) > 20


def test_a_link_into_what_is_folded_opens_it(real: Show) -> None:
    for anchor in ("claims", "numbers", "4.50.0"):
        page = real(f"case/gemma3_trainer_eval.html#{anchor}", 1440)

        assert page.locator(f"[id='{anchor}']").is_visible(), anchor
