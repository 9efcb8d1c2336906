"""What can be downloaded: the page of data, the archive of OSV entries, badges, a lost page."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from one_case import CASE, ENVIRONMENTS, PUBLICATION, fake_run, judged, observed, surveyed
from rendered import Markup, pages

from repromatrix.reports.build import render
from repromatrix.reports.exports import osv
from repromatrix.reports.exports.badges import badges
from repromatrix.reports.exports.rows import BESIDE, COLUMNS, as_csv, listed
from repromatrix.reports.pages.data import data_page
from repromatrix.reports.sections.provenance import Settings
from repromatrix.reports.site import Published
from repromatrix.runner.model.outcomes import Outcome, Precision

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

PUBLISHED = Published(publications={PUBLICATION.name: PUBLICATION})


def published_run(cell: Cell) -> Observation | None:
    seen = fake_run(cell)
    return replace(seen, source=PUBLICATION.name) if seen else None


@pytest.fixture
def site(tmp_path: Path) -> dict[str, bytes]:
    rows = judged(published_run)
    render({CASE.name: CASE}, ENVIRONMENTS, rows, tmp_path, published=PUBLISHED)
    return pages(tmp_path)


def test_the_page_of_data_links_to_every_file_that_is_no_page(site: dict[str, bytes]) -> None:
    found = Markup(site["data.html"].decode()).found
    links = {attributes["href"] for tag, attributes in found if tag == "a"}
    of_pages = ("badge/", "case/", "data/", "download/", "model/", "package/", "release/")
    files = {
        name
        for name in site
        if name.endswith((".csv", ".gz", ".json", ".xml", ".xz", ".zip"))
        and not name.startswith(of_pages)
    }

    assert files - links == set()
    assert {"osv/all.zip", "osv/index.json", "cells.csv.gz", "feed/case/cache_float.xml"} <= files


def test_the_page_of_data_names_a_command_and_badges_with_their_page_and_markdown() -> None:
    found = surveyed()
    [badge] = [one for one in badges(found, Settings(found)) if one.path == "badge/release/4.50.0"]

    published = Published(base_url="https://x.org/r/", source="https://github.com/x/r")
    page = data_page([], [], [badge], published)
    assert page["command"].endswith("git+https://github.com/x/r repromatrix audit uv.lock")
    assert page["badges"][0]["markdown"] == (
        "[![Badge of 4.50.0](https://x.org/r/badge/release/4.50.0.svg)]"
        "(https://x.org/r/release/4.50.0.html)"
    )


def test_the_archive_has_every_entry(site: dict[str, bytes]) -> None:
    entries = {name.removeprefix("osv/") for name in site if name.startswith("osv/x_")}
    archive = zipfile.ZipFile(io.BytesIO(site["osv/all.zip"]))

    assert {name: archive.read(name) for name in archive.namelist()} == {
        name: site[f"osv/{name}"] for name in entries
    }


def test_an_archive_says_nothing_of_when_it_was_made(site: dict[str, bytes]) -> None:
    archive = zipfile.ZipFile(io.BytesIO(site["osv/all.zip"]))

    assert {one.date_time for one in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert {(one.create_system, one.external_attr) for one in archive.infolist()} == {
        (3, 0o644 << 16)
    }
    # Four bytes behind the first four are the time of a gzip file.
    assert site["cells.csv.gz"][4:8] == bytes(4)


def test_the_packed_cells_are_those_of_the_table(site: dict[str, bytes]) -> None:
    text = gzip.decompress(site["cells.csv.gz"]).decode()
    columns, *rows = csv.reader(io.StringIO(text))

    assert columns == [*COLUMNS, *BESIDE]
    printed = as_csv(*listed(judged(), [one.name for one in ENVIRONMENTS]))
    assert [row[: len(COLUMNS)] for row in rows] == [*csv.reader(io.StringIO(printed))][1:]


def test_precisions_that_are_affected_alike_are_one_object() -> None:
    def run(cell: Cell) -> Observation | None:
        seen = published_run(cell)
        if seen is None or cell.workaround or cell.precision is Precision.FP32:
            return seen
        same = fake_run(cell._replace(precision=Precision.BF16))
        assert same is not None
        return replace(seen, outcome=same.outcome, failed=same.failed)

    [both_entries] = osv.entries_of(surveyed(run), CASE, PUBLISHED, [])
    [one_entry] = osv.entries_of(surveyed(published_run), CASE, PUBLISHED, [])
    [both], [one] = both_entries["affected"], one_entry["affected"]

    assert both["ecosystem_specific"] == {"precisions": ["bf16", "fp16"], "device": "cpu"}
    assert one["ecosystem_specific"] == {"precisions": ["bf16"], "device": "cpu"}
    assert {key: both[key] for key in ("package", "ranges", "versions")} == {
        key: one[key] for key in ("package", "ranges", "versions")
    }


def test_main_has_a_badge_only_where_it_was_measured(tmp_path: Path) -> None:
    def run(cell: Cell) -> Observation | None:
        if cell.environment != "main":
            return fake_run(cell)
        return observed(cell, Outcome.PASSES)

    found = surveyed(run)
    measured = {badge.path: badge.message for badge in badges(found, Settings(found))}
    bare = surveyed()
    render({CASE.name: CASE}, ENVIRONMENTS, judged(run), tmp_path)

    assert measured["badge/release/main"].startswith("0 of 1 bug fail")
    assert "badge/release/main" not in {one.path for one in badges(bare, Settings(bare))}
    assert "badge/release/main.svg" in (tmp_path / "release" / "main.html").read_text()


@pytest.mark.parametrize(
    ("base_url", "root"), [("https://x.org/r/", "https://x.org/r/"), ("", "/")]
)
def test_the_lost_page_works_below_any_address(tmp_path: Path, base_url: str, root: str) -> None:
    render({CASE.name: CASE}, ENVIRONMENTS, (), tmp_path, published=Published(base_url=base_url))
    page = (tmp_path / "404.html").read_text()
    addresses = {
        attributes[key]
        for tag, attributes in Markup(page).found
        for key in ("href", "src")
        if key in attributes and not attributes[key].startswith(("data:", "https://www.apache"))
    }

    assert "There is no such page" in page
    assert {one for one in addresses if not one.startswith(root)} == set()
    assert {one for one in addresses if not (tmp_path / one.removeprefix(root)).exists()} == set()
