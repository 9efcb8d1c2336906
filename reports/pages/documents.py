"""The documents of `docs/` as pages."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from repromatrix.reports.text import in_path, visible
from repromatrix.runner.text import first_sentence

_COMMENT = re.compile(r"(?m)^<!--.*?-->\n")
_SHELL = frozenset({"sh", "console", "shell", "bash"})
_PICTURES = frozenset({".gif", ".jpg", ".png", ".svg", ".webp"})
_ANCHOR = '<a class="anchor" href="#{}" aria-label="Link to this section">#</a>'


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document; `path` is its page and `source` its file, from the root of the checkout."""

    path: str
    source: str
    title: str
    says: str
    """Its first sentence, with code in backticks."""
    body: Markup
    pictures: tuple[str, ...] = ()
    """The files that it shows, from the root of the checkout."""


def documents(root: Path | None, source: str) -> tuple[Document, ...]:
    """Return the documents below `docs/` of a checkout, those of its subfolders last.

    A link to a file that is no document leads to the repository at `source`; without one it is
    plain text.
    """
    if root is None:
        return ()
    files = sorted(
        (path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md")),
        key=lambda name: (name.count("/"), name),
    )
    return tuple(_document((root / name).read_text("utf-8"), name, files, source) for name in files)


def pictures(root: Path | None, found: Sequence[Document]) -> Iterator[tuple[str, bytes]]:
    """Yield each picture that a document shows, and its content."""
    for name in sorted({name for document in found for name in document.pictures}):
        path = root / name if root is not None else Path(name)
        if path.suffix in _PICTURES and path.is_file():
            yield name, path.read_bytes()


def _document(text: str, name: str, files: Collection[str], source: str) -> Document:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(_COMMENT.sub("", text))
    title, says = _first(tokens, "heading_open"), _first(tokens, "paragraph_open")
    shown = tuple(_resolved(name, token.attrs["src"]) for token in _inline(tokens, "image"))
    _number_headings(tokens)
    for token in _inline(tokens, "link_open"):
        _lead(token, name, files, source)
    _unlink(tokens)
    body = markdown.renderer.render([*_arranged(tokens, title)], markdown.options, {})
    return Document(
        path=f"{name.removesuffix('.md')}.html",
        source=name,
        title=title or name,
        says=first_sentence(says)[0],
        body=Markup(visible(body)),  # noqa: S704 - made from Markdown without HTML
        pictures=shown,
    )


def _first(tokens: Sequence[Token], kind: str) -> str:
    """Return the text of the first heading or paragraph, with code in backticks."""
    place = next((at for at, token in enumerate(tokens) if token.type == kind), None)
    children = (tokens[place + 1].children or ()) if place is not None else ()
    texts = {"softbreak": " ", "code_inline": "`{}`"}
    return visible("".join(texts.get(one.type, "{}").format(one.content) for one in children))


def _inline(tokens: Sequence[Token], kind: str) -> Iterator[Token]:
    return (child for token in tokens for child in token.children or () if child.type == kind)


def _number_headings(tokens: Sequence[Token]) -> None:
    """Give each heading the id that GitHub gives it, and below the title a link to itself."""
    seen: Counter[str] = Counter()
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            words = "".join(child.content for child in inline.children or ())
            name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            anchor = f"{name}-{seen[name]}" if seen[name] else name
            seen[name] += 1
            token.attrSet("id", anchor)
            if token.tag != "h1":
                link = Token("html_inline", "", 0, content=f" {_ANCHOR.format(escape(anchor))}")
                inline.children = [*(inline.children or ()), link]


def _lead(token: Token, name: str, files: Collection[str], source: str) -> None:
    """Let a link of a document lead to a page, to the repository, or nowhere."""
    address = str(token.attrs["href"])
    if urlsplit(address).scheme:
        token.attrSet("rel", "noreferrer")
        return
    path, fragment = _resolved(name, address), address.partition("#")[2]
    behind = f"#{fragment}" if fragment else ""
    if not address.partition("#")[0]:
        return
    if path in files:
        page = f"{path.removesuffix('.md')}.html"
        near = posixpath.relpath(page, posixpath.dirname(name))
        token.attrSet("href", f"{near}{behind}")
    elif source:
        token.attrSet("href", f"{source}/blob/HEAD/{in_path(path)}{behind}")
        token.attrSet("rel", "noreferrer")
    else:
        token.attrs = {}


def _resolved(name: str, address: object) -> str:
    """Return the file that a relative address in a document is about, from the root."""
    path = unquote(str(address).partition("#")[0])
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _unlink(tokens: Sequence[Token]) -> None:
    """Make each link that leads nowhere a plain text."""
    for token in tokens:
        opened: Token | None = None
        for child in token.children or ():
            if child.type == "link_open":
                opened = child
            if child.type.startswith("link_") and opened is not None and not opened.attrs:
                child.tag = "span"


def _arranged(tokens: Sequence[Token], title: str) -> Iterator[Token]:
    """Yield the tokens with tables that scroll, code that can be copied, and no inline style."""
    tables = 0
    for token in tokens:
        # The policy of the pages lets no style in that stands at its element.
        if "text-align:right" in str(token.attrs.pop("style", "")):
            token.attrSet("class", "end")
        match token.type:
            case "table_open":
                tables += 1
                label = escape(f"Table {tables} of {title}")
                region = f'<div class="wide" tabindex="0" role="region" aria-label="{label}">'
                yield _html(f"{region}<table>\n")
            case "table_close":
                yield _html("</table></div>\n")
            case "fence" | "code_block":
                copied = " data-copy" if token.info in _SHELL else ""
                yield _html(
                    f'<pre tabindex="0"{copied}><code>{escape(token.content)}</code></pre>\n'
                )
            case _:
                yield token


def _html(content: str) -> Token:
    return Token("html_block", "", 0, content=content)
