"""`report`: where the site will lie, and when there is nothing to do."""

from __future__ import annotations

import io
import json
import pickle
import threading
from typing import TYPE_CHECKING

import pytest
import rendered
import small_checkout
from factories import BREAKS, case_text
from rich.console import Console
from small_checkout import Toy

from repromatrix.reports import build
from repromatrix.reports.parts import Memory
from repromatrix.runner import site
from repromatrix.runner.cli.report import render_site
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import kept

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.paths import Paths


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    return small_checkout.checkout(tmp_path)


def _rendered(places: Paths, base_url: str = "", source: str = "") -> str:
    told = io.StringIO()
    render_site(places, Console(file=told), base_url, source)
    return told.getvalue()


@pytest.fixture
def toy(places: Paths) -> Toy:
    """Return a case that was measured and published elsewhere."""
    toy = Toy(places, case_text(BREAKS)).measured("+----+").published()
    places.store.unlink()
    return toy


def test_a_site_is_drawn_once_for_each_address(toy: Toy) -> None:
    first, again = _rendered(toy.places), _rendered(toy.places)
    elsewhere = _rendered(toy.places, "https://example.org/site")

    assert "nothing had changed" not in first
    assert "nothing had changed" in again
    assert "nothing had changed" not in elsewhere


def test_a_site_that_a_variable_moved_leaves_nothing_in_the_checkout(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {*toy.places.state.rglob("*")}
    monkeypatch.setenv("REPROMATRIX_SITE", str(tmp_path / "elsewhere"))
    _rendered(toy.places)

    assert (tmp_path / "elsewhere" / "index.html").exists()
    assert {*toy.places.state.rglob("*")} == before
    assert not [*tmp_path.rglob("*.lock")]


def test_feed_entries_and_badges_have_the_address_and_links_between_pages_do_not(toy: Toy) -> None:
    _rendered(toy.places, "https://example.org/site")
    site = toy.places.site
    entry = json.loads((site / "osv" / "x_REPROMATRIX-toy-breaks.json").read_text())
    pages = {path.name: path.read_text() for path in site.rglob("*.html")}
    badge = "https://example.org/site/badge/case/toy_breaks.svg"

    assert entry["references"][-1] == {
        "type": "EVIDENCE",
        "url": "https://example.org/site/case/toy_breaks.html",
    }
    assert 'href="https://example.org/site/feed.xml"' in (site / "feed.xml").read_text()
    assert (
        f"[![Badge of toy_breaks]({badge})](https://example.org/site/case/toy_breaks.html)"
        in (pages["toy_breaks.html"])
    )
    absolute = [name for name, page in pages.items() if '="https://example.org/site' in page]
    assert absolute == ["404.html"]


@pytest.mark.parametrize("address", ["example.org", "file:///x", "https://x y"])
def test_what_is_no_address_is_refused(toy: Toy, address: str) -> None:
    with pytest.raises(RunnerError, match="--base-url"):
        _rendered(toy.places, address)
    with pytest.raises(RunnerError, match="--source"):
        _rendered(toy.places, source=address)


def test_every_page_links_to_the_repository_where_its_address_is_given(toy: Toy) -> None:
    _rendered(toy.places, source="https://github.com/someone/repromatrix.git")
    pages = {path.name: path.read_text() for path in toy.places.site.rglob("*.html")}
    link = '<a href="https://github.com/someone/repromatrix" rel="noreferrer">Source</a>'

    assert [name for name, page in pages.items() if link not in page] == []


def test_tables_that_an_older_version_left_are_removed_and_nothing_of_others(toy: Toy) -> None:
    folder = toy.places.site
    folder.mkdir(parents=True)
    (folder / "mine.csv").write_text("before it was a site")
    _rendered(toy.places)
    assert (folder / "mine.csv").exists()

    for name in ("cells.json", "data/old.js", "CNAME"):
        (folder / name).write_text("old")
    _rendered(toy.places, "https://example.org")
    left = {name for name in ("cells.json", "data/old.js", "CNAME") if (folder / name).exists()}

    assert left == {"CNAME"}


@pytest.mark.parametrize(
    "damaged",
    [b"", b"no pickle", pickle.dumps(Memory())],
    ids=["empty", "other bytes", "of an older version"],
)
def test_a_damaged_memory_of_what_was_drawn_is_none(damaged: bytes, toy: Toy) -> None:
    _rendered(toy.places)
    expected = rendered.pages(toy.places.site)
    memory = toy.places.drawn
    memory.write_bytes(damaged)
    (toy.places.site / "case" / "toy_breaks.html").write_text("other")
    (toy.places.site / ".identity").write_text("other")
    _rendered(toy.places)

    assert rendered.pages(toy.places.site) == expected


def _remembered(toy: Toy) -> object:
    return kept.read(toy.places.drawn, site._drawn_state(toy.places))


def test_a_memory_of_another_site_is_none(toy: Toy) -> None:
    _rendered(toy.places)
    assert _remembered(toy)

    (toy.places.site / ".identity").write_text("drawn elsewhere")
    assert _remembered(toy) is None


def test_a_drawing_that_ended_early_leaves_no_site_that_is_taken_for_whole(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    _rendered(toy.places)
    with monkeypatch.context() as patched:
        patched.setattr(build, "render", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            _rendered(toy.places, "https://example.org")
    expected = _rendered(toy.places)

    assert "nothing had changed" not in expected
    assert _remembered(toy)


def test_nobody_draws_a_site_while_another_does(toy: Toy) -> None:
    _rendered(toy.places)
    with site._alone(toy.places):
        waiting = threading.Thread(target=_rendered, args=(toy.places, "https://example.org"))
        waiting.start()
        waiting.join(1)
        assert waiting.is_alive()
        assert "https://example.org" not in (toy.places.site / "feed.xml").read_text()
    waiting.join()

    assert "https://example.org" in (toy.places.site / "feed.xml").read_text()
