"""The query of the page, in the browser: every text is a query, or refused at its characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from mutating import mutated, only_drawn

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

SEEDS = (
    b"fails:bf16 passes:fp32 since:5.0",
    b"model:gemma3 -workaround:none",
    b"verdict:regressed or is:unstable",
    b'error:"same dtype" until:4.57',
    b"-(case:cache or area:norms,kv-cache) release:4.50.0 precision:bf16 device:cpu",
    b'outcome:fails package:peft "some words" text -since:main',
)
_ASK = """async (queries) => {
  const book = Book.open(matrix);
  await Texts.load();
  const errors = Texts.given(book);
  const wrong = [];
  for (const query of queries) {
    const begin = performance.now();
    try {
      book.cases.filter(Search.compile(query, book, errors).holds);
    } catch (error) {
      const { start, end, message } = error;
      const placed = message && 0 <= start && start <= end && end <= query.length;
      if (!(error instanceof Query.Fault && placed)) wrong.push([query, String(error)]);
    }
    if (performance.now() - begin > 5000) wrong.push([query, "hangs"]);
  }
  return wrong;
}"""
_BATCH = 500


def texts(number: int, examples: int) -> list[str]:
    """Return changed queries, and now and then any text."""
    found = [one.decode() for one in SEEDS]

    @only_drawn(number, examples)
    @given(mutated(SEEDS).map(lambda one: one.decode("utf-8", "replace")) | st.text())
    def draw(text: str) -> None:
        found.append(text.encode("utf-8", "replace").decode())

    draw()
    return found


def asked_of(browser: Browser, site: Path, queries: Sequence[str]) -> list[tuple[str, str]]:
    """Ask every query of a site; return those that ended in something else, and in what."""
    found: list[tuple[str, str]] = []
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    for first in range(0, len(queries), _BATCH):
        wrong = page.evaluate(_ASK, list(queries[first : first + _BATCH]))
        found.extend((query, said) for query, said in wrong)
    page.close()
    return found
