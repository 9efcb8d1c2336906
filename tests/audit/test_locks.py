"""Locks and lists that real tools made from known requirements, and small ones of each version."""

from __future__ import annotations

from pathlib import Path

import pytest

from repromatrix.runner.audit.inputs import read
from repromatrix.runner.audit.packages import Other
from repromatrix.runner.errors import ExitCode, RunnerError

LOCKS = Path(__file__).parent.parent / "fixtures" / "locks"
HELD = {
    "transformers": "4.50.0",
    "torch": "2.6.0",
    "numpy": "2.2.4",
    "peft": "0.15.1",
    "tokenizers": "0.21.1",
    "huggingface-hub": "0.29.3",
}
DEVELOPED = HELD | {"pytest": "8.3.5"}


@pytest.mark.parametrize(
    ("name", "form", "pins"),
    [
        ("pdm-4.5/pdm.lock", "pdm.lock", DEVELOPED),
        ("pdm-4.4/pdm.lock", "pdm.lock", HELD),
        # Before 4.4 a package does not say for whom it is.
        ("pdm-4.0/pdm.lock", "pdm.lock", HELD | {"colorama": "0.4.6"}),
        ("poetry-2.1/poetry.lock", "poetry.lock", DEVELOPED),
        ("pipenv/Pipfile.lock", "Pipfile.lock", DEVELOPED),
        ("uv/uv.lock", "uv.lock", DEVELOPED),
        ("pip/pylock.toml", "pylock.toml", HELD),
    ],
)
def test_what_a_tool_locked_is_read_for_this_platform(
    name: str, form: str, pins: dict[str, str]
) -> None:
    found = read(str(LOCKS / name))

    assert (found.form, found.pins, found.whole) == (form, pins, True)


def test_a_lock_for_several_targets_keeps_what_is_for_the_others() -> None:
    found = read(str(LOCKS / "pdm-4.5" / "pdm.lock"))

    assert found.conditional
    assert found.others == (
        Other("colorama", "0.4.6", 'os_name == "nt" or sys_platform == "win32"'),
        Other("numpy", "1.26.0", 'sys_platform == "win32"'),
    )


PDM = """
[metadata]
lock_version = "VERSION"

[[package]]
name = "Transformers"
version = "4.50.0"

[[package]]
name = "trl"
version = "0.16.0"
git = "https://example.org/trl"

[[package]]
name = "mine"
version = "0.1.0"
path = "./mine"
"""
AN_ADDRESS = {
    "trl": "an address (git), not a version",
    "mine": "an address (path), not a version",
}


@pytest.mark.parametrize("version", ["3.1", "4.0", "4.1", "4.2", "4.3", "4.4.2", "4.5.0"])
def test_every_version_of_a_pdm_lock_is_read(tmp_path: Path, version: str) -> None:
    path = tmp_path / "other.lock"
    path.write_text(PDM.replace("VERSION", version))
    found = read(str(path))

    assert (found.form, found.pins) == ("pdm.lock", {"transformers": "4.50.0"})
    assert found.loose == AN_ADDRESS


PIPFILE = """{
    "_meta": {"pipfile-spec": 6},
    "default": {
        "transformers": {"version": "==4.50.0"},
        "trl": {"git": "https://example.org/trl", "ref": "0"},
        "mine": {"editable": true, "path": "."},
        "peft": {"version": "*"},
        "numpy": {"markers": "os_name == 'nt'", "version": "==1.26.0"}
    },
    "train": {"torch": {"version": "==2.6.0"}}
}"""


def test_every_category_of_a_pipfile_lock_is_read(tmp_path: Path) -> None:
    (tmp_path / "Pipfile.lock").write_text(PIPFILE)
    found = read(str(tmp_path / "Pipfile.lock"))

    assert found.pins == {"transformers": "4.50.0", "torch": "2.6.0"}
    assert found.loose == AN_ADDRESS | {"peft": "*, not a pin"}
    assert found.others == (Other("numpy", "1.26.0", "os_name == 'nt'"),)


BAD = {
    "another version of pdm": (
        "pdm.lock",
        PDM.replace("VERSION", "5.0"),
        ": `lock_version` is 5.0; 3 and 4 can be read. Lock it with pdm 2.",
    ),
    "no version of pdm": (
        "pdm.lock",
        "[metadata]\n",
        ": it has no `lock_version`; 3 and 4 can be read. Lock it with pdm 2.",
    ),
    "pdm without packages": (
        "pdm.lock",
        '[metadata]\nlock_version = "4.5.0"\n',
        ": it has no packages. The file may be cut off: make it again.",
    ),
    "another version of pipenv": (
        "Pipfile.lock",
        PIPFILE.replace("6", "7", 1),
        ": `pipfile-spec` is 7; 6 can be read. Lock it with a newer pipenv.",
    ),
    "a Pipfile.lock cut off": (
        "Pipfile.lock",
        PIPFILE[:200],
        ": line 6: invalid JSON: ",
    ),
    "a Pipfile.lock without packages": (
        "Pipfile.lock",
        '{"_meta": {"pipfile-spec": 6}, "default": {}}',
        ": it has no packages. The file may be cut off: make it again.",
    ),
    "an odd package of pipenv": (
        "Pipfile.lock",
        '{"_meta": {"pipfile-spec": 6}, "default": {"\\u001b[31m": 3}}',
        ": �[31m: it is not a table. The file may be cut off: make it again.",
    ),
    "JSON nested too deeply": (
        "Pipfile.lock",
        '{"_meta": ' + "[" * 100_000,
        ": it is nested too deeply. The file may be cut off: make it again.",
    ),
    "half a character": (
        "Pipfile.lock",
        PIPFILE.replace("trl", "\\ud800"),
        ": invalid JSON: half of a character (an unpaired surrogate). ",
    ),
    "a hostile marker": (
        "Pipfile.lock",
        PIPFILE.replace("os_name == 'nt'", "(" * 9000),
        ": the marker '" + "(" * 59 + "…' is not one of PEP 508 (",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path, kind: str) -> None:
    name, text, said = BAD[kind]
    (tmp_path / name).write_text(text)

    with pytest.raises(RunnerError) as error:
        read(str(tmp_path / name))
    assert str(error.value).startswith(f"{tmp_path / name}{said}")
    assert error.value.code is ExitCode.BAD_INPUT
