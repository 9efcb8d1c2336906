"""The documents of `docs/` as pages, and what stands in backticks on any page."""

from __future__ import annotations

import posixpath
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from one_case import CASE, ENVIRONMENTS, judged
from rendered import Markup

from repromatrix.reports.build import Published, render
from repromatrix.reports.drawing import with_code
from repromatrix.reports.pages.documents import documents, pictures
from repromatrix.runner import project
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = "https://github.com/someone/repromatrix"
DOCUMENT = """# The `first` one

<!-- bench: x -->
It says *this*, with `code`. And <b>that</b>.

## Its parts

See [the second](second.md#part), [below](decisions/deep.md), [itself](#its-parts),
[a case](../cases/a.py), [the web](https://example.org/) and [no script](javascript:alert(1)).

![A picture](table.png)

| a | b |
| --- | ---: |
| 1 | 2 |

```sh
nox -s matrix
```

```
passed < failed
```

## Its parts
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "decisions").mkdir(parents=True)
    (docs / "first.md").write_text(DOCUMENT)
    (docs / "second.md").write_text("# Second\n\n## Part\n")
    (docs / "decisions" / "deep.md").write_text("# Deep\n\nBack to [the first](../first.md).\n")
    (docs / "table.png").write_bytes(b"a picture")
    return tmp_path


def _links(body: str) -> list[str]:
    return [found["href"] for tag, found in Markup(body).found if tag == "a" and "href" in found]


def test_documents_become_pages_those_of_subfolders_last(checkout: Path) -> None:
    found = documents(checkout, "")

    assert [(one.path, one.source, one.title, one.says) for one in found] == [
        ("docs/first.html", "docs/first.md", "The `first` one", "It says this, with `code`."),
        ("docs/second.html", "docs/second.md", "Second", ""),
        ("docs/decisions/deep.html", "docs/decisions/deep.md", "Deep", "Back to the first."),
    ]
    assert documents(None, "") == ()


def test_links_between_documents_lead_to_pages_and_others_to_the_repository(checkout: Path) -> None:
    first, _, deep = documents(checkout, SOURCE)

    assert _links(first.body) == [
        "#its-parts",
        "second.html#part",
        "decisions/deep.html",
        "#its-parts",
        f"{SOURCE}/blob/HEAD/cases/a.py",
        "https://example.org/",
        "#its-parts-1",
    ]
    assert _links(deep.body) == ["../first.html"]


def test_without_a_repository_a_link_to_a_file_is_plain_text(checkout: Path) -> None:
    body = documents(checkout, "")[0].body

    assert "<span>a case</span>" in body
    assert [link for link in _links(body) if "cases" in link] == []


def test_no_html_no_script_and_no_style_comes_out_of_a_document(checkout: Path) -> None:
    body = documents(checkout, SOURCE)[0].body
    tags = {tag for tag, _ in Markup(body).found}

    assert "&lt;b&gt;that" in body
    assert "bench: x" not in body
    assert {"b", "script"} & tags == set()
    assert "style=" not in body
    assert '<td class="end">2</td>' in body


def test_code_of_a_shell_can_be_copied_and_every_block_scrolls_by_keyboard(checkout: Path) -> None:
    body = documents(checkout, "")[0].body

    assert '<pre tabindex="0" data-copy><code>nox -s matrix\n</code></pre>' in body
    assert '<pre tabindex="0"><code>passed &lt; failed\n</code></pre>' in body
    assert '<div class="wide" tabindex="0" role="region" aria-label="Table 1 of' in body


def test_pictures_that_a_document_shows_are_copied_and_no_other_file(checkout: Path) -> None:
    (checkout / "docs" / "second.md").write_text("![x](../pyproject.toml) ![y](lost.png)\n")
    (checkout / "pyproject.toml").write_text("secret")
    found = documents(checkout, "")

    assert dict(pictures(checkout, found)) == {"docs/table.png": b"a picture"}


def test_every_page_links_to_the_documents_and_every_link_of_theirs_leads_somewhere(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site"
    published = Published(checkout=ROOT)
    render({CASE.name: CASE}, ENVIRONMENTS, judged(), site, published=published)
    pages = {path.relative_to(site).as_posix(): path for path in site.rglob("*.html")}
    ids = {
        name: {found["id"] for _, found in Markup(path.read_text()).found if "id" in found}
        for name, path in pages.items()
    }
    lost = {
        (name, link)
        for name, path in pages.items()
        if name.startswith("docs/")
        for link in _links(path.read_text())
        if not link.startswith("https:")
        for near, _, fragment in [link.partition("#")]
        for aim in [posixpath.normpath(posixpath.join(posixpath.dirname(name), near))]
        for target in [aim if near else name]
        if not (site / target).exists() or (fragment and fragment not in ids[target])
    }

    assert [
        name for name, path in pages.items() if ">Documentation</a>" not in path.read_text()
    ] == []
    assert {f"docs/{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} <= {*pages}
    assert lost == set()


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>a `b` c</p>", "<p>a <code>b</code> c</p>"),
        ("<p>`&lt;x&gt;`</p>", "<p><code>&lt;x&gt;</code></p>"),
        ('<a title="`b`">`b`</a>', '<a title="`b`"><code>b</code></a>'),
        ("<pre>`b`</pre><code>`b`</code>", "<pre>`b`</pre><code>`b`</code>"),
        ("<script>`b`</script>", "<script>`b`</script>"),
        ("<title>`b`</title>", "<title>b</title>"),
        ("<p>`<b>x</b>`</p>", "<p>`<b>x</b>`</p>"),
        ("<p>one ` alone</p>", "<p>one ` alone</p>"),
    ],
)
def test_backticks_of_a_text_are_code(page: str, expected: str) -> None:
    assert with_code(page) == expected


class _Raw(HTMLParser):
    """The texts of a page that hold a backtick though they are no code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in {"pre", "code", "script"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if "`" in data and not self.open:
            self.found.append(data)


def test_no_page_of_the_real_cases_shows_a_backtick(real_site: Path) -> None:
    pages = [*real_site.rglob("*.html")]
    raw = {page: found for page in pages if (found := _Raw(page.read_text(encoding="utf-8")).found)}

    assert raw == {}
    assert len(pages) > len(project.load(Paths(root=ROOT)).cases)


def test_each_page_of_a_case_is_described_by_its_title(real_site: Path) -> None:
    described = {
        page.stem: attributes["content"]
        for page in (real_site / "case").glob("*.html")
        for tag, attributes in Markup(page.read_text(encoding="utf-8")).found
        if tag == "meta" and attributes.get("name") == "description"
    }
    cases = project.load(Paths(root=ROOT)).cases

    assert len({*described.values()}) == len(described) == len(cases)
    for name, case in cases.items():
        assert case.block.title.replace("`", "") in described[name]
