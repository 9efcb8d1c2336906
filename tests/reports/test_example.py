"""The pages and files of a small site are what lies in `expected/`.

`pytest tests/reports/test_example.py --regenerate` writes there what is drawn now: what a page says
otherwise is a diff to review. A page is written down as its outline, other files as they are.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from example_site import draw
from outline import outline

EXPECTED = Path(__file__).parent / "expected"
LEFT_OUT = ("cells.csv.gz", "osv/all.zip")
WIDTH = 120
OF_THE_PROGRAM = (".js", ".css")
DRAWN_ONCE = (".svg", ".xml")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what is kept of each page and file, by the name that it has in `expected/`."""
    folder = tmp_path_factory.mktemp("example")
    draw(folder)
    return {
        name: _kept(path)
        for path in sorted(folder.rglob("*"))
        for name in [path.relative_to(folder).as_posix()]
        if path.is_file() and name not in LEFT_OUT
        if path.suffix not in OF_THE_PROGRAM or name.startswith("data/")
        if path.suffix not in DRAWN_ONCE or "cache_float" in name
    }


def _kept(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return outline(text)
    if path.suffix == ".json":
        return _lines(json.loads(text)) + "\n"
    if path.suffix == ".js":
        head, _, value = text.partition(" = ")
        read = json.loads(value.strip().removesuffix(";"))
        return f"{head} = {_lines(read)}\n"
    return text


def _lines(value: object, indent: int = 0) -> str:
    """Write a value of JSON with what fits into a line in a line."""
    short = json.dumps(value, ensure_ascii=False)
    if len(short) + indent < WIDTH or not isinstance(value, dict | list):
        return short
    ends = "{}" if isinstance(value, dict) else "[]"
    items = (
        [f"{json.dumps(key)}: {_lines(item, indent + 1)}" for key, item in value.items()]
        if isinstance(value, dict)
        else [_lines(item, indent + 1) for item in value]
    )
    inner = ",\n".join(" " * (indent + 1) + item for item in items)
    return f"{ends[0]}\n{inner}\n{' ' * indent}{ends[1]}"


def _expected() -> dict[str, str]:
    files = [path for path in sorted(EXPECTED.rglob("*")) if path.is_file()]
    return {path.relative_to(EXPECTED).as_posix(): path.read_text("utf-8") for path in files}


def test_every_page_and_file_is_drawn_as_expected(
    drawn: dict[str, str], pytestconfig: pytest.Config
) -> None:
    if pytestconfig.getoption("--regenerate"):
        for name in _expected().keys() - drawn.keys():
            (EXPECTED / name).unlink()
        for name, text in drawn.items():
            (EXPECTED / name).parent.mkdir(parents=True, exist_ok=True)
            (EXPECTED / name).write_text(text, "utf-8")
        return
    expected = _expected()

    assert drawn.keys() == expected.keys()
    for name, text in drawn.items():
        assert text == expected[name], name
