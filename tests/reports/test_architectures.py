"""The pages of the sweep: what stands in them, and where they are linked from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from one_case import ENVIRONMENTS, a_case, judged
from rendered import Markup, pages
from swept import LINE, line, numbers, record

from repromatrix.reports.build import render
from repromatrix.reports.pages.architecture import (
    ChangeLine,
    Stretch,
    address_of,
    architectures,
    architectures_page,
    outcomes_sheet,
)
from repromatrix.reports.pages.findings import findings_page
from repromatrix.reports.site import Published, SweptSite
from repromatrix.reports.text import Link
from repromatrix.runner.evidence.swept.history import SweepHistory, SweptRelease, history
from repromatrix.runner.evidence.swept.published import PublishedFinding, RefusedType
from repromatrix.runner.evidence.swept.records import ProbeStatus

if TYPE_CHECKING:
    from pathlib import Path

HOLDS, FAILS, SKIPPED = ProbeStatus.HOLDS, ProbeStatus.FAILS, ProbeStatus.SKIPPED
HISTORY = line(
    [record("llama", "static", HOLDS), record("llama", "tied", SKIPPED, "not tied")],
    [record("llama", "static", FAILS, "<b>size</b> 3"), record("llama", "tied", SKIPPED, "no")],
    [
        record("llama", "static", FAILS, "<b>size</b> 4"),
        record("llama", "tied", SKIPPED, "not tied"),
        numbers("gptj", 1.0),
    ],
)
"""static fails on llama since 4.50.0; gptj is there from 4.51.0."""
REFUSED = RefusedType("bark", "4.51.0", "inputs", "a forward that nobody wrote")
FINDINGS = (
    PublishedFinding("4.50.0", "4.49.0", "broken-1", "broken", "llama", "static", "<b>", "m:f"),
    PublishedFinding(
        "4.51.0", "", "broken-2", "bad in 16 bit", "llama gptj", "loaded-bf16", "no", ""
    ),
)


def test_a_page_says_where_a_probe_does_not_hold_and_since_when() -> None:
    gptj, llama = architectures(HISTORY, {"llama": Link(text="llama", href="model/llama.html")})
    (bad,) = llama.bad

    assert (llama.live, llama.is_bad, llama.cases) == (
        1,
        True,
        Link(text="llama", href="model/llama.html"),
    )
    assert (bad.name, bad.holds) == ("static", "A static cache changes no generated token.")
    assert bad.stretches == (
        Stretch(releases="4.49.0", width=1, shade="s-holds", says="", told="holds"),
        Stretch(
            releases="4.50.0 to 4.51.0",
            width=2,
            shade="s-many",
            says="✕",
            told="fails: ValueError: <b>size</b> 3",
        ),
    )
    assert bad.messages == (
        ("4.50.0 to 4.51.0: fails", "ValueError: <b>size</b> 3", "transformers.m:f"),
    )
    assert llama.changes == (
        ChangeLine(
            release="4.50.0",
            against="4.49.0",
            kind="broken",
            probes="static",
            says="ValueError: <b>size</b> 3",
            place="transformers.m:f",
        ),
    )
    assert "static" not in llama.holding
    assert ("not tied", ("tied",)) in llama.skipped
    assert (gptj.is_bad, gptj.changes, gptj.releases) == (False, (), ("4.51.0",))


def test_the_overview_counts_what_does_not_hold_on_each_release() -> None:
    found = architectures(HISTORY, {})
    page = architectures_page(HISTORY, found, [REFUSED])

    assert [[(one.says, one.width, one.shade) for one in each.stretches] for each in found] == [
        [("", 2, "s-none"), ("", 1, "s-holds")],
        [("", 1, "s-holds"), ("1", 2, "s-few")],
    ]
    assert (page.types, page.built, page.refused) == (300, 2, (REFUSED,))
    assert outcomes_sheet(HISTORY).rows[0] == (
        *("llama", "static", "4.50.0", "4.51.0", "fails"),
        *("ValueError: <b>size</b> 3", "transformers.m:f"),
    )


def test_findings_stand_by_release_the_newest_first() -> None:
    page = findings_page(HISTORY, FINDINGS)

    assert [(one.release, one.against, one.changed, one.says) for one in page.releases] == [
        ("4.51.0", "4.50.0", 0, "nothing changed"),
        ("4.50.0", "4.49.0", 1, "broken: 1"),
    ]
    assert (page.newest, page.measured, [one.name for one in page.live]) == (
        "4.51.0",
        "2 architectures",
        ["broken-2"],
    )


def classes(*names: str) -> SweepHistory:
    """Return what was found of further classes: the last one fails on 4.50.0."""
    return history(
        [SweptRelease(name, "e1", "x86_64", 3, ("static",), ()) for name in LINE[:2]],
        {
            name: {
                one.key: one
                for kind in names
                for one in [record(kind, "outputs-bf16", state if kind == names[-1] else HOLDS)]
            }
            for name, state in zip(LINE[:2], (HOLDS, FAILS), strict=True)
        },
        [(name, name.partition(":")[2], "4.49.0") for name in names],
    )


FURTHER = classes("llama:LlamaForTokenClassification", "llama:LlamaModel")


def test_the_page_of_an_architecture_lists_its_further_classes() -> None:
    gptj, llama = architectures(HISTORY, {}, FURTHER)
    refused = RefusedType("llama:LlamaForDecision", "4.51.0", "inputs", "no")
    page = architectures_page(HISTORY, [gptj, llama], [REFUSED], [refused])

    assert (gptj.classes, [(one.class_name, one.live) for one in llama.classes]) == (
        (),
        [("LlamaForTokenClassification", 0), ("LlamaModel", 1)],
    )
    assert llama.classes[1].bad[0].name == "outputs-bf16"
    assert (page.classes, page.refused_classes) == (2, (refused,))
    assert address_of("llama:LlamaModel") == "architecture/llama.html#LlamaModel"


def test_a_release_on_which_some_were_run_is_no_column_of_the_overview() -> None:
    some = HISTORY.releases["4.50.0"]._replace(chosen=("llama",))
    known = dataclasses.replace(HISTORY, releases={**HISTORY.releases, "4.50.0": some})
    page = architectures_page(known, found := architectures(known, {}), ())

    assert (page.releases, page.between) == (("4.49.0", "4.51.0"), 1)
    assert [one.width for one in found[1].stretches] == [1, 1]
    assert found[1].releases == ("4.49.0", "4.50.0", "4.51.0")
    assert [one.run for one in findings_page(known, FINDINGS).releases] == [0, 1]


@pytest.fixture
def site(tmp_path: Path) -> dict[str, bytes]:
    """Return the files of a site with this history."""
    further = PublishedFinding(
        *("4.50.0", "4.49.0", "broken-3", "broken", "llama:LlamaModel", "outputs-bf16", "no", "")
    )
    swept = SweptSite(
        history=HISTORY,
        findings=FINDINGS,
        refused=(REFUSED,),
        classes=SweptSite(history=FURTHER, findings=(further,)),
    )
    case = a_case()
    told = Published(swept=swept)
    render({case.name: case}, ENVIRONMENTS, judged(), tmp_path, published=told)
    return pages(tmp_path)


def test_the_site_leads_from_the_first_page_to_an_architecture(site: dict[str, bytes]) -> None:
    first = site["index.html"].decode()

    assert "4.51.0 changed 0 of" in first
    assert "1 finding in 16 bit on 4.51.0" in first
    for name in ("architectures.html", "findings.html", "architecture/llama.html"):
        page = site[name].decode()
        assert "<b>size</b>" not in page
        links = [
            attrs["href"].partition("#")[0]
            for tag, attrs in Markup(page).found
            if tag == "a" and "://" not in attrs.get("href", "://")
        ]
        folder = "architecture/" if "/" in name else ""
        lost = {link for link in links if link and _target(folder, link) not in site}
        assert {link for link in lost if "release/" not in link} == set()


def test_a_finding_of_a_further_class_leads_to_its_place(site: dict[str, bytes]) -> None:
    assert b'href="architecture/llama.html#LlamaModel"' in site["findings.html"]
    assert b'id="LlamaModel"' in site["architecture/llama.html"]
    assert b'id="LlamaForTokenClassification"' in site["architecture/llama.html"]


def _target(folder: str, link: str) -> str:
    return link.removeprefix("../") if link.startswith("../") else f"{folder}{link}"


def test_a_site_without_a_sweep_says_so_and_has_no_line_on_its_first_page(tmp_path: Path) -> None:
    case = a_case()
    render({case.name: case}, ENVIRONMENTS, judged(), tmp_path)

    assert b"Nothing has been swept yet" in (tmp_path / "architectures.html").read_bytes()
    assert b'class="swept"' not in (tmp_path / "index.html").read_bytes()
