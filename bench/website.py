"""What the site costs its readers: bytes before they act, and what they wait for in a browser.

`nox -s bench -- --site`: the site of the published evidence, and one of 120,000 made-up cells.
The browser's part is left out, and said so, where there is no Chromium.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "support")]

import real_site  # noqa: E402
from chromium import missing, opened, weights  # noqa: E402
from synthetic import corpus, draw  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

    Row = Callable[..., None]

REPEATS = 5
SHOWN = "Math.max(...performance.getEntriesByType('paint').map((entry) => entry.startTime))"
ASKED = """(query) => new Promise((done) => {
  const box = document.getElementById('query');
  box.value = query;
  const before = performance.now();
  box.dispatchEvent(new Event('change'));
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - before)));
})"""
"""From Enter to the frame that shows the answer, with style, layout and paint of that frame."""
CHECKED = """(text) => new Promise((done) => {
  const [box, answer] = ['packages', 'answer'].map((id) => document.getElementById(id));
  const before = performance.now();
  const seen = new MutationObserver(() => {
    if (!answer.firstChild) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - before)));
  });
  answer.replaceChildren();
  seen.observe(answer, { childList: true });
  box.value = text;
  box.dispatchEvent(new Event('input', { bubbles: true }));
})"""
"""From a paste to the frame that shows what hits, the wait for more typing included."""
EMPTY = "data:text/html,<title>empty</title><input id=query>"
TRACEBACK = """Traceback (most recent call last):
  File "/x/site-packages/transformers/trainer.py", line 4560, in prediction_step
    logits = nested_detach(logits)
AttributeError: 'HybridCache' object has no attribute 'float'"""
REAL = ("gemma3 eval bf16", "fails:bf16 since:5.0", "qwen 2.5 vl lora", "peft 0.15.2", TRACEBACK)
MADE_UP = (
    "fails:bf16",
    "model5",
    "fails:bf16 passes:fp32 since:5.0",
    'error:"pass c"',
    "merge nan",
)

PASTED = {
    "two versions": "transformers==4.51.3\npeft==0.15.2\n",
    "a freeze of 300": "transformers==5.10.1\npeft==0.17.0\naccelerate==1.6.0\ntorch==2.6.0\n"
    + "".join(f"filler-{number}==1.0\n" for number in range(296)),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Website:
    """A site, what is asked of it, and its limits in KB and milliseconds."""

    name: str
    folder: Path
    queries: tuple[str, ...]
    weight: int
    wait: int


def measure(row: Row) -> None:
    """Draw, weigh, and use both sites; one line per number."""
    with tempfile.TemporaryDirectory() as folder:
        made_up = Website(
            name="made up", folder=Path(folder) / "1", queries=MADE_UP, weight=1500, wait=150
        )
        real = Website(name="real", folder=Path(folder) / "2", queries=REAL, weight=100, wait=50)
        made = corpus()
        row(f"{len(made.rows):,} made-up cells drawn", draw(made, made_up.folder), "s", "limit 20")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        row("largest memory", peak, "MB", "limit 1,000")
        real_site.draw(real.folder)
        if missing():
            print(f"not looked at: {missing()}")
            return
        with opened() as browser:
            empty = _median(_page(browser, EMPTY), "")
            row("a frame of an empty page", empty, "ms", "part of each answer below")
            for website in (made_up, real):
                _first_page(browser, website, row)
                _answers(browser, website, row)
            _check(browser, real, row)


def _page(browser: Browser, address: str) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address)
    return page


def _first_page(browser: Browser, website: Website, row: Row) -> None:
    """Weigh what the first page loads before anybody acts, each file compressed by itself."""
    sizes = weights(browser, website.folder)
    for name, size in sizes.items():
        print(f"    {name:<40}{size / 1000:>8.1f} KB")
    total = sum(sizes.values()) / 1000
    row(f"{website.name}: loaded, compressed", total, "KB", f"limit {website.weight:,}")
    page = _page(browser, (website.folder / "index.html").as_uri())
    page.wait_for_selector(".cell")
    row(f"{website.name}: first paint", page.evaluate(SHOWN), "ms", "limit 1,000")
    page.close()


def _answers(browser: Browser, website: Website, row: Row) -> None:
    page = _page(browser, (website.folder / "index.html").as_uri())
    page.wait_for_selector(".cell")
    for query in website.queries:
        name = f"{website.name}: {query.splitlines()[0]}"
        row(name, _median(page, query), "ms", f"limit {website.wait}")
    page.close()


def _median(page: Page, query: str) -> float:
    """Ask five times, each time from an empty query; return the median in milliseconds."""
    waits = []
    for _ in range(REPEATS):
        page.evaluate(ASKED, "")
        waits.append(float(page.evaluate(ASKED, query)))
    return statistics.median(waits)


def _check(browser: Browser, website: Website, row: Row) -> None:
    page = _page(browser, (website.folder / "check.html").as_uri())
    for name, text in PASTED.items():
        waits = [float(page.evaluate(CHECKED, text)) for _ in range(REPEATS)]
        row(f"{website.name}: check {name}", statistics.median(waits), "ms", "limit 200")
    page.close()
