"""Every kind of page under axe, sizes of targets included: the small site in three widths, light
and dark, with all that is folded opened; the real one in two of these six. Without `--whole`, the
small site in these two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from chromium import violations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

FOLDERS = ("case", "release", "model", "package", "docs")
FIRST = (
    *("404", "architectures", "changes", "check", "claims", "compare", "data", "findings"),
    *("index", "main", "models", "packages", "releases"),
)
REAL = (
    *FIRST,
    *("case/gemma3_trainer_eval", "release/5.0.0", "release/main"),
    *("model/gemma3", "package/peft"),
)
"""Without `.html`. A test for each: the largest keep axe busy for 12 s on a quiet machine."""
HOME = "http://site.test/"
OPEN = "for (const folded of document.querySelectorAll('details')) folded.open = true"
Look = tuple[int, Literal["light", "dark"]]
LOOKS: tuple[Look, ...] = (
    *((1440, "light"), (1024, "light"), (390, "light")),
    *((1440, "dark"), (1024, "dark"), (390, "dark")),
)


def _found(
    browser: Browser, site: Path, names: list[str], look: Look, first: str
) -> dict[str, list[str]]:
    """Return what axe finds, by page; `first` is run in each page before."""
    found: dict[str, list[str]] = {}
    width, scheme = look
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    # A lost page names its style from the root of a site, which a folder on a disk has not.
    page.route(f"{HOME}**", lambda asked: asked.fulfill(path=site / asked.request.url[len(HOME) :]))
    for name in names:
        page.goto(f"{HOME}{name}")
        page.evaluate(first)
        if wrong := violations(page):
            found[name] = wrong
    page.close()
    return found


def _by_turns() -> Iterator[object]:
    for name in REAL:
        for way, look in (("wide-light", LOOKS[0]), ("narrow-dark", LOOKS[-1])):
            yield pytest.param(name, look, id=f"{name}-{way}")


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(
            look,
            id=f"{look[0]}-{look[1]}",
            marks=() if look in (LOOKS[0], LOOKS[-1]) else pytest.mark.whole,
        )
        for look in LOOKS
    ],
)
def test_every_kind_of_page_leaves_nobody_out(browser: Browser, site: Path, look: Look) -> None:
    pages = [path for folder in FOLDERS for path in site.glob(f"{folder}/*.html")]
    largest = {path.parent: path for path in sorted(pages, key=lambda path: path.stat().st_size)}
    names = [
        path.relative_to(site).as_posix() for path in (*site.glob("*.html"), *largest.values())
    ]

    assert len(names) >= 10
    assert _found(browser, site, names, look, OPEN) == {}


@pytest.mark.parametrize(("name", "look"), list(_by_turns()))
def test_a_real_page_leaves_nobody_out(
    browser: Browser, real_site: Path, name: str, look: Look
) -> None:
    assert _found(browser, real_site, [f"{name}.html"], look, "") == {}


def test_every_real_page_of_the_first_folder_is_looked_at(real_site: Path) -> None:
    assert sorted(path.stem for path in real_site.glob("*.html")) == list(FIRST)
