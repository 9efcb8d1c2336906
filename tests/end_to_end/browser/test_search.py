"""What people type into the query of the real site, and whether its case comes first."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from repromatrix.reports.text import page_of
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

QUERIES = Path(__file__).parents[2] / "fixtures" / "queries.toml"
NEAREST = """(query) => {
  const book = Book.open(matrix);
  return Search.compile(query, book, Texts.given(book)).nearest.map((entry) => entry.name);
}"""
FIRST, AMONG_THREE = 0.7, 0.85


def asked() -> tuple[dict[str, list[str]], dict[str, str], list[str]]:
    """Return the queries with their cases, the source of each report, and the known misses."""
    read = tomllib.loads(QUERIES.read_text("utf-8"))
    reports = {query: cases for query, (_, cases) in read["reports"].items()}
    sources = {query: source for query, (source, _) in read["reports"].items()}
    return read["own"] | reports, sources, read["missed"]


@pytest.fixture(scope="module")
def real(browser: Browser, real_site: Path) -> Iterator[Page]:
    """Return the first page of the site that the published evidence gives."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto((real_site / "index.html").as_uri())
    page.evaluate("Texts.load()")
    yield page
    page.close()


def test_every_case_and_workaround_of_the_table_leads_to_its_place(
    real: Page, real_site: Path
) -> None:
    told = "Book.open(matrix).cases.map(({ name, href, ways }) => [name, href, ways])"
    entries = real.evaluate(told)
    lost = [
        (href, way["anchor"])
        for _, href, ways in entries
        for text in [(real_site / unquote(href)).read_text(encoding="utf-8")]
        for way in ways.values()
        if f'id="{way["anchor"]}"' not in text
    ]

    assert len(entries) > 200
    assert [href for _, href, _ in entries] == [page_of(name) for name, _, _ in entries]
    assert lost == []


def test_what_people_type_finds_its_case(real: Page) -> None:
    wanted, _, known_misses = asked()
    found = {query: real.evaluate(NEAREST, query) for query in wanted}
    first = [query for query, cases in wanted.items() if {*found[query][:1]} & {*cases}]
    among = [query for query, cases in wanted.items() if {*found[query][:3]} & {*cases}]
    missed = {query: found[query][:3] for query in wanted if query not in first}

    assert len(first) >= FIRST * len(wanted), missed
    assert len(among) >= AMONG_THREE * len(wanted), missed
    assert list(missed) == known_misses, missed


def test_no_case_cites_the_reports_whose_titles_are_asked() -> None:
    wanted, sources, _ = asked()
    cases = "\n".join(path.read_text("utf-8") for path in Paths().cases.rglob("*.py"))
    spelled = [
        f"{repository}{between}{number}"
        for repository, number in (source.split("#") for source in sources.values())
        for between in ("#", "/issues/", "/pull/")
    ]

    assert len(wanted) - len(sources) >= 30
    assert len(sources) >= 30
    assert [text for text in spelled if re.search(rf"{re.escape(text)}\b", cases)] == []


def test_the_nearest_cases_are_listed_and_a_bare_miss_says_what_to_try(real: Page) -> None:
    real.fill("#query", "gemma3 eval bf16")
    real.wait_for_selector("#answer a")
    link = real.locator("#answer a").first

    assert link.get_attribute("href") == "case/gemma3_trainer_eval.html"
    real.fill("#query", "zzzz")
    real.wait_for_selector("#none:not([hidden])")
    assert real.locator("#answer").is_hidden()
    assert (
        real.inner_text("#none") == "No matching cases. Try fewer words, or the words of the error."
    )


def test_the_first_row_of_data_and_the_query_are_on_the_first_screen(real: Page) -> None:
    real.goto(real.url.split("#")[0])
    row = real.locator(".matrix .row").first.bounding_box()
    real.set_viewport_size({"width": 390, "height": 844})
    query = real.locator("#query").bounding_box()
    real.set_viewport_size({"width": 1440, "height": 900})

    assert row is not None
    assert query is not None
    assert row["y"] + row["height"] < 900
    assert query["y"] + query["height"] < 844
