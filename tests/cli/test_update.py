"""`update`: newer evidence takes the place of the older, or the older stays."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from evidence_archives import LISTED, forged, packed, publications, publish, published

from repromatrix.runner import paths as places
from repromatrix.runner.cli.update import update_evidence
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import updates
from repromatrix.runner.evidence.snapshot import TODAY
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW, NEWER = "2026-11-20", "2026-11-24", "2026-11-25"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Return an installation with evidence of a day, whose user has a cache of his own."""
    root = tmp_path / "installed"
    installation = published(root, OLD)
    defaults = Paths.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "root", root)
    monkeypatch.setattr(places, "ROOT", root)
    monkeypatch.setattr(places, "INSTALLED", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(TODAY, "2026-11-27")
    return installation


@pytest.fixture
def source(tmp_path: Path) -> Paths:
    """Return a checkout with newer evidence."""
    return published(tmp_path / "newer", NEW)


def archived(source: Paths, day: str = NEW) -> str:
    """Return the path of an archive of that day."""
    publish(source, day)
    path = source.root / f"{day}.tar.xz"
    path.write_bytes(packed(source))
    return str(path)


def answering() -> str:
    """Return the day of the evidence that answers, as its own files say."""
    return (updates.current().published / "publications.toml").read_text().split('"')[1]


def refused(source: str, *, sha256: str = "", offline: bool = False) -> str:
    with pytest.raises(RunnerError) as error:
        update_evidence(source, sha256=sha256, offline=offline)
    return str(error.value)


@pytest.mark.usefixtures("installed")
def test_newer_evidence_answers_with_its_cases_and_pins(
    source: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    (source.cases / "toy_breaks.py").rename(source.cases / "toy_breaks_anew.py")
    path = archived(source)

    codes = [update_evidence(path), update_evidence(path)]

    told = f"evidence of {NEW}, 3 days old.\n"
    assert codes == [0, 0]
    assert capsys.readouterr().out == f"Updated: {told}Up to date: {told}"
    assert answering() == NEW
    found = updates.current()
    assert [path.name for path in found.cases.iterdir()] == ["toy_breaks_anew.py"]
    assert {found.matrix.parent, found.locks.parent} == {found.data / "environments"}


@pytest.mark.usefixtures("installed")
def test_the_one_before_stays_for_who_is_reading_it_and_no_other(source: Paths) -> None:
    for day in (NEW, NEWER, "2026-11-26"):
        update_evidence(archived(source, day))

    kept = [path for path in updates.current().updates.iterdir() if path.is_dir()]
    days = sorted((path / LISTED).read_text().split('"')[1] for path in kept)
    assert (answering(), days) == ("2026-11-26", [NEWER, "2026-11-26"])


def test_what_was_installed_later_answers_itself(installed: Paths, source: Paths) -> None:
    update_evidence(archived(source))
    publish(installed, NEWER)

    assert (answering(), updates.current().data) == (NEWER, installed.root)


@pytest.mark.usefixtures("installed")
def test_what_is_refused_leaves_the_old_one(source: Paths) -> None:
    update_evidence(archived(source))
    before = answering()
    older = archived(source, "2026-11-23")
    unread = source.root / "unread"
    listed = publications(NEWER).encode()
    unread.write_bytes(forged({LISTED: listed, "cases/toy.py": b"# /// script\n"}))

    assert refused(older) == (
        f"{older}: its snapshot 2026-11-23 is older than yours of {NEW}. Nothing was changed."
    )
    assert refused(str(unread)).startswith(
        f"{unread}: this version of repromatrix cannot read it ("
    )
    assert refused(str(unread)).endswith("). Update repromatrix.")
    assert refused(f"{source.root}/") == (
        f"{source.root}/evidence.tar.xz: the file does not exist."
    )
    assert answering() == before == NEW
    assert len([*updates.current().updates.iterdir()]) == 2


@pytest.mark.usefixtures("installed")
def test_an_archive_with_another_digest_is_refused(source: Paths) -> None:
    path = archived(source)
    digest = hashlib.sha256(packed(source)).hexdigest()

    assert refused(path, sha256="0" * 64) == (
        f"{path}: its SHA-256 is {digest}. Nothing was changed."
    )
    assert refused(path, sha256="0") == (
        "--sha256: invalid value '0'; expected 64 hexadecimal digits."
    )
    assert answering() == OLD
    assert update_evidence(path, sha256=digest.upper()) == 0


@pytest.mark.usefixtures("installed")
def test_offline_reads_files_alone(source: Paths) -> None:
    told = "--offline cannot be combined with https://x.org/evidence.tar.xz: it is an address."

    assert refused("https://me:secret@x.org/", offline=True) == f"{told} Give a file."
    assert update_evidence(archived(source), offline=True) == 0


@pytest.mark.usefixtures("installed")
def test_what_was_taken_and_is_damaged_is_named_and_replaced(source: Paths) -> None:
    path = archived(source)
    update_evidence(path)
    folder = updates.current().data
    (folder / LISTED).write_text("[publications")

    with pytest.raises(RunnerError) as error:
        updates.current()

    assert str(error.value).startswith(f"{folder}: its evidence is damaged (the file is damaged (")
    assert update_evidence(path) == 0
    assert answering() == NEW


def test_a_disk_that_takes_nothing_is_named(
    installed: Paths, source: Paths, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file in its place")

    assert refused(archived(source)).startswith(
        f"{tmp_path / 'cache' / 'repromatrix' / 'updates'}: a file is in the place of a folder of"
    )
    assert updates.current().data == installed.root


def test_a_checkout_has_its_evidence_from_git(source: Paths) -> None:
    assert refused(archived(source)) == (
        "update: a checkout has its evidence from git. Run `git pull`."
    )
