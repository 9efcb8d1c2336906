"""What `audit` reads of a folder, and what it says of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories import installed

from repromatrix.runner.audit.inputs import read
from repromatrix.runner.errors import ExitCode, RunnerError

MINE = "transformers==4.50.0\n"
POETRY = """
[[package]]
name = "transformers"
version = "4.51.0"
[metadata]
lock-version = "2.1"
"""


def _folder(here: Path, **files: str) -> Path:
    for name, text in files.items():
        (here / name.replace("__", ".")).write_text(text)
    return here


def test_the_lock_of_a_folder_is_read_and_the_rest_is_named(tmp_path: Path) -> None:
    _folder(tmp_path, poetry__lock=POETRY, requirements__txt=MINE)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "dev.txt").write_text(MINE)
    found = read(str(tmp_path))

    assert (found.what, found.version("transformers")) == (str(tmp_path / "poetry.lock"), "4.51.0")
    assert found.passed_over == (
        str(tmp_path / "requirements.txt"),
        str(tmp_path / "requirements" / "dev.txt"),
    )


def test_a_file_without_transformers_is_passed_over(tmp_path: Path) -> None:
    other = POETRY.replace("transformers", "numpy")
    _folder(tmp_path, poetry__lock=other, requirements__txt=MINE)
    found = read(str(tmp_path))

    assert found.what == str(tmp_path / "requirements.txt")
    assert found.passed_over == (str(tmp_path / "poetry.lock"),)


def test_without_a_path_this_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _folder(tmp_path, poetry__lock=POETRY, requirements__txt=MINE)
    monkeypatch.chdir(tmp_path)
    found = read("")

    assert (found.what, found.passed_over) == ("poetry.lock", ("requirements.txt",))


def test_without_a_path_and_without_transformers_the_active_interpreter_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _folder(tmp_path, requirements__txt="numpy==2.2.4\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("repromatrix.runner.audit.inputs._active", lambda: Path("python"))
    monkeypatch.setattr("repromatrix.runner.audit.inputs._interpreter", lambda _: installed())

    assert read("").passed_over == ("requirements.txt",)


def _cut(folder: Path) -> str:
    _folder(folder, poetry__lock=POETRY[:30], requirements__txt=MINE)
    return f"{folder / 'poetry.lock'}: invalid TOML: "


def _nothing(folder: Path) -> str:
    return f"{folder}: nothing in this folder can be read. Name a lock, "


def _one_without(folder: Path) -> str:
    _folder(folder, requirements__txt="numpy==2.2.4\n")
    return f"{folder / 'requirements.txt'}: it lists 1 package, but not transformers. "


def _two_without(folder: Path) -> str:
    first, second = folder / "requirements.txt", folder / "requirements-dev.txt"
    for path in (first, second):
        path.write_text("numpy==2.2.4\n")
    return f"{folder}: transformers is in none of {first} and {second}. Every case is about "


@pytest.mark.parametrize("prepared", [_cut, _nothing, _one_without, _two_without])
def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, prepared: object) -> None:
    assert callable(prepared)
    said = prepared(tmp_path)

    with pytest.raises(RunnerError) as error:
        read(str(tmp_path))
    assert str(error.value).startswith(said)
    assert error.value.code is ExitCode.BAD_INPUT
