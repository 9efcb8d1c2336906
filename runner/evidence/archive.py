"""The published evidence as one file, for installations that are older: packed, checked, unpacked.

It holds what answers are made of and nothing of the program: the cases, the axes and pins of the
environments, everything that was published, and what findings were decided to be. These belong
together: a cell counts only for the case and the pins that it was measured with.

A tar archive, compressed with xz. The first file is the manifest, which names the format, the
snapshot, and the SHA-256 of every other file. The same evidence gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from repromatrix.runner.cases import case_files
from repromatrix.runner.errors import Problem, RunnerError, refuse
from repromatrix.runner.evidence.snapshot import Snapshot, newest
from repromatrix.runner.files import told
from repromatrix.runner.paths import Paths

FORMAT = 1
NAME = "evidence.tar.xz"
"""How it is called on the site."""
MANIFEST = "manifest.json"
LIMIT = 32 * 2**20
"""Bytes of an archive; today's has a twentieth of that."""
_UNPACKED = 160 * 2**20
"""Bytes of what is in it."""
_MEMORY = 64 * 2**20
"""Bytes that decompressing may take beside what is in it."""
_PLACES = re.compile(r"(cases|environments|reports/published|recipes)(/\w[\w.+,\[\]-]*)+", re.ASCII)
"""Every file that is unpacked: below one of these folders, and no way out of it. In `recipes/`
older archives hold the decisions about findings."""
_QUICK: Final = 0
"""The effort of xz: more of it takes seconds, and saves a third of 1.5 MB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceArchive:
    """An archive, whole and checked."""

    content: bytes
    snapshot: str
    """The name of its newest publication."""
    format: int = FORMAT

    @property
    def digest(self) -> str:
        """Its SHA-256."""
        return hashlib.sha256(self.content).hexdigest()


def contents(paths: Paths) -> dict[str, Path]:
    """Return the files that belong together, by their names in an archive, in order."""
    base = paths.data
    found = [
        *case_files(paths.cases),
        paths.matrix,
        *paths.locks.glob("*.txt"),
        paths.locks.with_suffix(".tar.xz"),  # what an installation has in place of the folder
        *paths.published.rglob("*.*"),
    ]
    named = {path.relative_to(base).as_posix(): path for path in found if path.is_file()}
    return dict(sorted(named.items()))


def pack(paths: Paths) -> EvidenceArchive | None:
    """Return the archive of a published set; None where nothing was published."""
    snapshot = newest(paths.published)
    if snapshot is None:
        return None
    files = {name: path.read_bytes() for name, path in contents(paths).items()}
    manifest = {
        "format": FORMAT,
        "snapshot": snapshot.name,
        "date": str(snapshot.date),
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    head = f"{json.dumps(manifest, indent=1)}\n".encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", preset=_QUICK) as archive:
        for name, content in {MANIFEST: head, **files}.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return EvidenceArchive(content=packed.getvalue(), snapshot=snapshot.name)


def unpack(content: bytes, where: str, folder: Path) -> Snapshot:
    """Write the files of an archive below an empty folder, and return its snapshot.

    Raises RunnerError for one that is damaged, of a newer format, too large, or that holds anything
    but what its manifest says; then the folder is of no use.
    """
    files = _files(_decompressed(content, where), where)
    for name, text in files.items():
        path = folder / name
        with told(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    snapshot = newest(folder / "reports" / "published")
    if snapshot is None:
        raise damaged(where, "it holds no publication")
    return snapshot


def damaged(where: str, why: str) -> RunnerError:
    """Return the error for an archive that is not what it should be."""
    return refuse(Problem(where, f"the archive is damaged ({why})", "Download it again."))


def _decompressed(content: bytes, where: str) -> io.BytesIO:
    """Return the tar archive; no more is decompressed than an archive may hold."""
    try:
        import lzma  # noqa: PLC0415
    except ModuleNotFoundError as error:  # a Python that was built without
        what = "the archive cannot be read: this Python has no module `lzma`"
        raise refuse(Problem(where, what, "Use another Python.")) from error
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY)
    try:
        text = reader.decompress(content, _UNPACKED + 1)
    except lzma.LZMAError as error:
        raise damaged(where, f"it is no xz: {error}") from error
    if len(text) > _UNPACKED:
        raise refuse(Problem(where, f"the archive holds more than {_UNPACKED >> 20} MB"))
    if not reader.eof:
        raise damaged(where, "it is cut off")
    return io.BytesIO(text)


def _files(packed: io.BytesIO, where: str) -> dict[str, bytes]:
    """Return the files that the manifest names, each checked; raises RunnerError."""
    try:
        with tarfile.open(fileobj=packed, mode="r:") as archive:
            members = _members(archive, where)
            name, head = next(members, ("", b""))
            if name != MANIFEST:
                raise damaged(where, f"it does not begin with {MANIFEST}")
            wanted = _digests(head, where)
            files = dict[str, bytes]()
            for name, content in members:
                if name not in wanted or name in files:
                    raise damaged(where, f"{name!r} is not in its manifest, or there twice")
                if hashlib.sha256(content).hexdigest() != wanted[name]:
                    raise damaged(where, f"{name!r} has another digest than its manifest says")
                files[name] = content
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise damaged(where, f"it is no tar: {error}") from error
    if lacking := [name for name in wanted if name not in files]:
        raise damaged(where, f"{lacking[0]!r} is missing")
    return files


def _members(archive: tarfile.TarFile, where: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of plain files; raises RunnerError for anything else."""
    for member in archive:
        if member.type != tarfile.REGTYPE or member.sparse is not None:
            raise damaged(where, f"{member.name!r} is no plain file")
        file = archive.extractfile(member)
        yield member.name, file.read() if file else b""


def _digests(head: bytes, where: str) -> Mapping[str, str]:
    """Return the SHA-256 of every file by its name, from a manifest; raises RunnerError."""
    try:
        manifest: Any = json.loads(head)
        form, files = manifest["format"], dict(manifest["files"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(where, f"{MANIFEST} cannot be read: {error}") from error
    if not isinstance(form, int) or form > FORMAT:
        what = f"the archive has format {form}; this version reads {FORMAT} at most"
        raise refuse(Problem(where, what, "Update repromatrix."))
    if bad := [name for name in files if not _PLACES.fullmatch(str(name))]:
        raise refuse(Problem(where, f"the archive holds {bad[0]!r}, which is no evidence"))
    return files
