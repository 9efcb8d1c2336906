"""The feeds: an entry per new case, break and fix, for everything and for each page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin
from xml.etree import ElementTree as ET

from hostile_site import HOSTILE
from one_case import (
    BROKE_AGAIN,
    CASE,
    ENVIRONMENTS,
    HEADLINE,
    PUBLICATION,
    fake_run,
    judged,
    pinned,
    surveyed,
)
from rendered import Markup

from repromatrix.reports.build import render
from repromatrix.reports.exports.feed import FeedEntry, entries, feed, written
from repromatrix.reports.pages.changes import changes
from repromatrix.reports.sections.release_changes import between
from repromatrix.reports.site import Published
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.compare.snapshots import SnapshotRecord

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.compare.snapshots import Changed
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

ATOM = "{http://www.w3.org/2005/Atom}"
PUBLISHED = Published(publications={PUBLICATION.name: PUBLICATION})


def published_run(cell: Cell) -> Observation | None:
    seen = fake_run(cell)
    return replace(seen, source=PUBLICATION.name) if seen else None


def news(published: Published = PUBLISHED, setting: str = "On a CPU.") -> tuple[FeedEntry, ...]:
    found = surveyed(published_run)
    return entries(found, between(found), changes(found, published), published, setting)


def recorded(*changed: Changed, new: tuple[tuple[str, int], ...] = ()) -> Published:
    record = SnapshotRecord(
        publication="2026-12-01", date="2026-12-01", against="2026-11-21", changes=changed, new=new
    )
    return replace(PUBLISHED, records=(record,))


FIXED = FeedEntry(
    key="fixed cache_float in 4.51.0",
    case="cache_float",
    title="Fixed in transformers 4.51.0: The cache has no float",
    href="release/4.51.0.html#fixed",
    date="2026-11-21",
    text=f"bf16: {HEADLINE} → passes\nOn a CPU.",
)
NEW = FeedEntry(
    key="new cache_float",
    case="cache_float",
    title="New case: The cache has no float",
    href="case/cache_float.html",
    date="2026-11-21",
    text="bf16 (cpu): 4.50.0 to 4.50.1, fixed in 4.51.0\nOn a CPU.",
)


def test_a_new_case_a_break_and_a_fix_have_an_entry_each() -> None:
    assert news() == (NEW, FIXED)


def test_an_entry_names_the_commit_that_was_measured_and_keeps_its_id() -> None:
    found = surveyed(published_run, [pinned("fix", "4.50.1", "4.51.0")])
    told = entries(found, between(found), changes(found, PUBLISHED), PUBLISHED, "On a CPU.")

    lines = (
        f"bf16: {HEADLINE} → passes",
        "Fixed by commit bbbbbbbbbbbb (2025-03-28, transformers#8).",
        "On a CPU.",
    )
    assert told == (NEW, replace(FIXED, text="\n".join(lines)))
    assert told[1].id == FIXED.id


def test_what_nobody_published_is_no_news() -> None:
    found = surveyed()

    assert entries(found, between(found), changes(found, PUBLISHED), PUBLISHED, "") == ()


def test_what_changed_when_it_was_measured_again_is_told_by_case_and_kind() -> None:
    fixed = replace(
        BROKE_AGAIN, change=CellChange.FIXED, precision="fp16", before="fails", after="passes"
    )
    gone = replace(BROKE_AGAIN, case="other")
    found = news(recorded(BROKE_AGAIN, replace(BROKE_AGAIN, precision="fp16"), fixed, gone))

    again = [(one.title, one.href, one.date, one.text.splitlines()[:-1]) for one in found[:-2]]
    assert again == [
        (
            *("Broken, measured again: cache_float", "case/cache_float.html", "2026-12-01"),
            [
                f"{precision} on 4.50.0 to 4.50.1, lost: passes → {HEADLINE}"
                for precision in ("bf16", "fp16")
            ],
        ),
        (
            *("Fixed, measured again: cache_float", "case/cache_float.html", "2026-12-01"),
            ["fp16 on 4.50.0 to 4.50.1, lost: fails → passes"],
        ),
        (
            *("Broken, measured again: other", "changes.html#2026-12-01", "2026-12-01"),
            [f"bf16 on 4.50.0 to 4.50.1, lost: passes → {HEADLINE}"],
        ),
    ]
    assert found[-2:] == (NEW, FIXED)


def test_a_publication_that_changes_nothing_is_no_news() -> None:
    assert news(recorded()) == (NEW, FIXED)


def test_a_case_is_new_where_a_publication_added_all_that_it_has() -> None:
    def day(cells: int) -> str:
        found = news(recorded(new=(("cache_float", cells),)))
        return next(one.date for one in found if one.key == NEW.key)

    assert (day(27), day(26)) == ("2026-12-01", "2026-11-21")


def test_a_feed_has_the_newest_entries() -> None:
    many = tuple(replace(NEW, key=str(number)) for number in range(300))

    assert len(feed(many, PUBLISHED).entries) == 100
    assert len(feed(many, PUBLISHED, path="feed/case/cache_float.xml").entries) == 20
    assert feed([], PUBLISHED).updated == "2026-11-21"
    assert feed([], Published()).updated == "1970-01-01"


def _links(node: ET.Element) -> list[str]:
    return [link.get("href", "") for link in node.iter(f"{ATOM}link")]


def test_links_are_absolute_with_an_address_and_lead_there_from_the_file_without() -> None:
    at = replace(PUBLISHED, base_url="https://x.org/r/")
    shown = {"path": "feed/case/cache_float.xml", "href": "case/cache_float.html"}
    absolute, relative = (
        ET.fromstring(written(feed([NEW], one, **shown)))  # noqa: S314 - our own bytes
        for one in (at, PUBLISHED)
    )
    expected = [
        "https://x.org/r/feed/case/cache_float.xml",
        "https://x.org/r/case/cache_float.html",
        "https://x.org/r/case/cache_float.html",
    ]
    here = "https://x.org/r/feed/case/cache_float.xml"

    assert _links(absolute) == expected
    assert [urljoin(here, link) for link in _links(relative)] == expected
    assert [one.text for one in absolute.iter(f"{ATOM}id")] == [
        one.text for one in relative.iter(f"{ATOM}id")
    ]


def test_hostile_text_stays_text_in_a_feed() -> None:
    root = ET.fromstring(written(feed(news(setting=HOSTILE), PUBLISHED)))  # noqa: S314 - our own bytes
    contents = [one.text or "" for one in root.iter(f"{ATOM}content")]

    assert contents
    assert [text for text in contents if "<script" in text] == []


def test_cases_models_and_packages_link_to_a_feed_of_their_own(tmp_path: Path) -> None:
    rows = judged(published_run)
    render({CASE.name: CASE}, ENVIRONMENTS, rows, tmp_path, published=PUBLISHED)
    names = ("case/cache_float", "model/gemma3", "package/transformers")
    linked = {
        name: [
            attributes["href"]
            for tag, attributes in Markup((tmp_path / f"{name}.html").read_text()).found
            if tag == "link" and attributes.get("rel") == "alternate"
        ]
        for name in names
    }
    counted = {
        name: len(list(ET.parse(tmp_path / "feed" / f"{name}.xml").iter(f"{ATOM}entry")))  # noqa: S314
        for name in names
    }

    assert linked == {name: ["../feed.xml", f"../feed/{name}.xml"] for name in names}
    assert counted == dict.fromkeys(names, 2)
