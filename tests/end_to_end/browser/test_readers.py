"""Five readers on the real site: each from the first page to the sentence that answers, within two
actions, each a click or typing into a box."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser

TRACEBACK = """Traceback (most recent call last):
  File "/home/me/evaluate.py", line 31, in <module>
    outputs = model(**batch)
  File "/opt/lib/python3.11/site-packages/accelerate/utils/operations.py", line 785, in _convert
    return tensor.float()
AttributeError: 'HybridMambaAttentionDynamicCache' object has no attribute 'float'"""


@dataclass(kw_only=True)
class Reader:
    """Somebody with a mouse and a keyboard, on the first page; every action is counted."""

    page: Page
    actions: int = 0

    def click(self, what: Locator) -> None:
        self.actions += 1
        what.click()

    def type(self, box: Locator, text: str) -> None:
        self.actions += 1
        box.fill(text)

    def reads(self, selector: str, *facts: str) -> None:
        """Wait until an element holds all of these facts; two actions are the most allowed."""
        element = self.page.locator(selector).first
        for fact in facts:
            element.filter(has_text=re.compile(fact)).wait_for()
        assert self.actions <= 2


@pytest.fixture
def reader(browser: Browser, real_site: Path) -> Iterator[Reader]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto((real_site / "index.html").as_uri())
    yield Reader(page=page)
    page.close()


def test_a_maintainer_finds_the_range_and_the_fix_of_a_bug(reader: Reader) -> None:
    reader.type(reader.page.locator("#query"), "gemma3 eval bf16")
    reader.click(reader.page.locator("#answer a").first)

    reader.reads("h1", "Gemma 3 evaluation in the Trainer")
    reader.reads("#summary", r"present since 4\.50\.0", r"4\.51\.0 .*#37044")


def test_an_engineer_learns_what_hits_a_model_an_adapter_and_versions(reader: Reader) -> None:
    versions = "transformers 4.51.3, peft 0.15.2, qwen2.5-vl adapter bf16"
    reader.type(reader.page.locator("#query"), versions)
    reader.click(reader.page.get_by_role("link", name="Check my versions", exact=True).last)

    reader.reads("#answer", "Merging a DoRA adapter leaves fp32 weights in a 16-bit model")
    reader.reads("#answer", r"Avoided by transformers 4\.53\.0 with peft 0\.16\.0", "adapter-16bit")
    reader.reads(
        "#answer", r"No release is measured to pass all.*The fewest fail or are unknown on 5\.17\.0"
    )
    assert "GPT-2" not in reader.page.inner_text("#answer")


def test_a_pasted_error_finds_its_case_with_a_link(reader: Reader) -> None:
    reader.type(reader.page.locator("#query"), TRACEBACK)

    reader.reads("#answer", "with this message")
    reader.reads("#answer li", "Jamba, accelerate: 'HybridMambaAttentionDynamicCache' has no")
    assert reader.page.locator("#answer li a").first.get_attribute("href") == (
        "case/jamba_accelerate_outputs.html#failure-1"
    )


def test_a_pasted_environment_leads_to_what_can_hit_its_versions(reader: Reader) -> None:
    env = "- `transformers` version: 4.51.3\n- PEFT version: 0.15.2\n- vLLM version: not installed"
    reader.type(reader.page.locator("#query"), f"### System Info\n\n{env}")
    reader.reads("#answer", r"Read: transformers 4\.51\.3, peft 0\.15\.2; not installed: vllm\.")
    reader.click(reader.page.locator("#answer a"))

    reader.reads(
        "#verdict", r"transformers 4\.51\.3 with peft 0\.15\.2: \d+ known bugs can hit you"
    )


def test_a_release_manager_learns_what_a_release_broke_and_fixed(reader: Reader) -> None:
    reader.click(reader.page.get_by_role("link", name="Releases", exact=True).first)
    reader.click(reader.page.get_by_role("link", name="5.0.0", exact=True).first)

    reader.reads("h1", r"transformers 5\.0\.0")
    reader.reads(".lede", "122 known bugs, 68 of them silent, 54 in fp32 as well, and 6")
    reader.reads("#broke", "Switch Transformers in bf16 or fp16: mat1 and mat2", "T5 loaded")
    reader.reads("#fixed", "DeepSeek-V3 in 16 bit rounds e_score_correction_bias", "#42580")


def test_a_release_manager_learns_the_counts_of_the_newest_release(reader: Reader) -> None:
    counts = "87 known bugs, 51 of them silent, 44 in fp32 as well, and 6 intended changes"
    reader.reads("#status", rf"transformers 5\.23\.0: {counts}; 153 fixed")
    reader.click(reader.page.locator("#status a").first)

    reader.reads(".lede", counts)
    reader.reads("#fixed", "Grounding DINO casts its text position embeddings to int64")


def test_a_reader_sees_what_a_gpu_measured_where_it_is_asked_for(reader: Reader) -> None:
    reader.reads("#found", "^246 of 246 cases")
    reader.click(reader.page.get_by_text("Filters", exact=True))
    reader.page.locator("select[data-key=device]").select_option("cuda")

    reader.reads("#found", "^138 of 246 cases$")
    assert reader.page.locator("#query").input_value() == "device:cuda"


def test_a_first_reader_is_told_what_this_is_and_by_whom(reader: Reader) -> None:
    reader.reads("header >> nth=0", "Which bugs of the Hugging Face libraries can hit you")
    reader.reads("#matrix .area", r"^Open in 5\.23\.0")
    reader.reads("#status", r"transformers 5\.23\.0: 87 known bugs")
    reader.reads("#about", r"[Mm]easured on a CPU with torch 2\.13\.0", r"Data: 2026-\d\d-\d\d")
    reader.reads("#about", r"1,077 cells on a GPU with torch 2\.11\.0")
    reader.reads("footer", "Made by", "Licence: Apache-2.0")
