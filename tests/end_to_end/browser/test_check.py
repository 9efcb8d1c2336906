"""Check my versions: the page answers as `audit` and `advise` do, field by field."""

from __future__ import annotations

import dataclasses
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chromium import processor_time, violations
from hypothesis import given
from mutating import mutated, only_drawn
from packaging.version import Version
from real_site import draw_check

from repromatrix.reports.text import shortened
from repromatrix.runner import project
from repromatrix.runner.audit import render as audit_text
from repromatrix.runner.audit import render_advice
from repromatrix.runner.audit.advice import advise
from repromatrix.runner.audit.hits import audit
from repromatrix.runner.audit.inputs import read
from repromatrix.runner.audit.known import KnownEvidence, known
from repromatrix.runner.audit.packages import Gathering, Installed
from repromatrix.runner.audit.pasted import is_pasted, read_pasted
from repromatrix.runner.audit.questions import AuditQuestion
from repromatrix.runner.document import write
from repromatrix.runner.evidence import answers
from repromatrix.runner.model.case import Trigger
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.text import join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from playwright.sync_api import Browser, Page

    from repromatrix.runner.project import Project

pytestmark = pytest.mark.browser

COUNT = 240
SEED = 17
ERROR = 300
"""Characters of an error on the page."""
ASK = """(asked) => {
  const decide = Decide.open(decisions);
  const mapped = (values) => new Map(Object.entries(values));
  const names = decisions.cases.map((entry) => entry.name);
  return asked.map((one) => {
    const { whole } = one;
    const absent = new Set(one.absent);
    const mine = { pins: mapped(one.pins), loose: mapped(one.loose), absent, whole };
    const chosen = {
      cases: one.cases.map((name) => names.indexOf(name)),
      precisions: one.precisions.map((name) => decisions.precisions.indexOf(name)),
      model: one.model ?? "",
    };
    return JSON.stringify({ audit: decide.audit(mine, chosen), advise: decide.advise(chosen) });
  });
}"""
"""Its answers are texts: value by value, Playwright takes many times as long to bring them."""
# Without `broken-by` and `fixed-by`: the page links to the page of the case, which has the commits.
OF_HIT = (
    *("case", "title", "kind", "verdict", "by-shared-code", "error"),
    *("cells", "differs", "newer", "older", "workarounds"),
)
OF_AUDIT = ("hits", "unknown", "clear", "not-applicable", "upgrades", "shared-code")
OF_ADVICE = (*("newest", "packages", "fewest-failing", "not-enough-evidence", "releases"),)
KIN = "kin-of-qwen2.5-vl"
"""A family that shares the code of every case that builds Qwen2.5-VL, and was not run."""

Asked = dict[str, Any]


def _loaded() -> Project:
    """Return the checkout, in which some cases share their code with a family of our own."""
    loaded = project.load(Paths())
    cases = {
        name: replace(case, block=case.block.model_copy(update={"same_code": (KIN,)}))
        for name, case in loaded.cases.items()
        if "qwen2.5-vl" in case.block.families
    }
    return replace(loaded, cases={**loaded.cases, **cases})


@pytest.fixture(scope="module")
def evidence() -> KnownEvidence:
    """Return what is published, as the commands read it."""
    loaded = _loaded()
    return known(loaded.cases, loaded.environments, answers.published_rows(Paths()))


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Return the page of the site that the published evidence gives."""
    folder = tmp_path_factory.mktemp("checked")
    draw_check(folder, _loaded())
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text))
    page.on(
        "request", lambda asked: complaints.append(asked.url) if "file:" not in asked.url else None
    )
    page.goto((folder / "check.html").as_uri())
    yield page
    page.close()
    assert complaints == []


@pytest.fixture
def blank(page: Page) -> Page:
    """Return the page as it is opened, without anything typed."""
    address = page.url.partition("#")[0]
    page.goto("about:blank")
    page.goto(address)
    return page


def opened_with(page: Page, link: str) -> Page:
    """Return the page opened by a link."""
    address = page.url.partition("#")[0]
    page.goto("about:blank")
    page.goto(f"{address}#{link}")
    return page


def _versions(evidence: KnownEvidence, package: str) -> list[str]:
    names = {item.version(package) for item in evidence.environments.values()} - {""}
    return sorted(names, key=Version)


def _near(chance: random.Random, line: list[str]) -> str:
    """Return a version on a line of measured ones, just beside it, or far away."""
    measured = chance.choice(line)
    release = Version(measured).base_version
    beside = [f"{release}.post1", f"{release}.dev3", f"{release}rc1", f"{release}+local.7"]
    return chance.choice([*(6 * [measured]), *beside, f"{release}.9", "0.1", "99.0.0"])


def _asked(evidence: KnownEvidence, chance: random.Random) -> Asked:
    """Return versions and a question; each package may be missing or without a pin."""
    pins, loose, absent = {}, {}, list[str]()
    lines = {
        name: _versions(evidence, name)
        for name in ("transformers", "peft", "accelerate", "safetensors", "ms-swift")
    }
    lines["flash-attn"] = ["2.7.4.post1"]
    shares = {"transformers": 0.98, "peft": 0.8, "accelerate": 0.8, "safetensors": 0.7}
    for name, line in lines.items():
        if chance.random() < shares.get(name, 0.25):
            pins[name] = str(Version(_near(chance, line)))
        elif chance.random() < 0.2:
            loose[name] = ">=1, not a pin"
        elif chance.random() < 0.2:
            absent.append(name)
    for name in ("pillow", "scipy", "datasets", "trl", "qwen-vl-utils", "torchvision"):
        if chance.random() < 0.5:
            pins[name] = "12.0"
    if chance.random() < 0.6:
        pins["torch"] = chance.choice(["2.13.0", "2.13.0+cpu", "2.4.1", "2.13.0+cu130"])
    families = sorted({name for case in evidence.cases.values() for name in case.block.answers_for})
    model = chance.choice([None, KIN, *families])
    trigger = chance.choice([None, None, *Trigger])
    cases = [
        name
        for name, case in evidence.cases.items()
        if (model is None or case.block.is_about({model}))
        and (trigger is None or trigger in case.block.triggers)
    ]
    several = [[*Precision], [Precision.BF16], [Precision.FP16], [Precision.FP32]]
    return {
        "pins": pins,
        "loose": loose,
        "absent": absent,
        "whole": chance.random() < 0.7,
        "cases": cases,
        "model": model,
        "precisions": chance.choice([*several, [Precision.FP32, Precision.FP16]]),
    }


def _told(evidence: KnownEvidence, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the commands answer, as they write it as JSON, without what the page leaves."""
    mine = Installed(
        what="",
        form="",
        absent=frozenset(asked["absent"]),
        **{name: asked[name] for name in ("pins", "loose", "whole")},
    )
    question = AuditQuestion(
        cases=tuple(asked["cases"]),
        precisions=tuple(asked["precisions"]),
        models=frozenset({asked["model"]} - {None}),
    )
    found = json.loads(write(audit_text.document(audit(mine, evidence, question)), "json"))
    # The page knows neither features nor which release has a model: it counts every case.
    every = dataclasses.replace(question, models=frozenset())
    advice = json.loads(write(render_advice.document(advise(evidence, every)), "json"))
    return {
        "audit": {key: found[key] for key in OF_AUDIT},
        "advise": {key: advice[key] for key in OF_ADVICE},
    }


def _compared(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that both have; where a row was published is not on the page."""
    found, advice = answer["audit"], answer["advise"]
    found["hits"].sort(key=lambda hit: str(hit["case"]))  # the page ranks none
    for hit in found["hits"]:
        hit["error"] = shortened(hit["error"], ERROR)
        for key in set(hit) - {*OF_HIT}:
            del hit[key]
        for way in hit["workarounds"]:
            way["cells"] = [_cell(cell) for cell in way["cells"]]
        hit["cells"] = [_cell(cell) for cell in hit["cells"]]
    for group in ("unknown", "clear", "not-applicable"):
        found[group] = [_cell(cell) for cell in found[group]]
    return {"audit": found, "advise": {key: advice[key] for key in OF_ADVICE}}


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in cell.items() if key != "sources"}


def test_the_page_answers_as_the_commands_do(page: Page, evidence: KnownEvidence) -> None:
    chance = random.Random(SEED)  # noqa: S311 - the same environments each time
    asked: list[Asked] = []
    while len(asked) < COUNT:
        one = _asked(evidence, chance)
        if one["cases"]:
            asked.append(one)
    shown = [_compared(json.loads(answer)) for answer in page.evaluate(ASK, asked)]
    differing = [
        (one["pins"], part, field, got[part][field], wanted[part][field])
        for one, got in zip(asked, shown, strict=True)
        for wanted in [_compared(_told(evidence, one))]
        for part in wanted
        for field in wanted[part]
        if got[part][field] != wanted[part][field]
    ]

    assert [each[1:] for each in differing] == []
    assert sum(bool(answer["audit"]["hits"]) for answer in shown) > COUNT / 3
    assert any(hit["by-shared-code"] for answer in shown for hit in answer["audit"]["hits"])


# What people do with it

FREEZE = """accelerate==1.6.0
huggingface-hub==0.30.2
peft==0.15.2
tokenizers==0.21.1
torch==2.6.0
transformers==4.51.3
"""
PINS = """# why
--index-url https://example.org/simple
Transformers == 4.51.3  # why
torch>=2.6,<3
peft @ git+https://example.org/peft
-e git+https://example.org/trl@main#egg=trl
./local
safetensors==0.5.*
regex===2024.11.6
datasets[audio,vision] (==3.1)
numpy
pillow==11.0
pillow==11.0.0
"""
TEXTS = {"freeze": FREEZE, "pins": PINS}
READ = """(text) => {
  const { pins, loose, whole, nameless } = Pins.read(text);
  return { pins: Object.fromEntries(pins), loose: Object.fromEntries(loose), whole, nameless };
}"""


@pytest.mark.parametrize("name", TEXTS)
def test_pins_are_read_as_audit_reads_them(page: Page, tmp_path: Path, name: str) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(TEXTS[name])
    wanted = read(str(path))

    assert page.evaluate(READ, TEXTS[name]) == {
        "pins": wanted.pins,
        "loose": wanted.loose,
        "whole": wanted.whole,
        "nameless": wanted.nameless,
    }


DUMPS = [path.read_bytes() for path in sorted(Path(__file__).parents[2].glob("audit/dumps/*.txt"))]
GATHERED = """(texts) => texts.map((text) => {
  const gathered = Pins.gathering();
  Pins.readPasted(text, gathered);
  const { pins, loose, absent, python, unread } = Pins.settled(gathered);
  const names = [Object.fromEntries(pins), [...loose.keys()].sort(), [...absent].sort()];
  return [Pins.isPasted(text), ...names, python, unread.length];
})"""


def _gathered(text: str) -> list[object]:
    gathered = Gathering("", {})
    read_pasted(text, gathered)
    mine = gathered.installed("")
    unread = [note.split()[2] for note in mine.notes if note.startswith("Not read")]
    names = [mine.pins, sorted(mine.loose), sorted(mine.absent)]
    return [is_pasted(text, typed=True), *names, mine.python, int("".join(unread) or 0)]


def test_what_is_pasted_is_read_as_audit_reads_it(page: Page) -> None:
    texts = [dump.decode() for dump in DUMPS]

    @only_drawn(SEED, 300)
    @given(mutated(tuple(DUMPS)))
    def draw(content: bytes) -> None:
        texts.append(content.decode("utf-8", "replace"))

    draw()
    shown = page.evaluate(GATHERED, texts)
    differing = [
        (text, got, wanted)
        for text, got in zip(texts, shown, strict=True)
        if got != (wanted := _gathered(text))
    ]

    assert differing[:1] == []


ISSUE = """- `transformers` version: 4.51.3
- DeepSpeed version: not installed
- peft: 0.15.2
- flash_attn==2.7.4
- Numpy version: 2.1.0
accelerate from main, after 1.6
"""


def test_what_was_read_and_what_was_not_stands_in_one_line(blank: Page) -> None:
    blank.fill("#packages", ISSUE)
    said = _verdict(blank)

    assert blank.inner_text("#read") == (
        "Read: transformers 4.51.3, peft 0.15.2, flash-attn 2.7.4; no case depends on: numpy 2.1.0;"
        " not installed: deepspeed; not read: 1 line, such as 'accelerate from main, after 1.6'."
    )
    assert said.startswith("transformers 4.51.3 with peft 0.15.2: ")
    assert "known bugs can hit you" in said


def test_versions_are_ordered_and_written_as_pep_440_says(page: Page) -> None:
    chance = random.Random(SEED)  # noqa: S311
    ends = ["", "a1", "b2", "rc1", ".dev0", ".post1", ".post2.dev3", "a1.dev2", "+local.1", "+1.a"]
    texts = [
        f"{chance.choice(['', 'v', '1!'])}{chance.randrange(3)}.{chance.randrange(3)}"
        f"{chance.choice(['', '.0', '.1'])}{chance.choice(ends)}"
        for _ in range(400)
    ]
    odd = ["1.0-1", "1.0.PREVIEW_3", "1.0-rev", "01.02", "1.0+A_b-3", " 1.0 ", f"1.{'9' * 40}"]
    texts += odd
    bad = ["", "x", "1.x", "1..0", "1.0+", "1.0+é", "<img onerror=alert(1)>", "1.0 2"]
    ordered = page.evaluate(
        "(texts) => texts.map(Pep440.parse).sort(Pep440.compare).map(Pep440.text)", texts
    )

    assert ordered == [str(version) for version in sorted(map(Version, texts))]
    assert page.evaluate("(texts) => texts.map(Pep440.parse)", bad) == [None] * len(bad)


def _verdict(page: Page) -> str:
    page.wait_for_selector("#verdict:not(:empty)")
    return page.inner_text("#verdict")


def _hits(page: Page) -> set[str]:
    return set(page.eval_on_selector_all(".hit", "(hits) => hits.map((hit) => hit.dataset.case)"))


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_pasted_is_answered_in_one_sentence(
    blank: Page, evidence: KnownEvidence, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(TEXTS[name])
    blank.fill("#packages", TEXTS[name])
    said = _verdict(blank)
    found = audit(read(str(path)), evidence)
    bugs = len({hit.case.name for hit in found.hits if hit.case.block.kind == "bug"})

    assert said.startswith("transformers 4.51.3")
    assert f": {bugs} known bugs can hit you" in said
    assert _hits(blank) == {hit.case.name for hit in found.hits}


def test_a_link_carries_versions_and_question(page: Page, evidence: KnownEvidence) -> None:
    link = "transformers=4.51.3&peft=0.15.2&precision=bf16&model=qwen2.5-vl"
    said = _verdict(opened_with(page, link))
    mine = Installed(
        what="", form="", pins={"transformers": "4.51.3", "peft": "0.15.2"}, whole=False
    )
    cases = tuple(n for n, case in evidence.cases.items() if case.block.is_about({"qwen2.5-vl"}))
    found = audit(mine, evidence, AuditQuestion(cases=cases, precisions=(Precision.BF16,)))
    bugs = len({hit.case.name for hit in found.hits if hit.case.block.kind == "bug"})

    counted = f"{bugs} known bugs can hit you in bf16 for qwen2.5-vl"
    assert said.startswith(f"transformers 4.51.3 with peft 0.15.2: {counted}")
    assert _hits(page) == {hit.case.name for hit in found.hits}
    asked = sorted(link.split("&"))
    page.wait_for_url(lambda url: sorted(url.partition("#")[2].split("&")) == asked)
    assert page.input_value("#version-peft") == "0.15.2"


def test_a_hit_by_shared_code_says_which_family_was_measured(
    page: Page, evidence: KnownEvidence
) -> None:
    link = "transformers=4.51.3&peft=0.15.2&precision=bf16&model="
    measured, said = (_verdict(opened_with(page, f"{link}{name}")) for name in ("qwen2.5-vl", KIN))
    badges = page.locator(".hit .badge", has_text="by shared code").all_inner_texts()
    shared = {
        name: f"measured with {join(case.block.families)}"
        for name, case in evidence.cases.items()
        if KIN in case.block.same_code
    }
    hits = [shared[name] for name in evidence.cases if name in _hits(page) & {*shared}]

    assert "shared code" not in measured
    assert f", {len(hits)} by shared code (" in said
    assert badges == [f"by shared code ({families})" for families in hits]
    assert page.inner_text(".note:has-text('By shared code')") == (
        f"By shared code: {', '.join(f'{name} ({one})' for name, one in shared.items())}."
    )


def test_typed_versions_and_choices_stand_in_the_address(blank: Page) -> None:
    blank.fill("#version-transformers", "4.51.3")
    before = _verdict(blank)
    blank.select_option("#precision", "fp16")
    blank.select_option("#trigger", "adapter")
    after = _verdict(blank)

    assert before.startswith("transformers 4.51.3: ")
    assert " in fp16 (adapter)" in after or "no evidence" in after
    assert blank.url.endswith("#transformers=4.51.3&precision=fp16&trigger=adapter")


def test_a_list_that_is_not_whole_is_still_not_whole_in_its_link(blank: Page) -> None:
    blank.fill("#packages", "transformers==4.51.3\npeft>=0.14\n")
    said = _verdict(blank)
    link = blank.url.partition("#")[2]

    assert "unpinned=peft" in link
    assert "complete" not in link
    assert _verdict(opened_with(blank, link)) == said
    blank.fill("#packages", FREEZE)
    blank.wait_for_url("**complete=1**")


HOSTILE = "<img src=x onerror=window.harmed=1>"
UV = 'version = 1\n\n[[package]]\nname = "transformers"\nversion = "4.51.3"\n'
HASHED = "transformers==4.51.3 \\\n    --hash=sha256:00\n"
BAD_TEXTS = {
    "uv": (UV, "For uv.lock, run repromatrix audit uv.lock, or nox -s audit -- uv.lock in a"),
    "poetry": ('[[package]]\nname = "a"\n[metadata]\n', "run repromatrix audit poetry.lock"),
    "hashed": (HASHED, "run repromatrix audit requirements.txt"),
    "toml": ("[tool.black]\nline-length = 100\n", "For a file, run repromatrix audit FILE"),
    "html": (f"{HOSTILE}==1.0\n", "For a file, run repromatrix audit FILE"),
    "a traceback": ("Traceback (most recent call last):\n", "a traceback, without versions."),
    "prose": ("Hello, which bugs do I have?", "Line 1: cannot read 'Hello, which"),
    "nothing of ours": ("numpy==2.0\n", "It lists 1 package, but not transformers."),
    "hostile line": (f"transformers==4.51.3\nx{HOSTILE}\n", "Line 2: cannot read 'x<img"),
    "prototype": ("__proto__==1.0\nconstructor==2.0\n", "Line 1: cannot read '__proto__==1.0'"),
}


@pytest.mark.parametrize("kind", BAD_TEXTS)
def test_a_bad_text_gets_a_sentence_and_stays(blank: Page, kind: str) -> None:
    text, said = BAD_TEXTS[kind]
    blank.fill("#packages", text)
    blank.wait_for_selector("#fault p")

    assert said in blank.inner_text("#fault")
    assert blank.input_value("#packages") == text
    assert blank.inner_text("#verdict") == ""
    assert blank.evaluate("[window.harmed, {}.name]") == [None, None]


BAD_LINKS = {
    "nope=1": "The link names nothing that this page knows: nope.",
    "transformers=banana": "'banana' is not a version of transformers.",
    "transformers=4.51.3&precision=fp99": "'fp99' is not a precision that is known;",
    "transformers=4.51.3&model=__proto__": "'__proto__' is not a model that is known;",
    f"transformers={HOSTILE}": "'<img src=x onerror=window.harmed=1>' is not a version",
}
ODD_LINKS = {
    "transformers=99.0.0": "transformers 99.0.0 is newer than the newest measured release",
    "transformers=1.0": "transformers 1.0 is older than the oldest measured release",
    "transformers=4.51.99": "transformers 4.51.99 is no release that was measured, if it exists",
    f"transformers=4.51.3&{HOSTILE}=1": "The link names what no case is about: <img",
}


@pytest.mark.parametrize("link", BAD_LINKS)
def test_a_link_with_what_does_not_exist_gets_a_sentence(page: Page, link: str) -> None:
    opened_with(page, link).wait_for_selector("#fault p")

    assert BAD_LINKS[link] in page.inner_text("#fault")
    assert page.inner_text("#verdict") == ""
    assert page.evaluate("window.harmed") is None


@pytest.mark.parametrize("link", ODD_LINKS)
def test_a_version_that_nobody_measured_is_said_to_be_so(page: Page, link: str) -> None:
    said = _verdict(opened_with(page, link))

    assert ODD_LINKS[link] in page.inner_text("#answer")
    assert ("can hit you" in said) == ("=4.51" in link)
    assert page.evaluate("window.harmed") is None


PASTE = """(megabytes) => {
  const data = new DataTransfer();
  data.setData("text", "transformers==4.51.3\\n".repeat(megabytes * 1e6 / 21));
  const event = new ClipboardEvent("paste", { clipboardData: data, cancelable: true });
  document.getElementById("packages").dispatchEvent(event);
}"""


def test_ten_megabytes_are_refused_at_once(blank: Page) -> None:
    blank.fill("#packages", "mine==1.0")
    blank.wait_for_selector("#fault p")
    worked = processor_time(blank)
    blank.evaluate(PASTE, 10)
    blank.wait_for_selector("#fault :text('10000 kB')")

    assert "this page reads up to 100 kB: run repromatrix audit FILE" in blank.inner_text("#fault")
    assert blank.input_value("#packages") == "mine==1.0"
    assert worked() < 1


DROP = """([name, text]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([text], name));
  const event = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
  document.getElementById("packages").dispatchEvent(event);
}"""


def test_a_file_of_pins_that_is_dropped_is_read(blank: Page) -> None:
    blank.evaluate(DROP, ["requirements.txt", FREEZE])

    assert _verdict(blank).startswith("transformers 4.51.3")
    assert blank.input_value("#packages") == FREEZE


@pytest.mark.parametrize(
    ("name", "text"), [("uv.lock", UV), ("uv.lock", UV * 100_000), ("pixi.lock", "version: 6\n")]
)
def test_of_a_lock_that_is_dropped_the_page_names_the_command(
    blank: Page, name: str, text: str
) -> None:
    worked = processor_time(blank)
    blank.evaluate(DROP, [name, text])
    blank.wait_for_selector("#fault p")

    assert f"run repromatrix audit {name}, or nox -s audit -- {name} in" in blank.inner_text(
        "#fault"
    )
    assert worked() < 1


def test_an_answer_takes_less_than_a_fifth_of_a_second(blank: Page) -> None:
    blank.fill("#version-transformers", "4.51.3")
    _verdict(blank)
    asked = """(precision) => {
      const choice = document.getElementById("precision");
      choice.value = precision;
      choice.dispatchEvent(new Event("change"));
      document.body.getBoundingClientRect();
    }"""
    worked = processor_time(blank)
    chosen = ("", "bf16", "fp16", "fp32", "")
    for name in chosen:
        blank.evaluate(asked, name)

    assert worked() / len(chosen) < 0.2


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1440, "light"),
        pytest.param(1440, "dark", marks=pytest.mark.whole),
        pytest.param(390, "dark", marks=pytest.mark.whole),
    ],
)
def test_the_answer_leaves_nobody_out(page: Page, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    _verdict(opened_with(page, "transformers=4.51.3&peft=0.15.1&complete=1"))
    page.eval_on_selector_all("details", "(all) => all.forEach((one) => { one.open = true; })")
    wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    found = violations(page)
    page.set_viewport_size({"width": 1440, "height": 900})

    assert (found, wide) == ([], False)
