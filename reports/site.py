"""The site: one static folder that opens from disk, drawn from the contexts and written whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from reports import firstpage
from reports.casepage import case_page
from reports.context import index
from reports.markup import cells, said
from reports.survey import survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reports.survey import Survey
    from runner.judging.verdicts import Judged
    from runner.model.case import Case
    from runner.model.cell import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_ASSETS = ("style.css", "grid.js", *firstpage.ASSETS)


def render(  # noqa: PLR0913 - what is drawn, and where to
    cases: Mapping[str, Case],
    environments: Sequence[Environment],
    judged: Iterable[Judged],
    folder: Path,
    *,
    areas: Mapping[str, str] | None = None,
    note: str = "",
) -> None:
    """Write the site; the same input gives the same bytes, and no page is ever half written.

    `environments` come in the order of the table, oldest first. `areas` gives titles, in the order
    of the page. `note` is one sentence for the headline. Pages of cases that are gone are removed.
    """
    pages = dict(draw(survey(cases, environments, judged, areas), note))
    for below in ("case", "data"):
        (folder / below).mkdir(parents=True, exist_ok=True)
    for name, content in pages.items():
        _write(folder / name, content)
    for left in (folder / "case").glob("*.html"):
        if f"case/{left.name}" not in pages:
            left.unlink(missing_ok=True)


def draw(found: Survey, note: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield every file of the site: its path below the folder, and its content."""
    for name in _ASSETS:
        yield name, (_TEMPLATES / name).read_bytes()
    templates = _templates()
    page = templates.get_template("case.html.jinja")
    for case in found.cases.values():
        content = page.render(page=case_page(found, case), root="../")
        yield f"case/{case.name}.html", _encoded(content)
    yield from firstpage.files(found)
    first = templates.get_template("index.html.jinja")
    yield "index.html", _encoded(first.render(page=index(found, note), root=""))


def _templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["thousands"] = "{:,}".format
    templates.filters["cells"] = cells
    templates.filters["said"] = said
    return templates


def _encoded(text: str) -> bytes:
    # Output of a case may hold halves of characters, which UTF-8 cannot express.
    return text.encode("utf-8", "backslashreplace")


def _write(path: Path, content: bytes) -> None:
    """Put a file in its place at once: two runs may render at the same time."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    draft.write_bytes(content)
    draft.replace(path)
