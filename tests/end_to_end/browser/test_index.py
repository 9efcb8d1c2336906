"""The first page in a real browser, from disk: the table, the query, the keyboard, the box."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from chromium import violations
from factories import environment, provenance, seen
from small_site import CASES, ENVIRONMENTS, judged

from repromatrix.reports.build import render
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.cell import Cell, Source
from repromatrix.runner.model.observation import signature
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser

BOTH = {"cache_float", "norm_drift"}
EVERY = {*CASES}
HOLDS = """(query) => {
  const book = Book.open(matrix);
  Book.tell(book, about);
  return book.cases.filter(Search.compile(query, book).holds).map((one) => one.name);
}"""
SCOPE = """(query) => {
  const book = Book.open(matrix);
  Book.tell(book, about);
  const scope = Search.compile(query, book).scope;
  return [book.columns.map((one) => one.name).filter((_, at) => scope.columns[at]),
          book.precisions.filter((_, at) => scope.precisions[at])];
}"""
MISPLACED = "says where the whole query looks, so it cannot stand"
NEAREST = "takes a release up to 5.0.1, the nearest, or main."
ALONE = "leaves no precision to look at beside"
OTHERS = "Did you mean 4.50.0? For another package write its name before the version: peft 0.15.2."
OF_OR = "on one side of an or; put it beside the parentheses: (… or …)"
NESTED = "parentheses and minuses stand inside each other"
OF_DENIAL = "in a denied group; put it beside the parentheses: -(…)"
REFUSED = """(query) => {
  const book = Book.open(matrix);
  Book.tell(book, about);
  try { Search.compile(query, book); } catch (error) {
    if (error instanceof Query.Fault) return [error.message, error.start, error.end];
    throw error;
  }
  return null;
}"""


def eventually(page: Page, ask: Callable[[], object], expected: object) -> None:
    """Ask again until the page has come to it; its policy lets nobody wait inside of it."""
    for _ in range(1000):
        if ask() == expected:
            break
        page.wait_for_timeout(20)
    assert ask() == expected


def choose(page: Page, key: str, value: str) -> None:
    """Choose a filter, below the heading that opens them."""
    page.eval_on_selector(".filters", "(filters) => { filters.open = true; }")
    page.select_option(f"select[data-key={key}]", value)


@pytest.fixture(scope="module")
def language(browser: Browser, site: Path) -> Iterator[Page]:
    """Return a page whose scripts are asked, and that nobody touches."""
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.evaluate("Texts.load()")
    yield page
    page.close()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", EVERY),
        ("fails:bf16", {"cache_float"}),
        ("FAILS:BF16", {"cache_float"}),
        ("fails:bf16 passes:fp32", {"cache_float"}),
        ("fails:any release:4.50.1", {"cache_float"}),
        ("fails:any -fails:fp16", {"cache_float"}),
        ("fails:bf16 fails:fp16", set()),  # never both on one release
        ("-(fails:bf16 or fails:fp16)", {"merge_quiet"}),
        ("fails:any precision:fp16", {"norm_drift"}),
        ("passes:fp16 case:merge", set()),  # what never computed in fp16 has not passed
        ("verdict:regressed", {"norm_drift"}),
        ("is:not-exercised", {"merge_quiet"}),
        ("-is:simulated,unbuildable until:5.0", BOTH),
        ("is:simulated outcome:fails", set()),  # one cell, and it passes
        ("model:gemma3", {"cache_float"}),
        ("model:qwen3-vl", {"merge_quiet"}),  # by shared code
        ("qwen3-vl", {"merge_quiet"}),
        ("package:peft", {"merge_quiet"}),
        ("workaround:none", {"norm_drift", "merge_quiet"}),
        ('error:"no attribute"', {"cache_float"}),
        ("drift or float", BOTH),
        ("((since:5.0 area:norms)) fails:any", {"norm_drift"}),
        ("fails:any -(-(since:5.0))", {"norm_drift"}),
        ("fails:any -until:4.50", {"norm_drift"}),
        ("-(fails:bf16 model:gemma3) until:4.51", {"merge_quiet", "norm_drift"}),
        ("trigger:trainer", {"cache_float"}),
        ("symptom:silent fails:any", {"norm_drift"}),
        ('"5.0.1"', set()),  # quotes: a text
        ("torch 2.13.0, transformers 5.0, fails:any", {"norm_drift"}),
    ],
)
def test_a_query_holds_for_cases(language: Page, query: str, expected: set[str]) -> None:
    assert expected == set(language.evaluate(HOLDS, query))


def test_a_version_does_not_find_the_cases_that_do_not_apply_to_it(
    browser: Browser, tmp_path: Path
) -> None:
    """`peft 0.15.2` found the cases that say "needs peft>=0.18, has 0.15.2"."""
    peft = {"transformers": "4.50.0", "torch": "2.13.0", "peft": "0.15.2"}
    environments = {
        "4.50.0": replace(environment("4.50.0"), pins=peft),
        "4.51.0": ENVIRONMENTS["4.51.0"],
    }
    cells = [
        Cell(name, "", release, precision, Device.CPU)
        for name in ("cache_float", "norm_drift")
        for release in environments
        for precision in Precision
    ]
    rows = [
        replace(seen(Outcome.NOT_APPLICABLE, cell), reason="needs peft>=0.18, has 0.15.2")
        if cell.case == "norm_drift" and cell.environment == "4.50.0"
        else seen(
            Outcome.PASSES, cell, ran=provenance(CASES[cell.case], environments[cell.environment])
        )
        for cell in cells
    ]
    cases = {name: CASES[name] for name in ("cache_float", "norm_drift")}
    render(cases, [*environments.values()], judge_all(rows, cases, environments), tmp_path)
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri())

    for query in ("peft 0.15.2", "peft==0.15.2", "4.50.0", "0.18"):
        expected = [] if query == "0.18" else ["cache_float"]
        assert (query, page.evaluate(HOLDS, query)) == (query, expected)
    page.close()


@pytest.mark.parametrize(
    ("query", "columns", "precisions"),
    [
        ("since:5.0", ["5.0.0", "5.0.1", "main"], ["fp32", "bf16", "fp16"]),
        ("until:4.50.0 -release:4.49.0", ["4.50.0"], ["fp32", "bf16", "fp16"]),
        ("since:main", ["main"], ["fp32", "bf16", "fp16"]),
        ("(-until:5.0 (precision:bf16))", ["main"], ["bf16"]),
        ("transformers 4.50.1", ["4.50.1"], ["fp32", "bf16", "fp16"]),
        ("-transformers==4.50 until:4.51", ["4.49.0", "4.51.0"], ["fp32", "bf16", "fp16"]),
    ],
)
def test_a_scope_narrows_what_is_looked_at(
    language: Page, query: str, columns: list[str], precisions: list[str]
) -> None:
    assert language.evaluate(SCOPE, query) == [columns, precisions]


@pytest.mark.parametrize(
    ("query", "message", "start", "end"),
    [
        ("modle:x", "no key is called modle. Did you mean model?", 0, 5),
        ("fails:bf61", "fails: does not know bf61. Did you mean bf16?", 6, 10),
        ("x fails:", "a value must follow fails:", 2, 8),
        ("(fails:bf16", "this parenthesis is never closed", 0, 1),
        ("fails:bf16)", "this parenthesis was never opened", 10, 11),
        ("precision:bf16 precision:fp16", f"precision:fp16 {ALONE} precision:bf16.", 15, 29),
        ("x 4.50.9", f"there is no release 4.50.9 of transformers. {OTHERS}", 2, 8),
        ('a "b', "this quote is never closed", 2, 4),
        ("x or", "nothing stands beside this or", 2, 4),
        ("since:soon", "since: takes a release, like 5.0 or 4.50.1, or main; not soon.", 6, 10),
        ("x since:9.9", f"there is no release 9.9. since: {NEAREST}", 8, 11),
        (
            "since:5.0 until:4.50",
            "until:4.50 leaves no release to look at beside since:5.0.",
            10,
            20,
        ),
        ("until:4.48", "until:4.48 leaves no release to look at in this table.", 0, 10),
        ("release:4.51.9", "there is no release 4.51.9. Did you mean 4.51.0?", 8, 14),
        (
            "transformers 4.50.9",
            "no environment has transformers 4.50.9. Did you mean transformers 4.50.0?",
            *(0, 19),
        ),
        ("model:gemma3,lama", "model: does not know lama. Did you mean llama?", 13, 17),
        ("float or since:5.0", f"since: {MISPLACED} {OF_OR} since:5.0", 9, 18),
        ("(a or -precision:bf16) b", f"precision: {MISPLACED} {OF_OR} precision:bf16", 7, 21),
        ("-(fails:any until:5.0)", f"until: {MISPLACED} {OF_DENIAL} until:5.0", 12, 21),
        ("(" * 5000, f"more than 100 {NESTED}", 100, 101),
    ],
)
def test_a_fault_points_at_its_characters(
    language: Page, query: str, message: str, start: int, end: int
) -> None:
    assert language.evaluate(REFUSED, query) == [message, start, end]


def test_a_fault_is_shown_where_it_is_and_the_table_stays(show: Show) -> None:
    page = show("index.html#q=modle%3Ax")

    assert page.inner_text("#fault mark") == "modle"
    assert "At character 1: no key is called modle." in page.inner_text("#fault p")
    assert page.locator(".row:visible").count() == len(CASES)


def test_what_is_chosen_beside_it_mends_a_query_that_leaves_nothing_to_look_at(
    show: Show,
) -> None:
    page = show("index.html#q=since%3A5.0")
    choose(page, "until", "4.50")
    assert page.inner_text("#fault mark") == "until:4.50"
    choose(page, "until", "5.0")

    assert page.input_value("#query") == "since:5.0 until:5.0"
    assert page.inner_text("#fault") == ""


def test_what_stood_there_before_a_fault_is_no_answer_to_it(show: Show) -> None:
    page = show("index.html#q=fails%3Abf16")
    before = page.inner_text("#found")
    for text, told in (("fails:bf1", "still that of fails:bf16"), ("fails:", "still that")):
        page.fill("#query", text)
        says = f"This query cannot be read; the table shows {told}"
        eventually(page, lambda: page.inner_text("#found")[: len(says)], says)  # noqa: B023

    page.fill("#query", "fails:bf16")
    eventually(page, lambda: page.inner_text("#found"), before)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("model:qwen3-vl", "1 of 3 cases, 1 by shared code"),
        ("model:gemma3 or model:qwen3-vl", "2 of 3 cases, 1 by shared code"),
    ],
)
def test_what_a_model_finds_by_shared_code_is_counted_as_such(
    show: Show, query: str, found: str
) -> None:
    page = show()
    page.fill("#query", query)

    eventually(page, lambda: page.inner_text("#found"), found)


def test_a_filter_leaves_no_empty_parentheses(show: Show) -> None:
    page = show("index.html#q=fails%3Aany%20((since%3A5.0))")
    choose(page, "since", "")

    assert page.input_value("#query") == "fails:any"


def test_with_one_precision_a_row_has_room_for_its_title(show: Show) -> None:
    page = show("index.html#q=precision:bf16")
    row, title = (page.locator(place).first for place in (".matrix .case", ".matrix .label"))
    box, inner = row.bounding_box(), title.bounding_box()

    assert box is not None
    assert inner is not None
    assert box["y"] <= inner["y"]
    assert inner["y"] + inner["height"] <= box["y"] + box["height"]


def test_a_line_folds_and_says_whether_it_is_uniform(show: Show) -> None:
    page = show("index.html#q=case:norm")
    line = page.get_by_role("button", name="5.0: 2 releases, unfold")
    marks = page.locator(".row:not([hidden]) .cell")

    eventually(page, lambda: marks.nth(3).inner_text(), "✓\n✓\n±")
    assert marks.all_inner_texts()[:3] == ["✓"] * 3
    line.click()
    eventually(page, lambda: marks.nth(4).inner_text(), "✓\n✓\nR")
    page.wait_for_url(lambda url: url.endswith("open=5.0"))
    page.go_back()
    eventually(page, lambda: marks.nth(3).inner_text(), "✓\n✓\n±")


def test_a_line_is_unfolded_with_the_keyboard_and_the_focus_stays(show: Show) -> None:
    page = show("index.html#q=case:norm")
    page.locator("#matrix").get_by_role("link", name="norm_drift").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "Enter"):
        page.keyboard.press(key)

    page.wait_for_url(lambda url: url.endswith("open=4.50"))
    assert page.evaluate("document.activeElement.textContent") == "4.50.0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text(".detail h3") == "norm_drift on 4.50.1"


COVERED = """() => {
  const box = document.activeElement.getBoundingClientRect();
  const seen = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return !document.activeElement.contains(seen);
}"""


def test_the_heads_never_cover_the_cell_that_the_keyboard_is_on(show: Show) -> None:
    page = show("index.html#open=4.50&workarounds=1")
    page.set_viewport_size({"width": 700, "height": 300})
    page.locator("#matrix .name a").last.focus()
    covered = []
    for key in ("ArrowRight", "ArrowUp", "ArrowUp", "ArrowUp", "End", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
        covered.append(page.evaluate(COVERED))

    assert covered == [False] * 7


ENDS = """() => [".cell.opened", ".detail"].map((one) => {
  const box = document.querySelector(one).getBoundingClientRect();
  return box.top >= 0 && box.bottom <= innerHeight + 1;
})"""


def test_a_cell_at_the_edge_of_the_window_opens_in_sight(show: Show) -> None:
    page = show()
    cell = page.locator("#matrix .row:has-text('merge_quiet') .cell.first").last
    page.set_viewport_size({"width": 1280, "height": 900})
    cell.evaluate("(one) => scrollBy(0, one.getBoundingClientRect().bottom - innerHeight + 4)")
    cell.focus()
    page.keyboard.press("Enter")

    assert page.evaluate(ENDS) == [True, True]


def test_a_permalink_opens_its_cell_and_back_leads_to_the_view_before(show: Show) -> None:
    page = show("index.html#q=fails%3Abf16")
    page.goto(page.url + "&at=cache_float&at=&at=cpu&at=4.50")

    assert page.inner_text(".detail h3") == "cache_float on 4.50"
    assert "nox -s matrix -- --case cache_float --release 4.50.1 --precision bf16 --rerun" in (
        page.inner_text(".detail")
    )
    assert "AttributeError: 'HybridCache' object has no attribute 'float'" in page.inner_text(
        ".detail"
    )
    link = page.locator(".detail h4 a").get_attribute("href")
    assert link == "case/cache_float.html#4.50.1"
    page.go_back()
    eventually(page, page.locator(".detail").count, 0)
    assert page.input_value("#query") == "fails:bf16"


def test_the_table_is_used_with_the_keyboard_alone(show: Show) -> None:
    page = show()
    page.keyboard.press("/")
    page.keyboard.type("fails:any")
    page.keyboard.press("Enter")
    page.locator("#matrix").get_by_role("link", name="cache_float").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowDown", "Enter"):
        page.keyboard.press(key)

    assert page.inner_text(".detail h3") == "cache_float on 4.50"
    page.keyboard.press("Escape")
    assert page.locator(".detail").count() == 0
    assert "4.50" in str(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert page.locator("#matrix [tabindex='0']").count() == 1
    page.keyboard.press("End")
    page.keyboard.press("Home")
    assert "About cache_float" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_what_is_chosen_beside_the_query_is_written_into_it(show: Show) -> None:
    page = show("index.html#q=fails%3Aany")
    choose(page, "since", "5.0")
    choose(page, "area", "norms")

    assert page.input_value("#query") == "fails:any since:5.0 area:norms"
    choose(page, "since", "4.50")
    choose(page, "area", "")
    assert page.input_value("#query") == "fails:any since:4.50"
    page.go_back()
    eventually(page, page.locator("select[data-key=area]").input_value, "norms")


TWICE = """([text, beside]) => {
  const one = known.cases.find((entry) => entry.case === "cache_float");
  const another = { ...one, case: "another", place: one.place + beside };
  const errors = Paste.create({ ...known, cases: [...known.cases, another] });
  return Paste.answer(errors.rank(text), "").items.map((item) => item.textContent);
}"""
PASTED = """Traceback (most recent call last):
  File "/home/me/train.py", line 12, in <module>
    trainer.train()
AttributeError: 'HybridCache' object has no attribute 'float'
"""


UNKNOWN = "the kettle is boiling over"


PASTES = """(box, text) => {
  box.value = text;
  box.dispatchEvent(new InputEvent("input", { bubbles: true }));
}"""


def answered(page: Page, text: str) -> str:
    page.fill("#query", "")
    eventually(page, page.locator("#answer").is_hidden, expected=True)
    page.fill("#query", text)
    page.wait_for_selector("#answer:not([hidden])")
    return page.inner_text("#answer")


def test_a_pasted_traceback_leads_to_its_case(show: Show) -> None:
    page = show()

    assert "the same message" in answered(page, PASTED)
    link = page.locator("#answer li a").first
    assert link.get_attribute("href") == "case/cache_float.html#failure-1"
    assert "cache-off was measured to fix it" in page.inner_text("#answer li")
    link.click()
    page.wait_for_url("**/case/cache_float.html#failure-1")
    assert page.locator("#failure-1").count() == 1


def test_an_answer_says_on_what_it_rests_and_what_is_equally_near(show: Show) -> None:
    page = show()
    told = "Compared with what was measured on cpu, torch 2.13.0, Python 3.11."

    nothing = answered(page, f"RuntimeError: {UNKNOWN}")
    assert nothing.startswith("Nothing near:")
    assert nothing.endswith(told)
    assert page.locator("#answer li").count() == 0
    assert told in answered(page, PASTED)
    assert "equally near" not in page.inner_text("#answer")
    first, second = page.evaluate(TWICE, [PASTED, -0.5])[:2]
    assert "> another" in first
    assert "> cache_float" in second
    assert "> cache_float" in page.evaluate(TWICE, [PASTED, 0.5])[0]
    assert all("others are equally near" in text for text in (first, second))


def test_words_that_a_case_expects_are_not_called_a_message_that_was_seen(show: Show) -> None:
    page = show()
    answer = answered(page, "AttributeError: 'Cache' of another kind has no attribute 'float'")

    first = "No case fails with this message; 1 case expects its words, the nearest first. "
    assert answer.startswith(first)
    assert "cache-off was measured to fix the failure above" in page.inner_text("#answer li")


def test_a_message_of_other_sizes_is_the_same_message(show: Show) -> None:
    page = show()
    answer = answered(page, "AssertionError: error 0.25 of norms [16, 32] is too large")

    assert page.locator("#answer li code").first.inner_text() == "norm_drift"
    assert "a part of the message" in answer


def test_a_whole_log_is_looked_through_at_once(show: Show) -> None:
    page = show()

    assert "too long for an address" in answered(page, "1" * 100_000 + "x")
    assert page.locator("#none").is_visible()
    # Typed line by line, as `fill` does it, the browser alone takes many seconds.
    page.locator("#query").evaluate(PASTES, "step 12: loss 3.4\n" * 2_000 + PASTED)
    eventually(page, lambda: "cache_float" in page.inner_text("#answer"), expected=True)


@pytest.mark.parametrize(
    "message",
    [
        "found [2, 4] and torch.Size([1, 16]) at 0x7f00 in /usr/lib/é/x.py line 12",
        "waited 3.5 s for 12 MiB, -1e-05 of float16 (2, 3) index_copy_ at C:/a/b/c",
        "<b>$& $1</b> 12",
    ],
)
def test_a_signature_is_the_same_in_the_page_and_in_the_runner(
    language: Page, message: str
) -> None:
    script = "(text) => Paste.create(known).signature('ValueError', text)"

    assert signature("ValueError", message) == language.evaluate(script, message)


def test_hostile_titles_and_messages_stay_text(show: Show) -> None:
    page = show("index.html#at=norm_drift&at=&at=cpu&at=5.0&ways=1")
    assert "<img src=x" in page.inner_text(".detail")
    answered(page, "AssertionError: error 0.5 of norms [2, 4] is too large <img src=x>")

    assert page.evaluate("window.harmed") is None
    assert page.locator("img").count() == 0


BESIDE = """() => [...document.querySelectorAll(".detail tbody tr:first-child > *")].map((one) => {
  const box = one.getBoundingClientRect();
  const fits = one.scrollWidth <= box.width;
  return [one.dataset.head ?? "", Math.round(box.left), box.width > 250, fits];
})"""


def test_a_detail_is_read_downwards_where_there_is_no_room_for_columns(show: Show) -> None:
    address = "index.html#q=precision:bf16&at=cache_float&at=&at=cpu&at=4.50"
    page = show(address, viewport={"width": 360, "height": 800})
    cells = page.evaluate(BESIDE)
    heads = ["outcome", "verdict", "error or reason", "exercised", "measured", "repeat it"]
    wide = ".detail .wide"

    assert [name for name, *_ in cells] == ["", *heads]
    assert {tuple(one) for _, *one in cells if one[1]} == {(cells[0][1], True, True)}
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator(".detail td:visible").count() == len(heads) - 1  # nothing was measured
    assert page.evaluate(f"document.querySelector('{wide}').scrollWidth") <= page.evaluate(
        f"document.querySelector('{wide}').clientWidth"
    )
    page.evaluate("document.querySelector('.inside').style.width = '1200px'")
    assert len({left for _, left, *_ in page.evaluate(BESIDE)}) == len(cells)


def test_the_heads_stay_in_sight(show: Show) -> None:
    page = show("index.html#ways=1&open=4.50&open=5.0", viewport={"width": 700, "height": 300})
    page.evaluate(
        "document.documentElement.style.fontSize = '300%'; dispatchEvent(new Event('resize'))"
    )
    page.evaluate("document.querySelector('.matrix .body').scrollTo(120, 0)")
    page.evaluate(
        "scrollTo(0, document.querySelector('.matrix .row.workaround').getBoundingClientRect().top)"
    )
    sides = """(name) => { const box = document.querySelector(name).getBoundingClientRect();
      const all = document.getElementById('matrix').getBoundingClientRect();
      return [Math.round(box.top), Math.round(box.left - all.left)]; }"""

    heads, body = (
        f"document.querySelector('.matrix .{name}').scrollLeft" for name in ("top", "body")
    )
    eventually(page, lambda: page.evaluate(f"{heads} > 0 && {heads} === {body}"), expected=True)
    assert page.evaluate(sides, ".corner") == [0, 1]
    assert page.evaluate(sides, ".row .name")[1] == 1


def test_a_wheel_over_the_table_turns_the_page(show: Show) -> None:
    page = show("index.html#ways=1", viewport={"width": 1000, "height": 400})
    page.locator(".matrix").scroll_into_view_if_needed()
    box = page.locator(".matrix").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 20)
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, 150)

    eventually(page, lambda: page.evaluate("scrollY") > before, expected=True)
    assert page.evaluate("document.querySelector('.matrix .body').scrollTop") == 0


def test_every_cell_has_a_name_before_anybody_comes_to_it(show: Show) -> None:
    page = show("index.html#q=case:norm")
    cells = page.locator(".row:visible .cell:not(:empty)")
    eventually(page, cells.count, 4)

    assert [cell.get_attribute("aria-label") for cell in cells.all()] == [
        "4.49.0: fp32, bf16, fp16 passes",
        "4.50: fp32, bf16, fp16 passes",
        "4.51.0: fp32, bf16, fp16 passes",
        "5.0: fp32, bf16 passes; fp16 passes or fails",
    ]


def test_few_columns_are_read_as_a_list(show: Show) -> None:
    page = show("index.html#q=release%3A4.50.0 fails%3Abf16")
    case = page.locator("#list .case")

    assert page.locator("#matrix").is_hidden()
    assert case.locator("small code").all_inner_texts() == ["cache_float"]
    assert case.locator("ul > li > *").all_inner_texts() == [
        "bf16",
        "✕ AttributeError: 'HybridCache' object has no attribute 'float'",
        "4.50.0 to 4.50.1, fixed in 4.51.0",
        "Workarounds: cache-off",
        "Details",
    ]
    case.get_by_role("button").click()
    assert page.inner_text(".detail h3") == "cache_float on 4.50.0"
    page.wait_for_url(lambda url: url.endswith("at=cache_float&at=&at=cpu&at=4.50.0"))
    page.fill("#query", "fails:bf16")
    page.wait_for_selector("#matrix:not([hidden])")
    assert page.locator("#list").is_hidden()


def test_a_phone_shows_a_card_for_each_case(show: Show) -> None:
    page = show("index.html", viewport={"width": 390, "height": 844})

    assert page.locator("#list .case").count() == len(CASES)
    assert page.locator("#matrix").is_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1400, "height": 900})
    page.wait_for_selector("#matrix:not([hidden])")


def test_what_a_finger_touches_on_a_phone_is_large_enough(show: Show) -> None:
    page = show("index.html#q=cache", viewport={"width": 390, "height": 844})
    small = """() => [...document.querySelectorAll("#table :is(button, select, input, textarea)")]
      .filter((one) => one.offsetParent && (one.offsetHeight < 24 || one.offsetWidth < 24))
      .map((one) => one.outerHTML)"""

    assert page.evaluate(small) == []


def test_a_query_that_is_being_typed_is_not_red_and_moves_nothing(show: Show) -> None:
    page = show()
    page.focus("#query")
    height = "document.documentElement.scrollHeight"
    before = page.evaluate(height)
    for text in ("model:", "fails:bf", "(fails:bf16 ", 'error:"no a', "fails:bf16 or "):
        page.fill("#query", text)
        page.wait_for_timeout(150)
        assert (text, page.inner_text("#fault")) == (text, "")
        assert page.get_attribute("#query", "aria-invalid") is None
    page.fill("#query", "model:")
    page.wait_for_timeout(150)
    assert page.evaluate(height) == before
    page.keyboard.press("Enter")
    page.wait_for_selector("#fault p")
    assert page.get_attribute("#query", "aria-invalid") == "true"


def test_a_long_text_is_answered_and_kept_though_no_address_holds_it(show: Show) -> None:
    page = show("index.html#q=fails%3Abf16")
    text = PASTED + "cache" * 1700
    answered(page, text)
    page.locator("#query").blur()

    assert "a link to this page does not hold it" in page.inner_text("#answer")
    assert page.input_value("#query") == text
    page.wait_for_url(lambda url: url.endswith("index.html#q="))


def test_an_error_is_narrowed_by_what_is_chosen_beside_it(show: Show) -> None:
    page = show()
    answered(page, PASTED)
    choose(page, "model", "llama")

    assert page.input_value("#query") == f"{PASTED.strip()}\nmodel:llama"
    eventually(page, lambda: page.inner_text("#answer")[:12], "Nothing near")
    choose(page, "model", "gemma3")
    eventually(page, lambda: page.locator("#answer li a").count() > 0, expected=True)
    assert "model:gemma3" in page.input_value("#query")


def test_a_misspelled_word_is_answered_with_the_one_that_is_known(show: Show) -> None:
    page = show()
    page.fill("#query", "gemmma3 floatt")
    link = page.locator("#answer p a")
    eventually(page, link.all_inner_texts, ["gemma3", "float"])
    link.first.click()

    eventually(page, lambda: page.url.split("#q=")[1], "gemma3+floatt")


def test_no_head_is_cut_off_however_long_the_name_of_its_environment_is(
    browser: Browser, tmp_path: Path
) -> None:
    name = "4.50.0+flash-attn2.7.4.post1"
    known = {**ENVIRONMENTS, name: environment(name, source=Source.PAIR)}
    row = seen(Outcome.PASSES, Cell("cache_float", "", name, Precision.BF16, Device.CPU))
    render(CASES, tuple(known.values()), (*judged(), *judge_all([row], CASES, known)), tmp_path)
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    sizes = "[one.textContent, one.offsetHeight, one.offsetParent.offsetHeight]"
    every = f"all => all.map((one) => {sizes})"
    releases = page.eval_on_selector_all(".matrix .head span", every)
    page.check("#more")
    eventually(page, page.locator(".matrix .head").count, 6)
    heads = page.eval_on_selector_all(".matrix .head span", every)
    page.close()

    assert [label for label, *_ in releases] == ["4.49.0", "4.50", "4.51.0", "5.0"]
    assert max(there for *_, there in releases) <= 80
    assert heads[-1][0] == name
    assert [label for label, needed, there in heads if needed > there] == []


def downloaded(page: Page, kind: str) -> str:
    with page.expect_download() as waited:
        page.click(f"#take button[data-as={kind}]")
    assert waited.value.suggested_filename == f"rows.{kind}"
    return waited.value.path().read_text("utf-8")


def test_the_rows_that_are_shown_can_be_downloaded(show: Show) -> None:
    page = show("index.html#q=case%3Acache since%3A4.50 until%3A4.50 precision%3Abf16")
    table = [*csv.reader(io.StringIO(downloaded(page, "csv")))]
    found = json.loads(downloaded(page, "json"))

    error = "AttributeError: 'HybridCache' object has no attribute 'float'"
    cell = ["bf16", "cpu", "fails", "as-expected", error, "yes", ""]
    assert table[1:] == [
        ["cache_float", "", name, *cell, "false", "false", "0"] for name in ("4.50.0", "4.50.1")
    ]
    assert found == {
        "query": "case:cache since:4.50 until:4.50 precision:bf16",
        "columns": table[0],
        "rows": [
            ["cache_float", "", name, *cell, False, False, 0] for name in ("4.50.0", "4.50.1")
        ],
    }


def test_the_rows_of_workarounds_are_downloaded_where_they_are_shown(show: Show) -> None:
    page = show("index.html#q=case%3Acache&ways=1")
    rows = json.loads(downloaded(page, "json"))["rows"]

    assert {row[1] for row in rows} == {"", "away", "cache-off"}
    assert len(rows) == 3 * 7 * 3


def test_no_spreadsheet_takes_a_downloaded_message_for_a_formula(language: Page) -> None:
    script = "(value) => Rows.csv([[value]]).split('\\n')[1]"
    given = ["=1+1", "-1", "plain", 'say "a", b']

    assert [language.evaluate(script, value) for value in given] == [
        *("'=1+1", "'-1", "plain", '"say ""a"", b"'),
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ["", "#ways=1&at=cache_float&at=&at=cpu&at=4.50", "#q=modle:x"])
def test_whoever_reads_the_page_otherwise_is_not_left_out(
    show: Show, address: str, scheme: str
) -> None:
    page = show(f"index.html{address}", color_scheme=scheme)
    answered(page, PASTED)

    assert violations(page) == []
