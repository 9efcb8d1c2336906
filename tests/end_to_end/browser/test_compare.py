"""Two releases beside each other in a real browser, held against the comparison of `diff`."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from real_site import surveyed

from repromatrix.reports.sections.release_changes import compared, sides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from repromatrix.reports.sections.release_changes import Between
    from repromatrix.reports.view import Survey
    from repromatrix.runner.compare.diff import Rows

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser

DIFFERENCES = """([from, to]) => Compare.cells(compared, from, to)
  .filter(({ change }) => compared.order.includes(change))
  .map(({ change, entry, row, one, other }) => [
    change, entry.name, row.workaround, row.precision, row.device, one[2], other[2]])"""
UNKNOWN = """([from, to]) =>
  Compare.cells(compared, from, to).filter((cell) => cell.change === "unknown").length"""
ENTRIES = """(id) => [...document.querySelectorAll(`#${id} > .entries > .entry small`)]
  .map((one) => one.textContent)"""


@dataclass(frozen=True, kw_only=True)
class Real:
    """The page of the site that the published evidence gives, and the evidence."""

    page: Page
    found: Survey
    by_release: Mapping[str, Rows]

    def between(self, before: str, after: str) -> Between:
        """Return what the comparison of `diff` says."""
        one, other = self.by_release[before], self.by_release[after]
        return compared(self.found, before, one, other)

    def go(self, before: str, after: str) -> None:
        """Choose two releases by the address."""
        self.page.evaluate(f"location.hash = 'from={before}&to={after}'")
        self.page.wait_for_function(
            "(says) => document.getElementById('says').textContent.startsWith(says)",
            arg=f"From {before} to {after}:",
        )


@pytest.fixture(scope="module")
def real(browser: Browser, real_site: Path) -> Iterator[Real]:
    found = surveyed()
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto((real_site / "compare.html").as_uri())
    yield Real(page=page, found=found, by_release=sides(found))
    page.close()


def pairs(found: Survey) -> list[tuple[str, str]]:
    """Return every release with the next one, and fifty pairs that chance chose."""
    names = list(found.releases)
    drawn = random.Random(17)  # noqa: S311 - no secret
    return [*pairwise(names), *((drawn.choice(names), drawn.choice(names)) for _ in range(50))]


def test_the_page_finds_what_diff_finds_between_any_two_releases(real: Real) -> None:
    wrong = []
    for before, after in pairs(real.found):
        found = real.between(before, after)
        expected = [
            [one.change.value, one.case, one.workaround, name, one.device, one.before, one.after]
            for one in found.differences
            for name in one.precisions.replace(" and ", ", ").split(", ")
        ]
        said = real.page.evaluate(DIFFERENCES, [before, after])
        unknown = real.page.evaluate(UNKNOWN, [before, after])
        if sorted(said) != sorted(expected) or unknown != found.unknown:
            wrong.append((before, after))

    assert wrong == []


def test_what_is_shown_is_what_is_found(real: Real) -> None:
    for before, after in (("4.57.6", "5.0.0"), ("5.22.2", "5.23.0"), ("5.0.0", "4.57.6")):
        real.go(before, after)
        found = real.between(before, after)
        for change in ("broke", "fixed"):
            plain = [one for one in found.differences if not one.workaround]
            expected = sorted({one.case for one in plain if one.change == change})
            assert sorted(real.page.evaluate(ENTRIES, f"is-{change}")) == expected


def test_a_link_carries_both_releases_and_what_is_chosen_becomes_one(real: Real) -> None:
    real.go("4.57.6", "5.0.0")
    assert real.page.input_value("#from") == "4.57.6"
    real.page.click("#swap")

    real.page.wait_for_url(lambda url: url.endswith("#from=5.0.0&to=4.57.6"))
    assert real.page.inner_text("#says").startswith("From 5.0.0 to 4.57.6:")
    real.page.select_option("#to", "5.23.0")
    real.page.wait_for_url(lambda url: url.endswith("#from=5.0.0&to=5.23.0"))


@pytest.mark.parametrize(
    "address",
    ["from=9.9.9&to=4.50.0", "from=<img%20src=x%20onerror=alert(1)>&to=4.50.0", "to=%E0%A4"],
)
def test_a_link_to_a_release_that_is_none_is_told(show: Show, address: str) -> None:
    page = show(f"compare.html#{address}")

    assert "No release on this site is called" in page.inner_text("#problem")
    assert page.inner_text("#says").startswith("From ")


def test_two_releases_are_chosen_from_the_keyboard(show: Show) -> None:
    page = show("compare.html")
    page.focus("#to")
    before = page.inner_text("#says")
    page.keyboard.press("ArrowDown")
    page.wait_for_function(
        "(said) => document.getElementById('says').textContent !== said", arg=before
    )

    page.wait_for_url(lambda url: "to=" in url)
