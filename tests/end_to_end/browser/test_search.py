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
NATURAL = QUERIES.with_name("natural_queries.toml")
NEAREST = """(queries) => {
  const book = Book.open(matrix);
  const errors = Texts.given(book);
  return queries.map((query) => {
    const { nearest, pages, leads } = Search.compile(query, book, errors);
    const names = nearest.map((entry) => entry.name.replace(/\\[.*/, ""));
    return [...new Set([...(leads ? pages.map((page) => page.href) : []), ...names])];
  });
}"""
"""The pages and cases that a query leads to, of the variants of a case one."""
FIRST, AMONG_THREE = 0.8, 0.9
REACHED = {"first": 86, "among three": 93, "nothing": 28}
"""Of a hundred queries and of thirty that nothing fits: never fewer."""


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


def found_by(real: Page, queries: list[str]) -> dict[str, list[str]]:
    return dict(zip(queries, real.evaluate(NEAREST, queries), strict=True))


def test_what_people_type_finds_its_case(real: Page) -> None:
    read, _, known_misses = asked()
    wanted = {query: {name.partition("[")[0] for name in names} for query, names in read.items()}
    found = found_by(real, [*wanted])
    first = [query for query, cases in wanted.items() if {*found[query][:1]} & cases]
    among = [query for query, cases in wanted.items() if {*found[query][:3]} & cases]
    missed = {query: found[query][:3] for query in wanted if query not in first}

    assert len(first) >= FIRST * len(wanted), missed
    assert len(among) >= AMONG_THREE * len(wanted), missed
    assert list(missed) == known_misses, missed


def test_the_words_of_public_reports_find_what_answers_them(real: Page) -> None:
    read = tomllib.loads(NATURAL.read_text("utf-8"))
    wanted = {query: {name.partition("[")[0] for name in names} for query, *names in read["asked"]}
    found = found_by(real, [*wanted, *read["nothing"]])
    missed = {
        query: found[query][:3] for query in wanted if not {*found[query][:1]} & wanted[query]
    }
    shares = {
        "first": len(wanted) - len(missed),
        "among three": sum(bool({*found[one][:3]} & wanted[one]) for one in wanted),
        "nothing": sum(not found[query] for query in read["nothing"]),
    }

    print(f"of {len(wanted)} and {len(read['nothing'])} queries: {shares}")  # noqa: T201 - the shares
    assert (len(wanted), len(read["nothing"])) == (100, 30)
    assert all(shares[name] >= least for name, least in REACHED.items()), (shares, missed)


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
    links = "(all) => all.map((link) => link.getAttribute('href'))"
    box = real.eval_on_selector_all("#answer li a", links)
    assert real.eval_on_selector_all(".matrix .case .label a", links)[: len(box)] == box
    real.fill("#query", "zzzz")
    real.wait_for_selector("#none:not([hidden])")
    assert real.locator("#answer").is_hidden()
    assert real.inner_text("#none").startswith(
        "No matching cases. Try fewer words, or the words of the error. To propose a case, fill in"
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
