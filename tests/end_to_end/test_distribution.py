"""The wheel: what is in it, and what it answers without this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from programs import finished

from repromatrix.commands import COMMANDS
from repromatrix.runner.environments import uv
from repromatrix.runner.environments.lock_files import lock_bytes, lock_names
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT = 5_000_000
"""Bytes of the wheel."""
HELD = (
    *("cases/*.py", "docs/*.md", "environments/*.toml", "runner/**/*.py"),
    *("reports/published/**/*.*", "reports/static/*.*", "reports/templates/*.jinja"),
)
LISTED = "transformers==4.50.3\naccelerate==1.6.0\n"
UVX_SECONDS = 600
WANTED = ("gemma3_trainer_eval", "--precision", "bf16")
SEEN = """
import sys
from repromatrix.runner.cli import main
try:
    main()
finally:
    print(sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build a wheel or a source distribution of a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=600)
    return next(folder.iterdir())


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    return build("wheel", ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def packages(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of packages that holds what the wheel does, and nothing may be written to."""
    folder = tmp_path_factory.mktemp("installed") / "site-packages"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    return folder


def call(
    packages: Path,
    folder: Path,
    *arguments: str,
    start: Sequence[str] = ("-m", "repromatrix"),
    environ: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """Call the program of a folder of packages, from elsewhere, without a home."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    # Nothing may be written among the packages, also no bytecode; without any, each call compiles.
    kept |= {"PYTHONPATH": str(packages), "PYTHONPYCACHEPREFIX": str(packages.parent / "bytecode")}
    kept |= {"HOME": "/nonexistent", "COLUMNS": "120", **environ}
    return finished([sys.executable, *start, *arguments], cwd=folder, env=kept)


def test_the_wheel_is_small_and_holds_one_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}

    assert wheel.stat().st_size <= LIMIT
    assert {top for top in tops if not top.endswith(".dist-info")} == {"repromatrix"}
    assert [name for name in names if "/_drafts/" in name or "/site/" in name] == []


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    archive = build("sdist", ROOT, tmp_path / "sdist")
    shutil.unpack_archive(archive, tmp_path, filter="data")
    again = build("wheel", tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path / "wheel")

    held, rebuilt = (
        {file.filename: file.CRC for file in zipfile.ZipFile(each).infolist()}
        for each in (wheel, again)
    )
    assert rebuilt == held


def test_the_wheel_holds_what_a_checkout_does(wheel: Path) -> None:
    names = {*zipfile.ZipFile(wheel).namelist()}
    missing = [
        path
        for pattern in HELD
        for path in ROOT.glob(pattern)
        if path.is_file() and f"repromatrix/{path.relative_to(ROOT).as_posix()}" not in names
    ]

    assert missing == []


def test_the_wheel_packs_the_locks_of_the_checkout(packages: Path) -> None:
    folder = packages / "repromatrix" / "environments" / "locks"

    packed = {name: lock_bytes(folder, name) for name in lock_names(folder)}

    assert not folder.exists()
    assert packed == {path.stem: path.read_bytes() for path in Paths().locks.glob("*.txt")}
    assert lock_bytes(folder, "4.48.0") is None


def test_an_installation_audits_without_torch_pandas_and_a_home(
    packages: Path, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(LISTED, encoding="utf-8")

    done = call(packages, tmp_path, "audit", "requirements.txt", start=("-c", SEEN))

    modules = {*done.stderr.splitlines()[-1].strip("[]").replace("'", "").split(", ")}
    assert done.returncode == 1, done.stderr
    assert "known bugs" in done.stdout
    assert modules & {"torch", "transformers", "pandas", "jinja2", "nox", "rich", "uv"} == set()
    assert modules & {"http", "ssl"} == set()
    assert modules & {"runner", "reports"} == set()
    assert [path.name for path in tmp_path.iterdir()] == ["requirements.txt"]


def test_an_installation_answers_again_from_what_it_kept(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(LISTED, encoding="utf-8")
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    asked = ("audit", "requirements.txt", "--format", "json")

    first, again = (call(packages, tmp_path, *asked, environ=own) for _ in range(2))
    alone = call(packages, tmp_path, *asked)

    assert first.returncode == 1, first.stderr
    assert first.stdout == again.stdout == alone.stdout
    assert [path.name for path in (tmp_path / "cache" / "repromatrix").iterdir()] == ["index"]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("advise", "--case", "gemma3_trainer_eval"), 0, "transformers>=4.51"),
        (("results", "--case", "gemma3_trainer_eval", "--release", "4.50.0"), 0, "HybridCache"),
        (("diff", "4.50.3", "4.51.0", "--case", "gemma3_trainer_eval"), 1, "0 broken, 6 fixed"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_installation_answers_from_its_evidence(
    packages: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    done = call(packages, tmp_path, *arguments)

    assert (done.returncode, told in done.stdout) == (code, True), done.stdout + done.stderr


def test_a_plain_case_is_a_script_that_stands_alone(packages: Path, tmp_path: Path) -> None:
    wanted = ("--plain", "--precision", "bf16")

    done = call(packages, tmp_path, "case", "gemma3_trainer_eval", *wanted)

    compile(done.stdout, "plain", "exec")
    assert "tool.repromatrix" not in done.stdout
    assert "sys.argv" not in done.stdout
    assert len(done.stdout.splitlines()) <= 35


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("matrix", "--help"), "matrix: the command needs a checkout of repromatrix."),
        (
            ("diff", "4.50.3", "4.51.0", "--rerun"),
            "--rerun: `diff` runs nothing without a checkout of repromatrix.",
        ),
    ],
)
def test_what_needs_a_checkout_says_so(
    packages: Path, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    done = call(packages, tmp_path, *arguments)

    fix = f"Clone the repository and run `nox -s {arguments[0]}` in it."
    assert (done.returncode, done.stderr) == (2, f"{told} {fix}\n")


def test_the_help_shows_what_is_offered(packages: Path, tmp_path: Path) -> None:
    done = call(packages, tmp_path, "--help")
    offered = [command for command in COMMANDS if f"│ {command.name} " in done.stdout]

    assert "Usage: repromatrix [OPTIONS]" in done.stdout
    assert offered == [command for command in COMMANDS if command.is_installed]


@pytest.fixture(scope="session")
def ran(
    packages: Path, places: Paths, tmp_path_factory: pytest.TempPathFactory
) -> subprocess.CompletedProcess[str]:
    """Return what `run` of one cell printed; from then on its environment is built."""
    kept = {"HOME": str(Path.home()), "REPROMATRIX_ENVIRONMENTS": str(places.built)}
    folder = tmp_path_factory.mktemp("ran")
    return call(packages, folder, "run", *WANTED, "--release", "4.50.0", environ=kept)


@pytest.mark.builds
def test_run_builds_a_release_in_which_the_plain_case_fails_by_itself(
    ran: subprocess.CompletedProcess[str], packages: Path, tmp_path: Path, places: Paths
) -> None:
    script = call(packages, tmp_path, "case", *WANTED, "--plain").stdout
    (tmp_path / "plain.py").write_text(script, encoding="utf-8")
    alone = _out(tmp_path, places.built / "4.50.0" / "bin" / "python", "plain.py")

    raised = "AttributeError: 'HybridCache' object has no attribute 'float'"
    assert (ran.returncode, ran.stdout) == (
        0,
        f"gemma3_trainer_eval bf16 on 4.50.0: fails: {raised} (as-expected)\n",
    )
    assert (alone.returncode, alone.stderr.splitlines()[-1]) == (1, raised)


MODEL = """
import sys
import repromatrix
print(len(repromatrix.doctor().hits) > 0, "torch" in sys.modules)
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig
tiny = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
found = repromatrix.doctor(Gemma3ForCausalLM(Gemma3TextConfig(**tiny)).to(torch.bfloat16))
read = found.model
print(read.name, *read.types, *read.dtypes, read.device, read.attention, read.can_generate)
print({cell.precision for hit in found.hits for cell in hit.stands} == {"bf16"})
hits = {hit.case.name for hit in found.hits}
print(found.versions["transformers"], "gemma3_trainer_eval" in hits)
"""


@pytest.mark.builds
def test_doctor_reads_a_real_model_and_imports_no_torch_for_it(
    ran: subprocess.CompletedProcess[str], wheel: Path, tmp_path: Path, places: Paths
) -> None:
    assert ran.returncode == 0, ran.stderr
    python = places.built / "4.50.0" / "bin" / "python"
    beside = ("--python", python, "--target", tmp_path / "beside")
    installed = uv.call("pip", "install", *beside, wheel, seconds=UVX_SECONDS)
    assert installed.code == 0, installed.err
    told = finished(
        [python, "-c", MODEL],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "beside"), "HOME": str(tmp_path)},
    )

    assert told.stdout.splitlines() == [
        "True False",
        "Gemma3ForCausalLM gemma3_text bfloat16 cpu sdpa True",
        "True",
        "4.50.0 True",
    ], told.stderr


@pytest.mark.builds
def test_a_fresh_virtualenv_has_the_command_and_the_api(wheel: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    for words in (
        ("venv", "--python", sys.executable, tmp_path / "venv"),
        ("pip", "install", "--python", python, wheel),
    ):
        done = uv.call(*words, seconds=UVX_SECONDS)
        assert done.code == 0, done.err
    (tmp_path / "requirements.txt").write_text(LISTED, encoding="utf-8")
    asked = "import repromatrix; print(len(repromatrix.audit('requirements.txt').hits) > 0)"

    by_name = _out(tmp_path, python.with_name("repromatrix"), "audit", "requirements.txt")
    by_module = _out(tmp_path, python, "-m", "repromatrix", "audit", "requirements.txt")
    refused = _out(tmp_path, python.with_name("repromatrix"), "report")

    assert (by_name.returncode, by_name.stdout) == (1, by_module.stdout)
    assert _out(tmp_path, python, "-c", asked).stdout == "True\n"
    assert refused.stderr == (
        "report: it needs jinja2 and pandas. Install them: `pip install 'repromatrix[site]'`.\n"
    )


@pytest.mark.whole
@pytest.mark.builds
def test_uvx_audits_with_nothing_installed_and_again_from_its_cache(
    wheel: Path, tmp_path: Path
) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text(LISTED, encoding="utf-8")
    own = {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_TOOL_DIR": str(tmp_path / "tools")}
    asked = ("--python", sys.executable, "--from", wheel, "repromatrix", "audit", listed)

    first = uv.call("tool", "run", *asked, told=own, seconds=UVX_SECONDS)
    again = uv.call("tool", "run", "--offline", *asked, told=own, seconds=UVX_SECONDS)

    assert (first.code, again.code) == (1, 1), first.err + again.err
    assert "known bugs" in first.out
    assert again.out == first.out


def _out(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return finished(command, cwd=folder)
