"""Check my versions: of a model the page says of the sweep what `audit --model` says."""

from __future__ import annotations

import json
import random
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from swept import line, record

from repromatrix.reports.build import render
from repromatrix.reports.site import Published, SweptSite
from repromatrix.reports.text import shortened
from repromatrix.runner.audit.swept import as_data, swept
from repromatrix.runner.evidence.swept.published import CLASSES, read_history
from repromatrix.runner.evidence.swept.records import ProbeStatus
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from repromatrix.runner.evidence.swept.history import SweepHistory

pytestmark = pytest.mark.browser

ASK = """(asked) => {
  const sweep = Swept.open(swept);
  const answer = ([name, version, among]) => sweep.answer(name, Pep440.parse(version), among);
  return JSON.stringify(asked.map(answer));
}"""
"""Its answer is a text: value by value, Playwright takes many times as long to bring it."""
COUNT, SEED = 400, 5
LONGEST = 200
"""Characters of a message on the page."""
VERSIONS = ["4.48.0", "4.49.0", "4.50.0", "4.50.2", "4.51.0", "4.57.6", "5.0.0", "5.23.0", "5.99"]


def _toy() -> SweepHistory:
    """Return a history with every kind of state."""
    holds, fails, skipped = ProbeStatus.HOLDS, ProbeStatus.FAILS, ProbeStatus.SKIPPED
    states = [(holds, holds), (fails, skipped), (fails, ProbeStatus.UNKNOWN), (holds, holds)]
    return line(
        *(
            [record("llama", "static-bf16", one, "size"), record("llama", "static", other, "no")]
            for one, other in states
        ),
        lacking=("keep-fp32",),
    )


def _toy_classes() -> SweepHistory:
    """Return a class that fails as its architecture does, and one that fails otherwise."""
    names = ("LlamaModel", "LlamaForTokenClassification")
    recipes = [(f"llama:{name}", name, "4.49.0") for name in names]
    fails = ProbeStatus.FAILS
    some = [
        record("llama:LlamaModel", "autocast-bf16", fails, "own"),
        record("llama:LlamaForTokenClassification", "static-bf16", fails, "size"),
    ]
    return line([], some, some, some, recipes=recipes)


def _page(browser: Browser, folder: Path, history: SweepHistory, classes: SweepHistory) -> Page:
    site = SweptSite(history=history, classes=SweptSite(history=classes))
    render({}, (), (), folder, published=Published(swept=site))
    page = browser.new_page()
    page.goto((folder / "check.html").as_uri())
    return page


@pytest.mark.parametrize("which", ["toy", pytest.param("published", marks=pytest.mark.whole)])
def test_the_page_answers_as_the_command_does(which: str, browser: Browser, tmp_path: Path) -> None:
    history, classes = _toy(), _toy_classes()
    if which == "published":
        history = read_history(Paths().published)
        classes = read_history(Paths().published, CLASSES)
    chance = random.Random(SEED)  # noqa: S311 - the same questions each time
    several = [[*Precision], [Precision.BF16], [Precision.FP32, Precision.FP16]]
    names = [*history.architectures]
    asked = [
        (chance.choice(names), chance.choice(VERSIONS), chance.choice(several))
        for _ in range(COUNT)
    ]
    page = _page(browser, tmp_path, history, classes)
    shown = json.loads(page.evaluate(ASK, asked))
    page.close()

    wanted = [
        as_data(swept(history, [name], version, precisions, classes))[0]
        for name, version, precisions in asked
    ]
    for one in wanted:
        for failing in chain(one["failing"], *(each["failing"] for each in one["classes"])):
            failing["error"] = shortened(failing["error"], LONGEST)
            del failing["decided"]  # of decisions *Findings* tells
    assert shown == wanted
    assert any(one["failing"] for one in shown)
    assert any(one["level"] == "derived" for one in shown)
    assert any(one["classes"] for one in shown)


def test_a_model_that_no_case_is_about_can_be_chosen(browser: Browser, tmp_path: Path) -> None:
    page = _page(browser, tmp_path, _toy(), _toy_classes())
    address = page.url
    page.goto("about:blank")
    page.goto(f"{address}#transformers=4.50.0&model=llama&precision=bf16")

    assert page.inner_text("#verdict") == "No case is about llama; the sweep has run it."
    card = page.inner_text("#answer [data-architecture=llama]")
    assert "bf16 static-bf16 fails: ValueError: size in transformers.m:f" in card
    assert "bf16 autocast-bf16 of LlamaModel fails: ValueError: own in transformers.m:f" in card
    assert "LlamaForTokenClassification" not in card
    assert page.get_attribute("#answer h3 a", "href") == "architecture/llama.html"
    assert page.inner_text("#fault") == ""
    page.close()
