"""The real site in a browser that runs no scripts: everything that a reader needs first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()


def test_the_first_page_says_what_is_open_and_lists_every_case_with_its_ranges(
    page: Page, real_site: Path
) -> None:
    page.goto((real_site / "index.html").as_uri())
    cases = page.locator("#plain li")

    assert re.match(
        r"transformers 5\.\d+\.\d+: \d+ known bugs, \d+ of them silent",
        page.inner_text("#status"),
    )
    assert "on a CPU" in page.inner_text("#about")
    assert cases.count() == len([*real_site.glob("case/*.html")])
    gemma = cases.filter(has_text="gemma3_trainer_eval").inner_text()
    assert "bf16 and fp16: 4.50.0 to 4.50.3, fixed in 4.51.0" in gemma
    assert page.locator("#query").is_hidden()


def test_a_case_is_summed_up_and_its_workarounds_can_be_read(page: Page, real_site: Path) -> None:
    page.goto((real_site / "case" / "gemma3_trainer_eval.html").as_uri())
    summary = page.inner_text("#summary")

    for fact in ("4.50.0", "4.50.3", "4.51.0", "#37044", "'HybridCache' object has no attribute"):
        assert fact in summary
    assert "Set text_config.use_cache to False" in page.inner_text("#workarounds")
