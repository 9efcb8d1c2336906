"""What nobody should type, paste or link to: a sentence says so, and what was typed stays."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from small_site import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser

TYPED = """(text) => {
  const box = document.getElementById('query');
  box.focus();
  box.value = text;
  box.dispatchEvent(new Event('input', { bubbles: true }));
  box.dispatchEvent(new Event('change', { bubbles: true }));
}"""
PASTED = """([line, last]) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData('text', line.repeat(Math.ceil(1e7 / line.length)).slice(0, 1e7) + last);
  const pasted = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true });
  document.getElementById('query').dispatchEvent(pasted);
}"""
LONG = 10_000


ANSWERS = {
    "cache " * (LONG // 6): "1 of 3 cases",
    "x" * LONG: "No matching cases.",
    "(" * LONG: "more than 100 parentheses and minuses stand inside each other",
    "-" * LONG: "more than 100 parentheses and minuses stand inside each other",
    '"' * (LONG + 1): "this quote is never closed",
    "k" * LONG + ":v": "no key is called",
    "fails:" + "bf16," * (LONG // 5): "a value must follow fails:",
    HOSTILE: "this quote is never closed",
    f'"{HOSTILE.replace(chr(34), "")}"': "3 of 3 cases",
    "transformers 9.9.9": "no environment has transformers 9.9.9. Did you mean",
    "release:9.9.9": "there is no release 9.9.9.",
    "\x00\ufffe\U0010ffff": "No matching cases.",
}


def test_a_query_that_nobody_should_type_is_answered_in_short_and_kept(show: Show) -> None:
    page = show()
    answers = {}
    for text, says in ANSWERS.items():
        page.evaluate(TYPED, text)
        answer = ""
        for _ in range(100):
            page.wait_for_timeout(150)
            answer = " ".join(page.locator("#fault, #none, #found").all_inner_texts())
            if says in answer:
                break
        assert page.input_value("#query") == text
        assert len(answer) < 1000
        answers[text] = says if says in answer else answer

    assert answers == ANSWERS
    assert page.evaluate("window.harmed") is None


def test_of_ten_megabytes_that_are_pasted_the_end_is_read_and_a_sentence_says_so(
    show: Show,
) -> None:
    page = show()
    page.fill("#query", "gemma3 ")
    page.evaluate(PASTED, ["frame\n", "AttributeError: no attribute 'float'"])
    page.locator("#fault").filter(has_text="Only the end of this text was taken").wait_for()

    assert page.inner_text("#fault") == (
        "Only the end of this text was taken, where an error stands: "
        "200,000 of 10,000,036 characters."
    )
    assert (
        page.locator("#answer a").first.get_attribute("href") == "case/cache_float.html#failure-1"
    )
    assert page.input_value("#query").startswith("gemma3 ")
    page.fill("#query", "gemma3")
    page.locator("#fault").filter(has_not_text="Only").wait_for(state="hidden")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("at=cache_float&at=&at=cpu&at=9.9.9", "there is no release 9.9.9"),
        ("at=nothing&at=&at=cpu&at=4.50.0", "there is no case nothing"),
        ("at=cache_float&at=by-magic&at=cpu&at=4.50.0", "cache_float has no workaround by-magic"),
        ("at=cache_float&at=&at=abacus&at=4.50.0", "cache_float was not measured on abacus"),
        ("at=cache_float", "its address is not complete"),
        ("q=model:llama&at=cache_float&at=&at=cpu&at=4.50.0", "the query leaves it out"),
        (f"at={quote(HOSTILE)}&at=&at=cpu&at=4.50.0", f"there is no case {HOSTILE}"),
    ],
)
def test_a_link_to_no_cell_says_why_it_is_not_shown(show: Show, address: str, says: str) -> None:
    page = show(f"index.html#{address}")

    assert page.inner_text("#lost") == f"The cell of this link is not shown: {says}."
    assert page.locator(".cell.opened").count() == 0
    assert page.evaluate("window.harmed") is None


def test_a_link_to_a_cell_unfolds_its_line(show: Show) -> None:
    page = show("index.html#at=cache_float&at=&at=cpu&at=4.50.1")

    assert page.locator(".cell.opened").count() == 1
    assert page.locator("#lost").is_hidden()


@pytest.mark.parametrize("address", ["%E0%A4%A", "open=9.9", "ways=7&more=x", "=&=&&"])
def test_an_address_that_says_nothing_shows_the_table(show: Show, address: str) -> None:
    assert show(f"index.html#{address}").locator(".row.case:visible").count() == len("abc")
