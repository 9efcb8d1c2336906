"""Every format with the faults that any file may have: cut off, hostile names, far too large."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from repromatrix.runner.audit.inputs import Form, read
from repromatrix.runner.audit.packages import LIMIT, Installed
from repromatrix.runner.errors import ExitCode, RunnerError

LOCKS = Path(__file__).parents[1] / "fixtures" / "locks"
MADE = sorted(path.relative_to(LOCKS).as_posix() for path in LOCKS.glob("*/*"))
CONDA = {
    "conda-lock.yml": "version: 1\nmetadata:\n  platforms: [linux-64]\npackage:\n"
    "- name: transformers\n  version: 4.50.0\n  manager: conda\n  platform: linux-64\n",
    "pixi.lock": "version: 6\nenvironments:\n  default:\n    channels: []\n    packages:\n"
    "      linux-64:\n      - conda: https://example.org/noarch/transformers-4.50.0-pyh_0.conda\n"
    "packages:\n- conda: https://example.org/noarch/transformers-4.50.0-pyh_0.conda\n",
    "environment.yml": "dependencies:\n- transformers=4.50.0=pyh_0\n",
}
FILES = {name: (LOCKS / name).read_text(encoding="utf-8") for name in MADE} | CONDA
HOSTILE = ("\x1b[31mevil", "../../etc/passwd", "a" * 100_000, "::error::x", "\u202e", "\\ud800")
CUTS = 12


def attempted(path: Path) -> Installed | RunnerError:
    try:
        return read(str(path))
    except RunnerError as error:
        return error


def refused(path: Path) -> bool:
    """Read a file; return whether it was refused, and that in an addressed sentence."""
    begin = time.process_time()
    found = attempted(path)
    assert time.process_time() - begin < 5
    if isinstance(found, RunnerError):
        told = str(found)
        assert found.code is ExitCode.BAD_INPUT
        assert told.startswith(str(path))
        assert len(told) < len(str(path)) + 500
        assert told.isprintable()
        return True
    assert "transformers" in {*found.pins, *found.loose}
    assert all(reason.isprintable() and len(reason) < 200 for reason in found.loose.values())
    return False


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name = str(request.param)
    path = tmp_path / name.rpartition("/")[2]
    path.write_text(FILES[name], encoding="utf-8")
    return path


def test_a_file_that_is_cut_off_is_refused_or_still_lists_transformers(file: Path) -> None:
    content = file.read_bytes()

    assert not refused(file)
    outcomes = []
    for number in range(CUTS):
        file.write_bytes(content[: len(content) * number // CUTS])
        outcomes.append(refused(file))
    assert outcomes[: CUTS // 2] == [True] * (CUTS // 2)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_name_or_version_is_refused_or_shown_harmlessly(file: Path, hostile: str) -> None:
    text = file.read_text(encoding="utf-8")
    for word in ("transformers", "4.50.0"):
        file.write_text(text.replace(word, hostile), encoding="utf-8")
        refused(file)


def test_a_file_of_fifty_megabytes_is_refused_at_once(file: Path) -> None:
    with file.open("ab") as opened:
        opened.truncate(50 * 2**20)

    assert refused(file)
    with pytest.raises(RunnerError, match=f"larger than {LIMIT >> 20} MB"):
        read(str(file))


def test_each_format_of_a_file_is_tried(tmp_path: Path) -> None:
    forms = set()
    for name, text in FILES.items():
        path = tmp_path / name.rpartition("/")[2]
        path.write_text(text, encoding="utf-8")
        forms.add(read(str(path)).form)

    assert forms == {*Form} - {Form.REQUIREMENTS, Form.PASTED}
