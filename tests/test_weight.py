"""How much there is to read, at most: what is added is paid for by what goes."""

from __future__ import annotations

import subprocess
from typing import NamedTuple

import pytest

from repromatrix.runner.paths import ROOT


class Ceiling(NamedTuple):
    """How many lines some files have at most."""

    what: str
    patterns: tuple[str, ...]
    most: int


CEILINGS = (
    Ceiling("runner", ("runner/*.py",), 35_270),
    Ceiling("sweep", ("sweep/*.py",), 7_910),
    Ceiling("pages", ("reports/*.py",), 7_950),
    Ceiling("scripts of pages", ("reports/static/*.js",), 3_068),
    Ceiling("checks", ("checks/*.py",), 3_990),
    Ceiling("tests", ("tests/*.py",), 42_380),
    Ceiling("expected output", ("tests/cli/expected/*.md",), 8_340),
)
"""As `git ls-files | xargs cat | wc -l` counts. They only fall: lower what a change frees."""
WORDS = 19_960
"""Of `docs/` without the two documents that commands write."""
WRITTEN = {"docs/cli.md", "docs/corpus.md"}


def _texts(*patterns: str) -> dict[str, bytes]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns],  # noqa: S607 - the git of whoever tests
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return {name: (ROOT / name).read_bytes() for name in found}


@pytest.mark.parametrize("ceiling", CEILINGS, ids=lambda ceiling: ceiling.what)
def test_no_folder_is_heavier_than_its_ceiling(ceiling: Ceiling) -> None:
    lines = sum(text.count(b"\n") for text in _texts(*ceiling.patterns).values())

    assert 0 < lines <= ceiling.most


def test_the_documents_have_few_words() -> None:
    texts = _texts("docs/*.md")

    assert texts.keys() > WRITTEN
    assert sum(len(texts[name].split()) for name in texts.keys() - WRITTEN) <= WORDS
