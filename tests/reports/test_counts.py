"""The numbers of known bugs: the same on every page, on badges, in Compare and in `audit`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import example_site
import pytest
from real_site import surveyed
from rendered import broken_links

from repromatrix.reports.sections.status import columns, in_column
from repromatrix.runner.audit import asking, index
from repromatrix.runner.audit.hits import audit
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import AuditQuestion
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path


def number(pattern: str, text: str) -> int:
    """Return the number that a pattern finds; 0 where it finds none."""
    found = re.search(pattern, text, re.DOTALL)
    return int(found[1].replace(",", "")) if found else 0


def told(folder: Path, release: str) -> dict[str, int]:
    """Return how many known bugs of a release each place names."""
    text = (folder / "data" / "compare.js").read_text()
    data = json.loads(text.partition(" = ")[2].removesuffix(";\n"))
    place = data["releases"].index(release)
    badge = json.loads((folder / "badge" / "release" / f"{release}.json").read_text())
    [row] = re.findall(rf'href="release/{release}.html".*', (folder / "releases.html").read_text())
    return {
        "page": number(
            r'class="lede">([\d,]+) known', (folder / f"release/{release}.html").read_text()
        ),
        "badge": number(r"^([\d,]+) of", badge["message"]),
        "releases": number(r'class="bugs"><b>([\d,]+)', row),
        "compare": sum(bug[place] == "o" for case in data["cases"] for bug in case["bugs"]),
    }


def holds_together(folder: Path) -> None:
    """Hold that the pages of a drawn site name the same numbers, and that no link is broken."""
    first = (folder / "index.html").read_text()
    status = re.search(r'id="status">.*?</p>', first, re.DOTALL)
    assert status is not None
    newest = re.search(r'href="release/([^"]+)\.html"', status[0])
    assert newest is not None
    names = [path.stem for path in (folder / "release").glob("[0-9]*.html")]
    counts = {name: told(folder, name) for name in names}
    packages = {
        path.stem: number(r"\D(\d+) open", lede)
        or number(r"(\d+) known bugs?, (?:all )?open", lede)
        for path in (folder / "package").glob("*.html")
        for lede in re.findall(r'class="lede">(.*)</p>', path.read_text())
    }
    at_fault = dict(re.findall(r'at-fault:[\w-]+">([\w-]+)</a> (\d+)', status[0]))

    assert {name: {*found.values()} for name, found in counts.items()} == {
        name: {found["page"]} for name, found in counts.items()
    }
    here = number(r": ([\d,]+) known bug", status[0])
    assert here == counts[newest[1]]["page"]
    beside = number(r"(\d+) more open", status[0])
    assert sum(map(int, at_fault.values())) == here + beside
    assert at_fault == {name: str(bugs) for name, bugs in packages.items() if bugs}
    assert broken_links(folder) == set()


def test_the_example_site_names_the_same_numbers_everywhere(tmp_path: Path) -> None:
    example_site.draw(tmp_path)
    holds_together(tmp_path)


def test_the_published_site_names_the_same_numbers_everywhere(real_site: Path) -> None:
    holds_together(real_site)


@pytest.mark.whole
def test_audit_counts_the_bugs_of_a_release_as_its_page_does() -> None:
    view, known = surveyed(), asking.known_of(index.load(Paths()), AuditQuestion(), pytest.fail)
    for release in (one for one in view.columns if one.source is Source.RELEASE):
        held = [view.by_name[name] for name in columns(view)[release.name]]
        pins = {name: version for one in held for name, version in one.pins.items()}
        asked = {"markers": release.markers, "python": release.python}
        mine = Installed(what="all", form="lock", pins=pins, **asked)  # type: ignore[arg-type]
        found = audit(mine, known).hits
        counted = in_column(view, release.name, (Device.CPU,))

        assert {(hit.case.name, hit.title) for hit in found if not hit.is_intended} == {
            (bug.case, bug.title) for bug in counted.open
        }
        assert sum(hit.is_intended for hit in found) == len(counted.intended)
