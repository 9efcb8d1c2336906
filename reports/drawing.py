"""Render the templates as HTML and XML; addresses of the issue forms, filled in as far as known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

import jinja2

from repromatrix.reports.sections.cells import in_words
from repromatrix.reports.sections.grid import cells


def wrong_cell(source: str, about: Mapping[str, str]) -> str:
    """Return the form for a wrong cell; `source` is the address of the repository.

    The keys of `about` are the ids of fields: `case`, `release`, `precision`, `workaround`.
    """
    subject = " on ".join(about[key] for key in ("case", "release") if key in about)
    return _form(source, "wrong-cell", f"Wrong cell: {subject}", about)


def new_case(source: str) -> str:
    """Return the form for a bug without a case."""
    return _form(source, "new-case", "New case: ", {})


def _form(source: str, name: str, title: str, fields: Mapping[str, str]) -> str:
    query = urlencode({"template": f"{name}.yml", "title": title, **fields}, errors="replace")
    return f"{source}/issues/new?{query}"


@cache
def templates() -> jinja2.Environment:
    """Return the templates; each escapes what it is given."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["thousands"] = "{:,}".format
    found.filters["cells"] = cells
    found.filters["in_words"] = in_words
    found.globals |= {"wrong_cell": wrong_cell, "new_case": new_case}
    return found


def drawn(template: str, **context: object) -> bytes:
    """Return what a template draws."""
    text = templates().get_template(template).render(context)
    # Output of a case may hold halves of characters, which UTF-8 cannot express.
    return text.encode("utf-8", "backslashreplace")


def drawn_page(template: str, **context: object) -> bytes:
    """Return the page that a template draws, with what stands in backticks as code."""
    return with_code(drawn(template, **context).decode()).encode()


# Elements whose text stays as it is, tags with a backtick, and what is left: backticks in texts.
# Templates escape every `<` of a text, so one that is left begins a tag.
_TEXTS = re.compile(
    r"(?s)<(?P<kept>pre|code|script|textarea|title)\b.*?</(?P=kept)>"
    r"|<[^>`]*`[^>]*>|`(?P<code>[^`<]+)`"
)


def with_code(page: str) -> str:
    """Put what stands between two backticks of one text into an element of code."""
    if "`" not in page:
        return page
    return _TEXTS.sub(_as_code, page)


def _as_code(match: re.Match[str]) -> str:
    if match["code"]:
        return f"<code>{match['code']}</code>"
    return match[0].replace("`", "") if match["kept"] == "title" else match[0]


def drawn_xml(template: str, **context: object) -> bytes:
    """Return what a template draws, without what no XML may hold."""
    return whole(drawn(template, **context).decode()).encode()


def whole(text: str) -> str:
    """Take out what no XML may hold: halves of characters and two that are none."""
    sound = text.encode("utf-8", "backslashreplace").decode()
    return sound.translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD})
