"""Locks, lists and interpreters: as their tools write them, and as nobody should."""

from __future__ import annotations

import importlib.metadata
import io
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uv import find_uv_bin

from repromatrix.runner.audit import inputs
from repromatrix.runner.audit.inputs import read
from repromatrix.runner.audit.packages import Other
from repromatrix.runner.audit.render import read_for
from repromatrix.runner.errors import RunnerError

PROJECT = """
[project]
name = "mine"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = [
    "transformers==4.50.0",
    "torch",
    "numpy<2; sys_platform == 'win32'",
    "numpy>=2; sys_platform != 'win32'",
]
[project.optional-dependencies]
lora = ["peft"]
"""
WHEELS = {
    ("transformers", "4.50.0"): ("tokenizers", "huggingface-hub", "colorama; os_name == 'nt'"),
    ("transformers", "4.51.0"): (),
    ("tokenizers", "0.21.1"): (),
    ("huggingface-hub", "0.29.3"): (),
    ("colorama", "0.4.6"): (),
    ("torch", "2.6.0"): (),
    ("peft", "0.15.1"): ("transformers",),
    ("numpy", "1.26.0"): (),
    ("numpy", "2.2.4"): (),
}
HELD = {
    "transformers": "4.50.0",
    "torch": "2.6.0",
    "numpy": "2.2.4",
    "peft": "0.15.1",
    "tokenizers": "0.21.1",
    "huggingface-hub": "0.29.3",
}
POETRY = """
[[package]]
name = "transformers"
version = "4.50.0"
optional = false
groups = ["main"]
files = []

[[package]]
name = "Tokenizers"
version = "0.21.1"
markers = "sys_platform != 'win32'"

[[package]]
name = "numpy"
version = "1.26.0"
markers = { main = "sys_platform == 'win32'", dev = "os_name == 'nt'" }

[[package]]
name = "torch"
version = "2.6.0"
[package.source]
type = "git"
url = "https://example.org/torch"

[metadata]
lock-version = "2.1"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project that uv has locked, from wheels that hold nothing but their metadata."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "links").mkdir()
    for (name, version), needs in WHEELS.items():
        stem = f"{name.replace('-', '_')}-{version}"
        with zipfile.ZipFile(folder / "links" / f"{stem}-py3-none-any.whl", "w") as wheel:
            lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
            lines += [f"Requires-Dist: {need}" for need in needs]
            wheel.writestr(f"{stem}.dist-info/METADATA", "\n".join(lines) + "\n")
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
    (folder / "pyproject.toml").write_text(PROJECT)
    _uv(folder, "lock")
    _uv(folder, "export", "--all-extras", "--format", "pylock.toml", "-o", "pylock.toml")
    _uv(folder, "export", "--all-extras", "-o", "requirements.txt")
    return folder


def _uv(folder: Path, command: str, *arguments: str) -> None:
    own = ["--offline", "--no-index", "--find-links", "links", "--no-config", "--quiet"]
    python = ["--python", sys.executable]
    subprocess.run(
        [find_uv_bin(), command, *own, *python, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("name", ["uv.lock", "pylock.toml", "requirements.txt"])
def test_what_uv_writes_is_read_for_this_platform(project: Path, name: str) -> None:
    found = read(str(project / name))

    assert found.pins == HELD
    assert found.whole


def test_a_lock_for_several_pythons_is_read_for_this_one_and_keeps_the_others(
    project: Path,
) -> None:
    folder = project / "several"
    folder.mkdir()
    (folder / "links").symlink_to(project / "links")
    needs = ["transformers==4.50.0; {} '3.11'", "transformers==4.51.0; {} '3.11'"]
    split = [needs[0].format("python_version >="), needs[1].format("python_version <")]
    (folder / "pyproject.toml").write_text(
        "[project]\nname = 'mine'\nversion = '0.1.0'\nrequires-python = '>=3.9'\n"
        f"dependencies = {split}\n"
    )
    _uv(folder, "lock")
    found = read(str(folder / "uv.lock"))

    assert found.pins["transformers"] == "4.50.0"
    assert found.conditional
    assert found.others == (
        Other("colorama", "0.4.6", "os_name == 'nt'"),
        Other("transformers", "4.51.0", "python_full_version < '3.11'"),
    )
    assert read_for(found) == (
        f"Read for Python {found.markers['python_version']} on linux; it also holds"
        " transformers 4.51.0 for python_full_version < '3.11'."
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "requirements.txt",
            "transformers==4.50.0; os_name == 'posix'\ntransformers==4.51.0; os_name == 'nt'\n",
        ),
        (
            "poetry.lock",
            POETRY + '[[package]]\nname = "transformers"\nversion = "4.51.0"\n'
            "markers = \"os_name == 'nt'\"\n",
        ),
    ],
)
def test_every_form_keeps_what_is_meant_for_others(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read(str(tmp_path / name))
    others = {one.package: (one.version, one.marker.replace('"', "'")) for one in found.others}

    assert (found.conditional, found.pins["transformers"]) == (True, "4.50.0")
    assert others["transformers"] == ("4.51.0", "os_name == 'nt'")


def test_what_a_lock_of_pep_751_holds_for_windows_is_kept_apart(project: Path) -> None:
    (found,) = [one for one in read(str(project / "pylock.toml")).others if one.package[0] == "c"]

    assert (found.package, found.version, "'nt'" in found.marker.replace('"', "'")) == (
        "colorama",
        "0.4.6",
        True,
    )


def test_an_interpreter_and_what_it_freezes_hold_the_same(tmp_path: Path) -> None:
    environment = Path(sys.executable)
    frozen = subprocess.run(
        [environment, "-m", "pip", "freeze", "--all"], check=True, capture_output=True, text=True
    )
    path = tmp_path / "frozen.txt"
    path.write_text(frozen.stdout + "transformers==4.50.0\n")

    with pytest.raises(RunnerError, match="not transformers"):
        read(str(environment))
    assert read(str(path)).pins["packaging"] == importlib.metadata.version("packaging")


def test_a_lock_of_poetry_is_read_with_its_markers(tmp_path: Path) -> None:
    path = tmp_path / "poetry.lock"
    path.write_text(POETRY)
    found = read(str(path))

    assert found.pins == {"transformers": "4.50.0", "tokenizers": "0.21.1"}
    assert found.loose == {"torch": "an address (git), not a version"}


def test_what_an_extra_of_a_lock_may_bring_is_not_left_out(tmp_path: Path) -> None:
    path = tmp_path / "poetry.lock"
    extra = '[[package]]\nname = "peft"\nversion = "0.15.0"\noptional = true\n'
    path.write_text(f"{extra}markers = 'extra == \"train\"'\n\n{POETRY}")

    assert read(str(path)).pins["peft"] == "0.15.0"


REQUIREMENTS = """\
# a comment
--index-url https://example.org/simple
-r more.txt
Transformers==4.50.0 \\
    --hash=sha256:00 \\
    --hash=sha256:11  # why
torch>=2.6
numpy==1.26.0 ; sys_platform == 'win32'
peft @ git+https://example.org/peft
-e git+https://example.org/trl@main#egg=trl
https://example.org/accelerate-1.5.2-py3-none-any.whl
safetensors==0.5.*
regex===2024.11.6
"""


def test_a_requirements_file_is_read_as_pip_reads_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("\ufeff" + REQUIREMENTS)
    (tmp_path / "more.txt").write_text("-r requirements.txt\ntokenizers==0.21.1\n")
    found = read(str(tmp_path / "requirements.txt"))

    assert found.pins == {
        "transformers": "4.50.0",
        "tokenizers": "0.21.1",
        "accelerate": "1.5.2",
        "regex": "2024.11.6",
    }
    assert found.loose == {
        "torch": ">=2.6, not a pin",
        "peft": "an address, not a version",
        "trl": "an address, not a version",
        "safetensors": "==0.5.*, not a pin",
    }
    assert found.ranges == {"torch": ">=2.6", "safetensors": "==0.5.*"}
    assert not found.whole


def test_two_versions_of_one_package_are_a_pin_of_none(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("transformers==4.50.0\ntransformers==4.51.0\n")

    assert read(str(path)).loose == {"transformers": "several versions: 4.50.0, 4.51.0"}


def test_builds_of_one_version_are_one_version(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("transformers==4.50.0+cc\ntorch==2.7.1+cpu\ntorch==2.7.1+cu128\n")

    assert read(str(path)).pins == {"transformers": "4.50.0", "torch": "2.7.1"}


def test_a_line_that_may_say_a_version_and_is_not_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("--pre\n-i https://x.org\ntransformers==4.50.0\n-c pins.txt\n")

    assert read(str(path)).notes == ("Not read: 1 line, such as '-c pins.txt'.",)


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    given_in = SimpleNamespace(buffer=io.BytesIO(b"transformers==4.50.0\n"))
    monkeypatch.setattr(inputs.sys, "stdin", given_in)  # type: ignore[attr-defined]

    assert read("-").pins == {"transformers": "4.50.0"}


def test_nothing_is_the_activated_virtualenv_and_then_the_python_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder in ("active", "path"):
        (tmp_path / folder / "bin").mkdir(parents=True)
        (tmp_path / folder / "bin" / "python").touch(mode=0o755)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    activated = inputs._active()
    monkeypatch.delenv("VIRTUAL_ENV")

    assert activated == tmp_path / "active" / "bin" / "python"
    assert inputs._active() == tmp_path / "path" / "bin" / "python"
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RunnerError, match="no python"):
        inputs._active()


@given(
    name=st.sampled_from(["uv.lock", "poetry.lock", "pylock.toml", "requirements.txt"]),
    place=st.integers(min_value=0, max_value=3000),
    wrong=st.text(max_size=6),
    length=st.integers(min_value=0, max_value=40),
)
def test_whatever_is_wrong_in_a_file_is_said_and_nothing_crashes(
    project: Path, name: str, place: int, wrong: str, length: int
) -> None:
    text = POETRY if name == "poetry.lock" else (project / name).read_text()
    path = project / "broken" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((text[:place] + wrong + text[place + length :]).encode(errors="replace"))

    try:
        found = read(str(path))
    except RunnerError as error:
        assert str(path) in str(error)  # noqa: PT017 - not all that is wrong is refused
    else:
        assert "transformers" in {*found.pins, *found.loose}


def test_the_files_of_a_lock_say_nothing_about_its_packages(project: Path, tmp_path: Path) -> None:
    lock = (project / "uv.lock").read_text()
    file = '    { url = "https://example.org/a.whl", hash = "sha256:00", size = 1 },\n'
    path = tmp_path / "uv.lock"
    path.write_text(lock.replace("wheels = [\n", f"wheels = [\n{file * 3}"))
    cut = tmp_path / "cut" / "uv.lock"
    cut.parent.mkdir()
    cut.write_text(path.read_text()[:400])

    assert read(str(path)).pins == HELD
    with pytest.raises(RunnerError, match=r"at line 14|at end of document"):
        read(str(cut))


@pytest.mark.parametrize(
    "address",
    [
        "git+https://example.org/accelerate",
        "-e git+https://example.org/accelerate@main",
        "./accelerate",
        "https://example.org/archive/main.zip",
    ],
)
def test_a_list_with_an_address_that_names_no_package_is_not_whole(
    tmp_path: Path, address: str
) -> None:
    path = tmp_path / "requirements.txt"
    lines = ["transformers==4.50.0", "tokenizers==0.21.1", "huggingface-hub==0.29.3"]
    path.write_text("\n".join(lines))
    whole = read(str(path))
    path.write_text("\n".join([*lines, address]))
    found = read(str(path))
    path.write_text("\n".join([*lines, "https://example.org/peft-0.15.0-py3-none-any.whl"]))
    wheel = read(str(path))

    assert (whole.whole, whole.nameless) == (True, 0)
    assert (found.whole, found.nameless, found.pins) == (False, 1, whole.pins)
    assert (wheel.whole, wheel.nameless, wheel.pins["peft"]) == (True, 0, "0.15.0")


MEGA = 2**20
LOCK = (
    'version = 1\n[[package]]\nname = "transformers"\nversion = "4.50.0"\n'
    'source = { registry = "x" }\n'
)
LONG: dict[str, tuple[str, str]] = {
    "hashes": ("uv.lock", LOCK + '    { url = "u", ' + 'hash = "' * (MEGA // 8) + "\n"),
    "ends of tables": ("uv.lock", LOCK + '    { url = "u", hash = "' + "}," * (MEGA // 2) + "}\n"),
    "parts of a key": ("uv.lock", "a." * (MEGA // 2)),
    "brackets": ("uv.lock", f'{LOCK}dependencies = [{{name="a", marker = "{"(" * MEGA}"}}]\n'),
    "extras": ("requirements.txt", "a[" + "b," * (MEGA // 2)),
    "room": ("requirements.txt", "-e " + " " * MEGA + "x y"),
    "a marker": ("requirements.txt", "a==1;" + "(" * MEGA),
}


@pytest.mark.parametrize("kind", LONG)
def test_a_line_of_a_megabyte_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    name, text = LONG[kind]
    path = tmp_path / name
    path.write_text(text)
    begin = time.process_time()

    with pytest.raises(RunnerError) as error:
        read(str(path))
    assert time.process_time() - begin < 1
    assert len(str(error.value)) < 1000


def test_the_kind_of_a_source_is_shown_and_obeyed_by_nobody(tmp_path: Path) -> None:
    path = tmp_path / "uv.lock"
    source = f'"\\u001b[31m{"k" * 99}" = "x"'
    path.write_text(f'{LOCK}[[package]]\nname = "odd"\nversion = "1"\nsource = {{ {source} }}\n')

    assert read(str(path)).loose == {"odd": f"an address (�[31m{'k' * 34}…), not a version"}
