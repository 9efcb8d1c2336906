"""The line of a file on which a package is pinned."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import installed

from repromatrix.runner.audit.lines import PinPlace, line_of, place_of

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.audit.packages import Installed

UV = """\
version = 1

[[package]]
name = "accelerate"
version = "1.6.0"
source = { registry = "https://example.org/simple" }
dependencies = [
    { name = "transformers", version = "4.50.0", source = { registry = "x" } },
]
wheels = [
    { url = "https://example.org/accelerate-1.6.0-py3-none-any.whl", hash = "sha256:0" },
]

[[package]]
name = "transformers"
version = "4.49.0"
source = { registry = "https://example.org/simple" }

[[package]]
name = "transformers"
version = "4.50.0"
source = { registry = "https://example.org/simple" }
"""
POETRY = """\
[[package]]
name = "peft"
version = "0.15.1"
optional = false

[package.dependencies]
transformers = ">=4.50"

[[package]]
name = "Transformers"
version = "4.50.0"
"""
FREEZE = "accelerate==1.6.0\ntransformers==4.50.0\n"
HASHED = """\
# transformers==4.50.0 is what we had
transformers[torch] == 4.50 ; python_version < "3.9"
transformers == 4.50.0 \\
    --hash=sha256:0
"""
WHEEL = "torch @ x\nhttps://example.org/transformers-4.50.0-py3-none-any.whl#sha256=0\n"
PIPFILE = """\
{
    "default": {
        "transformers": {
            "hashes": [
                "sha256:0"
            ],
            "version": "==4.50.0"
        }
    }
}
"""
SBOM = """\
{"components": [
  {
    "bom-ref": "1",
    "name": "transformers",
    "purl": "pkg:pypi/transformers@4.50.0",
    "version": "4.50.0"
  }
]}
"""
CONDA_LOCK = "package:\n- name: transformers\n  version: 4.50.0\n  manager: conda\n"
CONDA = "dependencies:\n  - python=3.11\n  - transformers=4.50.0=pyhd8ed1ab_0\n"
PIXI = "packages:\n- conda: https://example.org/noarch/transformers-4.50.0-pyhd8ed1ab_0.conda\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (UV, 21),
        (POETRY, 11),
        (FREEZE, 2),
        (HASHED, 3),
        (WHEEL, 2),
        (PIPFILE, 7),
        (SBOM, 6),
        (CONDA_LOCK, 3),
        (CONDA, 3),
        (PIXI, 2),
        ('{"name": "transformers", "version": "4.50.0"}', None),
        ("transformers>=4.50.0\n", None),
        ("transformers-extra==4.50.0\n", None),
        ("", None),
    ],
)
def test_a_package_stands_on_the_line_of_its_version(text: str, line: int | None) -> None:
    assert line_of(text, "transformers", "4.50.0") == line


def test_a_name_and_a_version_may_be_written_in_other_ways() -> None:
    assert line_of("Huggingface_Hub==0.30\n", "huggingface-hub", "0.30") == 1
    assert line_of("\ufeffTORCH==2.6.0+CPU\n", "torch", "2.6.0+cpu") == 1


def listed(path: str) -> Installed:
    return dataclasses.replace(installed(), what=path)


def test_a_list_may_name_the_file_that_pins(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "pins.txt").write_text("-r ../base/pins.txt\n-r ../all.txt\n" + FREEZE)
    (tmp_path / "all.txt").write_text("-r nowhere.txt\n-r base/pins.txt\n")
    found = place_of(listed(str(tmp_path / "all.txt")), "transformers")

    assert found == PinPlace(file=str(tmp_path / "base" / "pins.txt"), line=4)


def test_a_file_without_such_a_line_is_named_alone(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("-r all.txt\n")

    path = str(tmp_path / "all.txt")
    assert place_of(listed(path), "transformers") == PinPlace(file=path, line=None)


def test_a_file_is_named_from_the_root_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "all.txt").write_text(FREEZE)
    (tmp_path / "upper.txt").write_text(FREEZE)
    monkeypatch.chdir(tmp_path / "service")
    places = [place_of(listed(name), "transformers") for name in ("all.txt", "../upper.txt")]

    assert places == [PinPlace(file="service/all.txt", line=2), PinPlace(file="upper.txt", line=2)]


def test_what_is_no_file_has_no_line() -> None:
    assert place_of(listed("standard input"), "transformers") is None
