"""A bundle: what it is for, what lies in it, and what becomes of it on another machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from factories import seen

from repromatrix.runner import project
from repromatrix.runner.environments import building
from repromatrix.runner.environments.building import Built, Recipe
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence import answers
from repromatrix.runner.model.outcomes import Exercised, Outcome, Precision, Verdict
from repromatrix.runner.paths import Paths
from repromatrix.tools.bundle import measure as installed
from repromatrix.tools.bundle.cli import _locked
from repromatrix.tools.bundle.measure import (
    InstalledTorch,
    Lines,
    carried,
    content,
    furnish,
    links,
    tree,
)
from repromatrix.tools.bundle.pack import Gathered, Target, gather, pack, tools
from repromatrix.tools.bundle.run import strange

if TYPE_CHECKING:
    from collections.abc import Sequence

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
FLASH = "4.49.0+flash-attn2.7.4.post1"
NUMPY = Recipe(
    name="numpy", digest="0" * 16, python="3.11", lock="numpy==2.2.4\n", torch="2.13.0", versions={}
)
HERE = Target(python=MINOR, platform=f"{os.uname().machine}-manylinux_2_17")


def write(folder: Path, **texts: str) -> Path:
    """Write files below a folder, each named by its path with `__` for `/`."""
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def gathered(tmp_path: Path) -> Gathered:
    """Gather two environments that share a file and differ in another."""
    found = Gathered()
    for name, version in (("4.50.0", "1"), ("4.51.0", "2")):
        folder = tmp_path / "installed" / name
        write(folder, one__same="same", one__version=version, bin__tool="x", one__tests__test="y")
        found.take(name, folder)
    return found


@pytest.fixture
def unpacked(gathered: Gathered, tmp_path: Path) -> Path:
    """Pack what was gathered for this machine, and unpack it."""
    ours = write(tmp_path / "tools", pydantic__init="tool")
    pack(Paths(), HERE, gathered, ours, tmp_path / "it.tar.xz", preset=0)
    with tarfile.open(tmp_path / "it.tar.xz") as archive:
        archive.extractall(tmp_path / "there", filter="data")
    return tmp_path / "there" / "it"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            Target(python="3.12", platform="x86_64-manylinux_2_28"),
            {"python": [3, 12], "machine": "x86_64", "glibc": [2, 28]},
        ),
        (
            Target(python="3.13", platform="aarch64-manylinux2014"),
            {"python": [3, 13], "machine": "aarch64", "glibc": [2, 17]},
        ),
    ],
)
def test_a_target_says_what_a_machine_must_be(target: Target, expected: dict[str, Any]) -> None:
    assert expected == target.facts


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        (["5.0.0"], ["5.0.0"]),
        (["5.0.0,4.50.0", "5.0.0+pillow+scipy"], ["4.50.0", "5.0.0", "5.0.0+pillow+scipy"]),
        ([">=4.50.2,<4.51.1"], ["4.50.2", "4.50.3", "4.51.0"]),
        (["4.53.3+peft0.15.2"], ["4.53.3+peft0.15.2"]),
    ],
)
def test_what_lies_on_top_of_a_release_is_carried_where_it_is_named(
    releases: Sequence[str], expected: list[str]
) -> None:
    assert expected == _locked(project.load(Paths()), releases)


def test_each_content_lies_in_a_bundle_once_and_every_tree_names_it(
    gathered: Gathered, unpacked: Path
) -> None:
    trees = {name: tree(unpacked, name) for name in carried(unpacked)}
    texts = {
        name: {path: content(unpacked, one).read_text() for path, one in files.items()}
        for name, files in trees.items()
    }

    assert trees == gathered.trees
    assert texts == {
        "4.50.0": {"one/same": "same", "one/version": "1"},
        "4.51.0": {"one/same": "same", "one/version": "2"},
    }
    assert len([path for path in (unpacked / "packages").rglob("*") if path.is_file()]) == 3


def test_a_bundle_holds_what_runs_cells_and_nothing_of_this_machine(unpacked: Path) -> None:
    tops = {path.name for path in unpacked.iterdir()}

    assert tops == {
        *("README.txt", "manifest.json", "run.py", "repromatrix", "cases", "environments"),
        *("tools", "trees", "packages"),
    }
    assert (unpacked / "cases" / "gemma3_trainer_eval.py").is_file()


def test_the_same_content_makes_the_same_bytes(gathered: Gathered, tmp_path: Path) -> None:
    ours = write(tmp_path / "tools", pydantic__init="tool")
    archive = tmp_path / "it.tar.xz"
    made = []
    for _ in range(2):
        pack(Paths(), HERE, gathered, ours, archive, preset=0)
        made.append(archive.read_bytes())

    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"python": [3, 99]}, [f"it needs Python 3.99, this is {MINOR}"]),
        ({"machine": "riscv64"}, [f"it needs riscv64, this is {os.uname().machine}"]),
        ({"glibc": [2, 99]}, ["it needs glibc 2.99 or newer, this has 2."]),
    ],
)
def test_a_bundle_names_what_of_a_machine_is_not_what_it_was_made_for(
    changed: dict[str, object], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: "found")
    found = strange({**HERE.facts, **changed})

    assert [re.sub(r"(?<=has 2\.)\d+$", "", one) for one in found] == expected


def test_a_bundle_refuses_to_run_where_it_was_not_made_for(unpacked: Path) -> None:
    about = json.loads((unpacked / "manifest.json").read_text())
    (unpacked / "manifest.json").write_text(json.dumps({**about, "python": [3, 99]}))
    before = sorted(unpacked.rglob("*"))
    done = subprocess.run(
        [sys.executable, "run.py", "--device", "cpu"],
        cwd=unpacked,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        f"This bundle was made for another machine: it needs Python 3.99, this is {MINOR}"
    )
    assert sorted(unpacked.rglob("*")) == before


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a torch with its accelerator packages on this Python's path, and a stranger."""
    packages = tmp_path / "site-packages"
    for name, needs in (
        ("torch-2.9.0+cu128", ["sympy", "nvidia-cublas ; extra != 'x'", "needless ; extra == 'y'"]),
        ("nvidia_cublas-12.8", []),
        ("triton-3.5", []),
        ("stranger-1.0", []),
        ("sympy-1.13", ["mpmath"]),
        ("mpmath-1.3", []),
    ):
        project, _, version = name.partition("-")
        top = project.partition("_")[0]
        info = f"{name}.dist-info"
        asked = "".join(f"Requires-Dist: {one}\n" for one in needs)
        write(packages / top, module="")
        (packages / info).mkdir()
        head = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
        (packages / info / "METADATA").write_text(head + asked)
        lines = [f"{top}/module,,", f"{info}/METADATA,,", "../../bin/tool,,", "evil.pth,,"]
        (packages / info / "RECORD").write_text("\n".join(lines))
    monkeypatch.setattr(sys, "path", [str(packages)])
    return packages


def test_torch_comes_from_the_machine_with_what_only_torch_needs(machine: Path) -> None:
    torch, found = installed.find_torch({"sympy"})

    assert torch == InstalledTorch(version="2.9.0+cu128", folder=machine)
    assert sorted(found) == [
        *("nvidia", "nvidia_cublas-12.8.dist-info", "torch", "torch-2.9.0+cu128.dist-info"),
        *("triton", "triton-3.5.dist-info"),
    ]


def test_an_environment_has_its_packages_torch_behind_them_and_nothing_else(
    unpacked: Path, machine: Path
) -> None:
    torch, found = installed.find_torch({"sympy"})
    installed.link(found, links(unpacked))
    built = furnish(unpacked, "4.51.0", torch, {"torch": torch.version})
    asked = (
        "import json, sys; from pathlib import Path; import importlib.util as u;"
        "print(json.dumps([[bool(u.find_spec(n)) for n in ('one', 'torch', 'stranger')],"
        " sys.pycache_prefix, sys.prefix]))"
    )
    done = subprocess.run(
        [built.python, "-c", asked], capture_output=True, text=True, check=True, cwd=machine.parent
    )
    kept = str(unpacked / "work" / "bytecode")
    packages = built.folder / "lib" / f"python{MINOR}" / "site-packages"

    assert json.loads(done.stdout) == [[True, True, False], kept, str(built.folder)]
    assert (packages / "one" / "version").samefile(
        content(unpacked, tree(unpacked, "4.51.0")["one/version"])
    )


def test_an_environment_is_made_anew_for_another_torch_only(unpacked: Path) -> None:
    torch = InstalledTorch(version="2.9.0", folder=unpacked)
    built = furnish(unpacked, "4.50.0", torch, {})
    mark = built.folder / "mark"
    found = []
    for version in ("2.9.0", "2.9.1"):
        mark.touch()
        furnish(unpacked, "4.50.0", InstalledTorch(version=version, folder=unpacked), {})
        found.append(mark.exists())

    assert found == [True, False]


def test_a_run_says_where_it_is_and_what_is_unexpected() -> None:
    said: list[str] = []
    lines = Lines(said.append)
    lines.began(1, 2)
    lines.measured(seen(Outcome.PASSES), Verdict.AS_EXPECTED)
    lines.measured(seen(Outcome.FAILS), Verdict.REGRESSED)
    lines.done("4.50.0")

    assert said == [
        "2 cells to run in 1 environment.",
        "  regressed: toy_breaks 4.50.0 bf16 cpu: fails: ValueError: it breaks",
        "  4.50.0: done, 2 of 2 cells so far",
    ]
    assert re.fullmatch(r"2 cells measured in \d+ s, 1 unexpected result\.", lines.summary)


@pytest.mark.builds
def test_a_package_without_a_wheel_there_is_named(tmp_path: Path) -> None:
    target = Target(python="3.14", platform="x86_64-manylinux_2_28")
    with pytest.raises(RunnerError) as caught:
        gather(Paths(), {"4.50.0": NUMPY}, target, tmp_path)

    (fault,) = caught.value.faults
    assert caught.value.code == ExitCode.UNBUILDABLE
    assert fault.where == "4.50.0"
    assert "Python 3.14 on x86_64-manylinux_2_28" in str(fault)
    assert "numpy==2.2.4 has no usable wheels" in fault.what


@pytest.mark.whole
@pytest.mark.builds
def test_a_package_that_has_no_wheel_anywhere_is_built_here_and_carried(tmp_path: Path) -> None:
    loaded = project.load(Paths())
    target = Target(python=loaded.matrix.python, platform=f"{os.uname().machine}-manylinux_2_28")
    recipes = {FLASH: project.recipe(loaded, FLASH)}
    gathered = gather(Paths(), recipes, target, tmp_path)
    own = {path for path in gathered.trees[FLASH] if path.startswith("flash_attn")}

    assert "flash_attn/ops/triton/rotary.py" in own
    assert not any(path.endswith(".so") for path in own)
    assert "transformers/__init__.py" in gathered.trees[FLASH]
    assert not any(path.startswith("torch/") for path in gathered.trees[FLASH])


@pytest.mark.builds
def test_what_was_compiled_for_this_machine_is_not_carried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = project.load(Paths())
    target = Target(python=loaded.matrix.python, platform=f"{os.uname().machine}-manylinux_2_28")
    sdists = project.recipe(loaded, FLASH).sdists

    built = Built(name=FLASH, folder=tmp_path, python=Path(sys.executable), versions={})

    def compiling(*arguments: Recipe | str | Path) -> None:
        write(Path(str(arguments[-1])), flash_attn__cuda="").joinpath("it.so").touch()

    monkeypatch.setattr(building, "build", lambda *_: built)
    monkeypatch.setattr(building, "install_sdists", compiling)
    with pytest.raises(RunnerError) as caught:
        gather(Paths(), {FLASH: replace(NUMPY, name=FLASH, sdists=sdists)}, target, tmp_path)

    (fault,) = caught.value.faults
    assert fault.what.endswith("compiled for this machine: it.so")


@pytest.mark.whole
def test_a_bundle_measures_beside_another_python_what_is_measured_here(tmp_path: Path) -> None:
    loaded = project.load(Paths())
    machine = building.build(Paths(), project.recipe(loaded, "4.51.0")).python
    target = Target(python=loaded.matrix.python, platform=f"{os.uname().machine}-manylinux_2_28")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    recipes = {"4.50.0": project.recipe(loaded, "4.50.0")}
    gathered = gather(Paths(), recipes, target, scratch)
    archive = tmp_path / "it.tar.xz"
    pack(Paths(), target, gathered, tools(target, scratch), archive, preset=0)
    shutil.rmtree(scratch)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    chosen = ["--case", "gemma3_trainer_eval", "--workaround", "none"]
    done = [
        subprocess.run(
            [machine, "run.py", "--device", device, *chosen],
            cwd=tmp_path / "it",
            env={**os.environ, "TMPDIR": "/nowhere"},
            capture_output=True,
            text=True,
            check=False,
        )
        for device in ("cpu", "cpu", "cuda")
    ]
    rows = answers.read_store(tmp_path / "it" / "evidence.sqlite")

    assert [one.returncode for one in done] == [0, 0, 2], done
    assert "3 cells to run in 1 environment." in done[0].stderr
    assert "0 cells to run in 0 environments." in done[1].stderr
    assert done[2].stderr == (
        "--device: this machine has no NVIDIA driver loaded, which cuda needs. Use --device cpu.\n"
    )
    assert {row.cell.precision: (row.outcome, row.exercised) for row in rows} == {
        Precision.FP32: (Outcome.PASSES, Exercised.EMPTY),
        Precision.BF16: (Outcome.FAILS, Exercised.YES),
        Precision.FP16: (Outcome.FAILS, Exercised.YES),
    }
    assert {row.provenance.environment_digest for row in rows} == {
        loaded.environments["4.50.0"].digest
    }
    assert {row.provenance.imported["transformers"] for row in rows} == {
        "site-packages/transformers/__init__.py"
    }
    assert {path.name for path in tmp_path.iterdir()} == {"it", "it.tar.xz"}
