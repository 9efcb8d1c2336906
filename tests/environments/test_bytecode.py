"""Compiled files shared between virtualenvs that hold the same sources."""

from __future__ import annotations

import json
import os
import py_compile
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.environments.building import installed, share_bytecode, site_packages

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def _environment(built: Path, name: str, versions: Mapping[str, str], *, ran: bool) -> Path:
    """Make something like a virtualenv; one that was imported from has compiled files."""
    folder = built / name
    there = folder / "lib" / "python3.11" / "site-packages"
    for package, version in versions.items():
        module = there / package / "deep" / "code.py"
        module.parent.mkdir(parents=True)
        for source in (module, there / package / "__init__.py"):
            source.write_text(f"VERSION = {version!r}\n")
            os.utime(source, (1_000_000, 1_000_000))
            if ran:
                py_compile.compile(str(source))
        info = there / f"{package}-{version}.dist-info"
        info.mkdir()
        files = [f"{package}/__init__.py", f"{package}/deep/code.py"]
        (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))
    (folder / "complete.json").write_text(json.dumps({"versions": dict(versions)}))
    return folder


def _compiled(folder: Path) -> dict[str, int]:
    here = site_packages(folder)
    return {str(path.relative_to(here)): path.stat().st_ino for path in sorted(here.rglob("*.pyc"))}


def test_what_is_installed_is_read_from_its_metadata(tmp_path: Path) -> None:
    versions = {"torch": "2.13.0+cpu", "huggingface_hub": "0.29.3"}
    folder = _environment(tmp_path, "a", versions, ran=False)

    assert installed(folder) == {"huggingface-hub": "0.29.3", "torch": "2.13.0+cpu"}


def test_the_same_version_lends_its_compiled_files_and_another_does_not(tmp_path: Path) -> None:
    lender = _environment(tmp_path, "a", {"torch": "2.13.0", "peft": "0.15.0"}, ran=True)
    versions = {"torch": "2.13.0", "peft": "0.15.1"}
    folder = _environment(tmp_path, "b", versions, ran=False)

    linked = share_bytecode(tmp_path, folder, versions)

    lent = {name: number for name, number in _compiled(lender).items() if "torch" in name}
    assert (2, lent) == (linked, _compiled(folder))


def test_another_version_lends_what_it_compiled_of_the_same_bytes(tmp_path: Path) -> None:
    for name, version in (("a", "0.15.0"), ("z", "0.9.0")):
        _environment(tmp_path, name, {"torch": "2.13.0", "peft": version}, ran=True)
    versions = {"torch": "2.13.0", "peft": "0.15.1"}
    folder = _environment(tmp_path, "b", versions, ran=False)
    same, time = site_packages(folder) / "peft" / "deep" / "code.py", 2_000_000
    same.write_text("VERSION = '0.15.0'\n")
    os.utime(same, (time, time))

    shared = share_bytecode(tmp_path, folder, versions)

    (compiled,) = (site_packages(folder) / "peft").rglob("*.pyc")
    lent = compiled.read_bytes()
    py_compile.compile(str(same))
    assert (3, compiled.parent.parent, lent[:16]) == (
        shared,
        same.parent,
        compiled.read_bytes()[:16],
    )


@pytest.mark.parametrize(
    ("ran", "complete", "compiled"),
    [(False, True, False), (True, False, False), (True, True, True)],
    ids=["never imported from", "incomplete", "compiled here already"],
)
def test_nothing_is_lent_from_what_has_nothing_to_what_has_it(
    tmp_path: Path, *, ran: bool, complete: bool, compiled: bool
) -> None:
    lender = _environment(tmp_path, "a", {"torch": "2.13.0"}, ran=ran)
    if not complete:
        (lender / "complete.json").unlink()
    folder = _environment(tmp_path, "b", {"torch": "2.13.0"}, ran=compiled)
    before = _compiled(folder)

    assert (share_bytecode(tmp_path, folder, {"torch": "2.13.0"}), _compiled(folder)) == (0, before)


def test_a_lender_that_has_compiled_files_is_found_behind_one_that_has_none(
    tmp_path: Path,
) -> None:
    for name, ran, made in (("a", False, 1), ("b", True, 2)):
        folder = _environment(tmp_path, name, {"torch": "2.13.0"}, ran=ran)
        os.utime(folder / "complete.json", (made, made))
    folder = _environment(tmp_path, "c", {"torch": "2.13.0"}, ran=False)

    assert share_bytecode(tmp_path, folder, {"torch": "2.13.0"}) == 2


def test_a_file_that_is_compiled_anew_leaves_the_lenders_alone(tmp_path: Path) -> None:
    lender = _environment(tmp_path, "a", {"torch": "2.13.0"}, ran=True)
    folder = _environment(tmp_path, "b", {"torch": "2.13.0"}, ran=False)
    share_bytecode(tmp_path, folder, {"torch": "2.13.0"})
    before = {path: path.read_bytes() for path in site_packages(lender).rglob("*.pyc")}

    for source in site_packages(folder).rglob("*.py"):
        source.write_text("VERSION = 'another'\n")
        py_compile.compile(str(source))

    assert before == {path: path.read_bytes() for path in site_packages(lender).rglob("*.pyc")}
