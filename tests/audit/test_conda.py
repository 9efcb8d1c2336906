"""Sets of packages as the tools of conda write them, one small file per version of a format."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from repromatrix.runner.audit.inputs import platform, read
from repromatrix.runner.audit.packages import Other
from repromatrix.runner.errors import ExitCode, RunnerError

CHANNEL = "https://conda.example.org/conda-forge"
CONDA_LOCK = """
version: 1
metadata:
  platforms: [linux-64, osx-arm64]
package:
- {name: python, version: 3.12.4, manager: conda, platform: linux-64}
- {name: pytorch, version: 2.6.0, manager: conda, platform: linux-64}
- {name: transformers, version: 4.50.0, manager: pip, platform: linux-64, category: main}
- {name: pytest, version: 8.10, manager: conda, platform: linux-64, category: dev}
- {name: trl, version: 0.16.0, manager: pip, platform: linux-64, url: "git+ssh://example.org/trl"}
- {name: pytorch, version: 2.5.1, manager: conda, platform: osx-arm64}
- {name: transformers, version: 4.50.0, manager: pip, platform: osx-arm64}
"""
PIXI_6 = f"""
version: 6
environments:
  default:
    channels:
    - url: {CHANNEL}/
    packages:
      linux-64:
      - conda: {CHANNEL}/linux-64/python-3.12.4-h1_0.conda
      - conda: {CHANNEL}/noarch/pytorch-2.6.0-cpu_generic_py312_h1_0.conda
      - pypi: https://files.example.org/transformers-4.50.0-py3-none-any.whl
      - pypi: ./
      osx-arm64:
      - conda: {CHANNEL}/osx-arm64/pytorch-2.5.1-h1_0.conda
      - pypi: https://files.example.org/transformers-4.50.0-py3-none-any.whl
  gpu:
    packages:
      linux-64:
      - conda: {CHANNEL}/linux-64/pytorch-2.7.0-h2_0.tar.bz2
      - pypi: https://files.example.org/transformers-4.51.0-py3-none-any.whl
packages:
- conda: {CHANNEL}/linux-64/python-3.12.4-h1_0.conda
  sha256: "00"
- conda: {CHANNEL}/noarch/pytorch-2.6.0-cpu_generic_py312_h1_0.conda
- conda: {CHANNEL}/osx-arm64/pytorch-2.5.1-h1_0.conda
- conda: {CHANNEL}/linux-64/pytorch-2.7.0-h2_0.tar.bz2
- pypi: https://files.example.org/transformers-4.50.0-py3-none-any.whl
  name: transformers
  version: 4.50.0
- pypi: https://files.example.org/transformers-4.51.0-py3-none-any.whl
  name: transformers
  version: 4.51.0
- pypi: ./
  name: mine
  version: 0.1.0
  editable: true
"""
PIXI_5 = f"""
version: 5
environments:
  default:
    packages:
      linux-64:
      - conda: {CHANNEL}/linux-64/pytorch-2.6.0-h1_0.conda
      - pypi: https://files.example.org/transformers-4.50.0-py3-none-any.whl
packages:
- kind: conda
  name: pytorch
  version: 2.6.0
  url: {CHANNEL}/linux-64/pytorch-2.6.0-h1_0.conda
- kind: pypi
  name: transformers
  version: 4.50.0
  url: https://files.example.org/transformers-4.50.0-py3-none-any.whl
"""
PIXI_7 = PIXI_5.replace("version: 5", "version: 7\nplatforms:\n- name: mine\n  subdir: linux-64", 1)
PIXI_7 = PIXI_7.replace("linux-64:", "mine:").replace(
    "- kind: conda\n  name: pytorch", "- conda: x"
)
PIXI_7 = PIXI_7.replace("- conda: x\n  version: 2.6.0\n  url:", "- conda:")
PIXI_7 = PIXI_7.replace("- kind: pypi\n  name: transformers\n  version: 4.50.0\n  url:", "- pypi:")
PIXI_7 += "  name: transformers\n  version: 4.50.0\n"
ENVIRONMENT = """
name: mine
channels: [conda-forge]
dependencies:
- python=3.12
- conda-forge::pytorch=2.6.0=*cuda*
- numpy=1.26
- tokenizers ==0.21.1
- peft>=0.15
- accelerate
- pip
- pip:
  - transformers==4.50.0
  - -r more.txt
  - colorama==0.4.6; python_version < "3.12"
"""
LIST = [
    {"name": "python", "version": "3.12.4", "channel": "conda-forge"},
    {"name": "pytorch", "version": "2.6.0", "channel": "conda-forge"},
    {"name": "transformers", "version": "4.50.0", "channel": "pypi"},
    {"name": "mine", "version": "0.1.0", "channel": "<develop>"},
]
HELD = {"transformers": "4.50.0", "torch": "2.6.0"}


@pytest.fixture(autouse=True)
def _on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    here = platform() | {"sys_platform": "linux", "platform_machine": "x86_64"}
    monkeypatch.setattr("repromatrix.runner.audit.inputs.platform", lambda: here)


def _written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_conda_lock_is_read_for_this_platform_with_the_names_of_pypi(tmp_path: Path) -> None:
    found = read(_written(tmp_path, "mine.conda-lock.yml", CONDA_LOCK))

    assert (found.form, found.python, found.whole) == ("conda-lock.yml", "3.12", True)
    assert found.pins == HELD | {"pytest": "8.10"}
    assert found.loose == {"trl": "an address (git+ssh), not a version"}
    assert found.others == (Other("torch", "2.5.1", "osx-arm64"),)
    assert found.markers["python_version"] == "3.12"


def test_the_only_platform_of_a_lock_is_read_wherever_we_are(tmp_path: Path) -> None:
    text = CONDA_LOCK.replace("linux-64", "osx-arm64")
    found = read(_written(tmp_path, "conda-lock.yml", text.replace("2.5.1", "2.6.0")))

    assert found.pins == HELD | {"pytest": "8.10"}
    assert (found.markers["sys_platform"], found.markers["os_name"]) == ("darwin", "posix")


def test_an_environment_of_a_pixi_lock_is_read_and_the_others_are_told(tmp_path: Path) -> None:
    path = _written(tmp_path, "pixi.lock", PIXI_6)
    found, gpu = read(path), read(path, "gpu")

    assert (found.form, found.python, found.pins) == ("pixi.lock", "3.12", HELD)
    assert found.loose == {"mine": "an address (path), not a version"}
    assert found.others == (
        Other("torch", "2.5.1", "osx-arm64"),
        Other("torch", "2.7.0", "environment gpu"),
        Other("transformers", "4.51.0", "environment gpu"),
    )
    assert gpu.pins == {"transformers": "4.51.0", "torch": "2.7.0"}


@pytest.mark.parametrize(
    "text", [PIXI_5, PIXI_5.replace("version: 5", "version: 4", 1), PIXI_7], ids=["5", "4", "7"]
)
def test_every_version_of_a_pixi_lock_is_read(tmp_path: Path, text: str) -> None:
    assert read(_written(tmp_path, "pixi.lock", text)).pins == HELD


def test_what_conda_is_asked_for_pins_what_it_names_exactly(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("safetensors==0.5.3\n")
    found = read(_written(tmp_path, "environment.yml", ENVIRONMENT))

    assert (found.form, found.python, found.whole) == ("environment.yml", "3.12", False)
    assert found.pins == HELD | {"tokenizers": "0.21.1", "safetensors": "0.5.3"}
    assert found.loose == {
        "numpy": "=1.26, not a pin",
        "peft": ">=0.15, not a pin",
        "accelerate": "any version, not a pin",
        "pip": "any version, not a pin",
    }


def test_what_conda_lists_is_read(tmp_path: Path) -> None:
    found = read(_written(tmp_path, "list.json", json.dumps(LIST)))

    assert (found.form, found.python, found.pins) == ("list of packages in JSON", "3.12", HELD)
    assert found.loose == {"mine": "an address (editable), not a version"}


def test_what_pip_lists_is_read() -> None:
    path = Path(__file__).parent.parent / "fixtures" / "locks" / "pip" / "list.json"

    assert read(str(path)).pins["transformers"] == "4.50.0"
    assert read(str(path)).version("torch") == "2.6.0"


AGAIN = " The file may be cut off: make it again."
TWO = PIXI_6.replace("  default:", "  cpu:")
BAD = {
    "another conda-lock": (
        "conda-lock.yml",
        CONDA_LOCK.replace("version: 1", "version: 9", 1),
        ": `version` is 9; 1 can be read. Lock it with conda-lock 1 or newer.",
    ),
    "a conda-lock cut off": (
        "conda-lock.yml",
        CONDA_LOCK[:200],
        ": line 8: invalid YAML: ",
    ),
    "another pixi": (
        "pixi.lock",
        PIXI_6.replace("version: 6", "version: 3", 1),
        ": `version` is 3; 4 to 7 can be read. Lock it with another pixi.",
    ),
    "a pixi.lock cut off between packages": (
        "pixi.lock",
        PIXI_6[: PIXI_6.rindex("- pypi: ./")],
        f": it has no package for './' of an environment.{AGAIN}",
    ),
    "several environments": (
        "pixi.lock",
        TWO,
        ": it holds several environments: cpu and gpu. Name one with --environment.",
    ),
    "other platforms": (
        "conda-lock.yml",
        CONDA_LOCK.replace("linux-64", "win-64"),
        ": it holds packages for win-64 and osx-arm64, but not for linux-64. Run audit on one of",
    ),
    "aliases": (
        "environment.yml",
        "a: &a [x, x]\nb: &b [*a, *a]\ndependencies: [*b]\n",
        ": line 2: the alias `*a` cannot be read. Write out what it stands for.",
    ),
    "a cycle": (
        "environment.yml",
        "dependencies: &a [*a]\n",
        ": line 1: the alias `*a` cannot be read. Write out what it stands for.",
    ),
    "two documents": (
        "environment.yml",
        f"{ENVIRONMENT}---\n{ENVIRONMENT}",
        ": line 16: a second document begins here. Make a file for each environment.",
    ),
    "no dependencies": ("environment.yml", "name: x\n", f": it has no dependencies.{AGAIN}"),
    "a dependency that is none": (
        "environment.yml",
        "dependencies:\n- =1\n",
        ": dependency 1: cannot read '=1'. A dependency is a package, such as `name=1.2.3`.",
    ),
    "deep": ("environment.yml", "[" * 500, ": line 1: it is nested too deeply. "),
    "an unknown YAML": ("ci.yml", "jobs: 1\n", ": it is YAML, and not of a tool that is known"),
    "a package without a version": (
        "list.json",
        '[{"name": "transformers"}]',
        f": package 1: it has no name or no version.{AGAIN}",
    ),
    "nothing listed": ("list.json", "[]", f": it has no packages.{AGAIN}"),
    "no JSON": ("list.json", "", f": it is not JSON.{AGAIN}"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_of_conda_that_cannot_be_read_is_refused(tmp_path: Path, kind: str) -> None:
    name, text, said = BAD[kind]
    path = _written(tmp_path, name, text)

    with pytest.raises(RunnerError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}{said}")
    assert error.value.code is ExitCode.BAD_INPUT


def test_an_environment_that_a_lock_does_not_have_is_refused(tmp_path: Path) -> None:
    pixi = _written(tmp_path, "pixi.lock", TWO)
    other = _written(tmp_path, "requirements.txt", "transformers==4.50.0\n")

    with pytest.raises(RunnerError) as error:
        read(pixi, "tpu")
    assert (
        str(error.value) == f"--environment: invalid value 'tpu'; expected cpu or gpu, in {pixi}."
    )
    with pytest.raises(RunnerError) as error:
        read(other, "gpu")
    assert str(error.value) == (
        f"--environment gpu: {other} has no environments with names. Leave it out."
    )


def test_a_file_of_many_values_is_refused_in_seconds(tmp_path: Path) -> None:
    path = _written(tmp_path, "environment.yml", "[" + "a," * 3_000_000 + "a]")
    begin = time.process_time()

    with pytest.raises(RunnerError, match="more than 1,500,000 values"):
        read(path)
    assert time.process_time() - begin < 10
