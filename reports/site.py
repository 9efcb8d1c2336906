"""The site: one static folder that opens from disk, drawn from the contexts and written whole."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from reports import behind, firstpage
from reports.context import index
from reports.markup import cells, said
from reports.publishing import Published
from reports.setting import Settings
from reports.survey import survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reports.setting import Setting
    from reports.survey import Survey
    from runner.judging.verdicts import Judged
    from runner.model.case import Case
    from runner.model.cell import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_ASSETS = ("style.css", "pages.css", "grid.js", "pinned.js", *firstpage.ASSETS)


def render(  # noqa: PLR0913 - what is drawn, and where to
    cases: Mapping[str, Case],
    environments: Sequence[Environment],
    judged: Iterable[Judged],
    folder: Path,
    *,
    areas: Mapping[str, str] | None = None,
    note: str = "",
    published: Published | None = None,
) -> None:
    """Write the site; the same input gives the same bytes, and no page is ever half written.

    `environments` come in the order of the table, oldest first. `areas` gives titles, in the order
    of the page. `note` is one sentence for the headline. What is no longer drawn is removed.
    """
    found = survey(cases, environments, judged, areas)
    pages = dict(draw(found, note, published or Published()))
    for parent in {(folder / name).parent for name in pages}:
        parent.mkdir(parents=True, exist_ok=True)
    for name, content in pages.items():
        _write(folder / name, content)
    for left in _files(folder):
        if left.relative_to(folder).as_posix() not in pages:
            left.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    """Yield what lies in our folders; a draft belongs to somebody who is writing."""
    for name in behind.FOLDERS:
        found = (folder / name).rglob("*")
        yield from (path for path in found if path.is_file() and path.suffix != ".draft")


def draw(
    found: Survey, note: str = "", published: Published | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield every file of the site: its path below the folder, and its content."""
    for name in _ASSETS:
        yield name, (_TEMPLATES / name).read_bytes()
    templates, settings, known = _templates(), Settings(found), published or Published()
    whole = settings.whole()
    templates.globals.update(base_url=known.base_url)

    def drawn(template: str, page: object, root: str, setting: Setting = whole) -> bytes:
        drawn_by = templates.get_template(template)
        return _encoded(drawn_by.render(page=page, root=root, setting=setting))

    yield from behind.draw(found, known, settings, drawn)
    yield from firstpage.files(found, whole)
    yield "index.html", drawn("index.html.jinja", index(found, note), "")


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
    templates.filters["plain"] = asdict
    return templates


def _encoded(text: str) -> bytes:
    # Output of a case may hold halves of characters, which UTF-8 cannot express.
    return text.encode("utf-8", "backslashreplace")


def _write(path: Path, content: bytes) -> None:
    """Put a file in its place at once, unless it is there: two runs may render at the same time."""
    if path.exists() and path.read_bytes() == content:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
