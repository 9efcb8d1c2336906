"""The published evidence as one file: what is in it, and what is refused."""

from __future__ import annotations

import lzma
import tarfile
from typing import TYPE_CHECKING

import pytest
from evidence_archives import LISTED, file, forged, manifest, packed, publications, published, tar

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import archive

if TYPE_CHECKING:
    from pathlib import Path

FILES = {LISTED: publications("2026-11-24").encode()}
WHOLE = forged(FILES)


def unpacked(content: bytes, folder: Path) -> str:
    """Return what is said of an archive that is refused."""
    with pytest.raises(RunnerError) as refused:
        archive.unpack(content, "x.tar.xz", folder)
    return str(refused.value)


def test_an_archive_holds_what_belongs_together_and_is_the_same_each_time(tmp_path: Path) -> None:
    paths = published(tmp_path / "from", "2026-11-24")
    (paths.cases / "_drafts").mkdir()
    (paths.cases / "_drafts" / "none.py").touch()
    content = packed(paths)

    snapshot = archive.unpack(content, "x", tmp_path / "to")

    found = {path for path in (tmp_path / "to").rglob("*") if path.is_file()}
    names = {path.relative_to(tmp_path / "to").as_posix(): path.read_bytes() for path in found}
    assert snapshot.name == "2026-11-24"
    assert packed(paths) == content
    assert names == {name: path.read_bytes() for name, path in archive.contents(paths).items()}
    assert {"cases/toy_breaks.py", LISTED, "environments/matrix.toml"} <= {*names}
    assert "environments/locks/4.50.0.txt" in names


def test_where_nothing_was_published_there_is_no_archive(tmp_path: Path) -> None:
    paths = published(tmp_path, "2026-11-24")
    (tmp_path / LISTED).unlink()

    assert archive.pack(paths) is None


def _named(name: str) -> bytes:
    return forged({**FILES, name: b"x"})


def _linked() -> bytes:
    link = tarfile.TarInfo("cases/a.py")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return tar(manifest(FILES), (link, b""))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the archive is damaged (it is cut off)."),
        (b"<html>" * 10, "the archive is damaged (it is no xz: "),
        (WHOLE[:-40], "the archive is damaged (it is cut off)."),
        (WHOLE[:60] + bytes([WHOLE[60] ^ 1]) + WHOLE[61:], "the archive is damaged (it is no xz: "),
        (lzma.compress(b"no tar" * 200), "the archive is damaged (it is no tar: "),
        (lzma.compress(b""), "the archive is damaged (it "),
        (tar(*[file(*one) for one in FILES.items()]), "(it does not begin with manifest.json)"),
        (tar(file("manifest.json", b"[" * 100_000)), "(manifest.json cannot be read: "),
        (tar(file("manifest.json", b"[]")), "(manifest.json cannot be read: "),
        (forged(FILES, files=[[1, 2]]), "the archive holds 1, which is no evidence."),
        (forged(FILES, format="x"), "the archive has format x; this version reads 1 at most."),
        (forged(FILES, format=2), "format 2; this version reads 1 at most. Update repromatrix."),
        (forged(FILES, files={LISTED: "0" * 64}), f"({LISTED!r} has another digest than its "),
        (forged(FILES, files={}), f"({LISTED!r} is not in its manifest, or there twice)"),
        (tar(manifest(FILES)), f"({LISTED!r} is missing)"),
        (forged({"cases/a.py": b""}), "the archive is damaged (it holds no publication)."),
        (_linked(), "('cases/a.py' is no plain file)"),
        *(
            (_named(name), f"the archive holds {name!r}, which is no evidence.")
            for name in (
                "../a",
                "/etc/passwd",
                "cases/../../a",
                "cases//a",
                "cases/.a",
                "runner/paths.py",
                "cases/a\nb",
                "cases",
            )
        ),
    ],
)
def test_what_is_no_archive_of_ours_is_refused_with_what_is_wrong(
    content: bytes, told: str, tmp_path: Path
) -> None:
    said = unpacked(content, tmp_path / "to")

    assert said.startswith("x.tar.xz: the archive ")
    assert told in said
    assert {path.name for path in tmp_path.iterdir()} <= {"to"}


def test_an_archive_that_is_larger_than_evidence_is_not_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_UNPACKED", 2**20)
    bomb = lzma.compress(bytes(2**24), preset=0)

    assert len(bomb) < 10_000
    assert unpacked(bomb, tmp_path / "to") == "x.tar.xz: the archive holds more than 1 MB."
