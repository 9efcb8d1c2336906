"""Archives of evidence: of a small published set, and with what no archive should hold."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import tarfile
from typing import TYPE_CHECKING, Any

from factories import case_text
from small_checkout import checkout

from repromatrix.runner.evidence import archive
from repromatrix.runner.evidence.published import Publication

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from repromatrix.runner.paths import Paths

LISTED = "reports/published/publications.toml"


def published(folder: Path, day: str) -> Paths:
    """Return a checkout with one case, of which something was published on a day."""
    paths = checkout(folder, ("4.50.0",))
    (paths.cases / "toy_breaks.py").write_text(case_text(), encoding="utf-8")
    paths.published.mkdir()
    publish(paths, day)
    return paths


def publish(paths: Paths, day: str) -> None:
    """Let the only publication be of that day."""
    (paths.published / "publications.toml").write_text(publications(day), encoding="utf-8")


def publications(day: str) -> str:
    line = Publication(day, day, "x86_64", "2.13.0+cpu", "3.11.7", "not measured").line()
    return f"format = 1\n[publications]\n{line}"


def packed(paths: Paths) -> bytes:
    made = archive.pack(paths)
    assert made is not None
    return made.content


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return an archive with these members, whatever they are."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.GNU_FORMAT) as made:
        for about, content in members:
            about.size = len(content)
            made.addfile(about, io.BytesIO(content))
    return lzma.compress(text.getvalue())


def file(name: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


def manifest(held: Mapping[str, bytes], **facts: Any) -> tuple[tarfile.TarInfo, bytes]:  # noqa: ANN401 - values of JSON
    """Return the manifest of some files, with facts in place of its own."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in held.items()}
    head = {"format": 1, "snapshot": "", "date": "", "files": digests} | facts
    return file(archive.MANIFEST, json.dumps(head).encode())


def forged(held: Mapping[str, bytes], **facts: Any) -> bytes:  # noqa: ANN401 - values of JSON
    """Return an archive of any files, whose manifest names them all."""
    return tar(manifest(held, **facts), *(file(name, text) for name, text in held.items()))
