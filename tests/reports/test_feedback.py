"""Who makes the site, and how a reader reports what is wrong on it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from one_case import CASE, ENVIRONMENTS, judged
from rendered import Markup
from ruamel.yaml import YAML

from repromatrix.reports.build import render
from repromatrix.reports.drawing import new_case, wrong_cell
from repromatrix.reports.site import Published
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"
SOURCE = "https://github.com/someone/repromatrix"
LICENCE = "https://www.apache.org/licenses/LICENSE-2.0"


def _site(folder: Path, source: str = "") -> dict[str, Markup]:
    published = Published(source=source)
    render({CASE.name: CASE}, ENVIRONMENTS, judged(), folder, published=published)
    return {
        path.relative_to(folder).as_posix(): Markup(path.read_text())
        for path in folder.rglob("*.html")
    }


def _links(page: Markup) -> list[str]:
    return [attributes["href"] for tag, attributes in page.found if tag == "a"]


def _asked(address: str) -> dict[str, str]:
    return {key: value for key, [value] in parse_qs(urlsplit(address).query).items()}


def test_a_report_names_the_form_and_fills_in_what_the_page_knows() -> None:
    address = wrong_cell(SOURCE, {"case": "a b&c", "release": "4.50.0"})

    assert address.startswith(f"{SOURCE}/issues/new?")
    assert _asked(address) == {
        "template": "wrong-cell.yml",
        "title": "Wrong cell: a b&c on 4.50.0",
        "case": "a b&c",
        "release": "4.50.0",
    }
    assert _asked(new_case(SOURCE)) == {"template": "new-case.yml", "title": "New case: "}


def test_every_field_that_a_link_fills_in_is_in_the_form() -> None:
    form = YAML(typ="safe").load(FORMS / "wrong-cell.yml")

    assert {"case", "release", "precision", "workaround"} <= {item["id"] for item in form["body"]}
    assert (FORMS / "new-case.yml").exists()


def test_every_page_has_both_forms_filled_in_with_what_it_is_about(tmp_path: Path) -> None:
    found = {
        name: [_asked(link) for link in _links(page) if "/issues/new?" in link]
        for name, page in _site(tmp_path, SOURCE).items()
    }
    template = {"template": "wrong-cell.yml"}
    propose = {"template": "new-case.yml", "title": "New case: "}

    assert found["case/cache_float.html"] == [
        {**template, "title": "Wrong cell: cache_float", "case": "cache_float"},
        propose,
    ]
    assert found["release/4.50.0.html"] == [
        {**template, "title": "Wrong cell: 4.50.0", "release": "4.50.0"},
        propose,
    ]
    # The search of the first page proposes a case where nothing fits.
    assert found.pop("index.html")[::2] == [propose, propose]
    assert {name for name, asked in found.items() if asked[1:] != [propose]} == set()


def test_without_an_address_of_the_repository_nothing_is_linked_and_the_forms_are_named(
    tmp_path: Path,
) -> None:
    pages = _site(tmp_path)
    texts = {name: (tmp_path / name).read_text() for name in pages}

    assert [name for name, text in texts.items() if ">Source<" in text] == []
    assert [
        name for name, text in texts.items() if "ISSUE_TEMPLATE/wrong-cell.yml" not in text
    ] == []
    assert [name for name, page in pages.items() if LICENCE not in _links(page)] == []
    assert [
        name for name, text in texts.items() if "Made by the repromatrix project" not in text
    ] == []


def test_the_licence_that_pages_name_is_that_of_the_repository() -> None:
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()
