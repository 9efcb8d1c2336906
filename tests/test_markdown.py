"""What is pasted is read by a real reader of Markdown, and must come out as it went in."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from repromatrix.runner.document import Code, Document, Table, write
from repromatrix.runner.markdown import fenced, plain, sentence

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = st.text("\\`*_[]()|~$#+-=>.<!&;:@/ab1 \n")


def shown(markdown: str) -> str:
    """Return what a page shows of a Markdown text."""
    return html.unescape(re.sub(r"<[^>]*>", "", READER.render(markdown))).strip()


def one_line(text: str) -> str:
    return " ".join(text.split())


@given(HOSTILE)
def test_lines_of_code_are_shown_as_they_are(text: str) -> None:
    found = html.unescape(READER.render(fenced(text, "python")))

    assert found == f'<pre><code class="language-python">{text.rstrip()}\n</code></pre>\n'


@given(HOSTILE)
def test_a_text_is_shown_as_it_is(text: str) -> None:
    assert shown(plain(text)).replace("\u200b", "") == one_line(text)


@given(HOSTILE)
def test_a_text_is_nothing_but_text(text: str) -> None:
    rendered = READER.render(plain(text)).strip()

    assert set(re.findall(r"<[^>]*>", rendered)) <= {"<p>", "</p>"}
    assert "@" not in plain(text).replace("@\u200b", "")


@given(HOSTILE, HOSTILE)
def test_a_row_of_a_table_keeps_its_cells(one: str, other: str) -> None:
    table = Table(("a", "b", "c"), [(one, Code(f"x{other}x"), "end")])
    page = READER.render(write(Document(parts=[table], data={}), "markdown"))
    cells = re.findall(r"<td>(.*?)</td>", page)

    said = [html.unescape(re.sub("</?code>", "", cell)).replace("\u200b", "") for cell in cells]
    assert [cell.strip() for cell in said[::2]] == [one_line(one.replace("\n", "�")), "end"]
    assert "<code>" in cells[1]


@pytest.mark.parametrize(
    ("said", "pasted"),
    [
        ("It passes.", "It passes."),
        ("Find the package: nox -s blame -- a_b", "Find the package: `nox -s blame -- a_b`"),
        ("a_b: `nox -s blame -- a_b --good 1`.", "a\\_b: `nox -s blame -- a_b --good 1`."),
    ],
)
def test_a_command_in_a_sentence_is_code(said: str, pasted: str) -> None:
    assert sentence(said) == pasted
