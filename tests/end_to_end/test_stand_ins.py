"""What stands in for flash-attn in cases, held against the source of the version it imitates."""

from __future__ import annotations

import ast
import json
import os
import sys
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner import project
from repromatrix.runner.environments import building
from repromatrix.runner.paths import ROOT
from repromatrix.runner.subprocesses import finish

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from repromatrix.runner.paths import Paths
    from repromatrix.runner.project import Project

FLASH = "2.7.4.post1"
"""The newest one when the reports were written."""

CASES = ("qwen2_5_vl_flash_rotary", "qwen2_5_omni_flash_rotary", "swift_qwen2_5_vl_sft")
COMPUTING = CASES[:2]
"""Those whose stand-ins compute something."""

UNUSED = "_"
REAL = f"4.52.4+flash-attn{FLASH}"
EPSILON = {"torch.float32": 2**-23, "torch.bfloat16": 2**-7, "torch.float16": 2**-10}
DTYPES = tuple(EPSILON)
SAYS = "Input and cos/sin must have the same dtype, got {x} and {angle}"
"""What the real kernel says, and no stand-in raises: the cases name it in their docstrings."""

BOTH = """
import contextlib, itertools, json, runpy, sys, types
import torch
case = runpy.run_path(sys.argv[1])
ours, measured = case["rotary_kernel"], case["measured"]
sys.modules["flash_attn_2_cuda"] = types.ModuleType("flash_attn_2_cuda")
torch.cuda.device = contextlib.nullcontext
from flash_attn.layers.rotary import apply_rotary_emb as real

def told(kernel, *given):
    try:
        out = kernel(*given)
    except AssertionError as error:
        return str(error)
    assert out.dtype == given[0].dtype
    return out.flatten().tolist()

torch.manual_seed(0)
x, angle = torch.randn(1, 16, 2, 16), torch.randn(16, 8)
dtypes = (torch.float32, torch.bfloat16, torch.float16)
found = []
for one, other in itertools.product(dtypes, dtypes):
    given = x.to(one), angle.cos().to(other), angle.sin().to(other)
    before = measured["mixed_calls"]
    out = told(ours, *given)
    recorded = measured["mixed_calls"] - before
    found.append([str(one), str(other), out, recorded, told(real, *given)])
print(json.dumps(found))
"""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a function takes, which dtypes it compares, and with which words it refuses some."""

    takes: tuple[str, ...]
    compares: frozenset[str]
    says: frozenset[str]


@pytest.fixture(scope="module")
def source(
    places: Paths, checkout: Project, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, str]:
    """Return the files of flash-attn's sources; pip asks them for metadata, which takes a torch."""
    folder = tmp_path_factory.mktemp("flash")
    built = building.build(places, project.recipe(checkout, "4.50.0"))
    asked = [sys.executable, "-m", "pip", "--python", str(built.python), "download", "--quiet"]
    how = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder)]
    environ = {**os.environ, "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"}
    done = finish([*asked, *how, f"flash-attn=={FLASH}"], environ=environ, seconds=300)
    assert done.code == 0, done.err
    return dict(_files(next(folder.glob("*.tar.gz"))))


def _files(archive: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            _, _, name = member.name.partition("/")
            if name.startswith(("flash_attn/", "csrc/flash_attn/flash_api")) and member.isfile():
                read = opened.extractfile(member)
                assert read is not None
                yield name, read.read().decode(errors="replace")


def _function(text: str, name: str) -> ast.FunctionDef:
    return next(
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name == name
    )


def _contract(function: ast.FunctionDef) -> Contract:
    nodes = [*ast.walk(function)]
    texts = [node.values[0] for node in nodes if isinstance(node, ast.JoinedStr)]
    compared = (ast.unparse(node) for node in nodes if isinstance(node, ast.Compare))
    return Contract(
        takes=tuple(one.arg for one in function.args.args),
        compares=frozenset(text for text in compared if ".dtype" in text),
        says=frozenset(str(text.value) for text in texts if isinstance(text, ast.Constant)),
    )


@pytest.mark.builds
@pytest.mark.parametrize("name", CASES)
def test_the_rotary_stand_in_takes_what_the_kernel_takes_and_records_what_it_refuses(
    name: str, source: Mapping[str, str]
) -> None:
    case = (ROOT / "cases" / f"{name}.py").read_text()
    ours = _contract(_function(case, "rotary_kernel"))
    front = _contract(_function(source["flash_attn/layers/rotary.py"], "apply_rotary_emb"))
    kernel = _contract(_function(source["flash_attn/ops/triton/rotary.py"], "apply_rotary"))

    named = zip(ours.takes, front.takes, strict=False)
    assert all(mine in {UNUSED, theirs} for mine, theirs in named)
    assert ours.compares == {"x.dtype != cos.dtype"}
    assert "x.dtype == cos.dtype" in kernel.compares
    assert not ours.says
    said, _, _ = SAYS.partition(", got")
    assert any(text.startswith(said) for text in kernel.says)
    assert said in " ".join((ast.get_docstring(ast.parse(case)) or "").split())


@pytest.mark.whole
@pytest.mark.builds
@pytest.mark.parametrize("name", COMPUTING)
def test_the_rotary_stand_in_computes_what_the_real_kernel_does_and_records_what_it_refuses(
    name: str, places: Paths
) -> None:
    """Triton interprets flash-attn's own kernel on a CPU."""
    loaded = project.load(places)
    built = building.build(places, project.recipe(loaded, REAL))
    environ = {**os.environ, "TRITON_INTERPRET": "1"}
    path = ROOT / "cases" / f"{name}.py"
    done = finish([built.python, "-c", BOTH, path], environ=environ, seconds=120)
    assert done.code == 0, done.err
    told = {(x, angle): kernels for x, angle, *kernels in json.loads(done.out)}

    assert len(told) == len(DTYPES) ** 2
    for (x, angle), (ours, recorded, real) in told.items():
        assert recorded == (x != angle)
        if x == angle:
            assert ours == pytest.approx(real, abs=4 * EPSILON[x])
        else:
            assert real == SAYS.format(x=x, angle=angle)


@pytest.mark.builds
def test_the_attention_kernel_takes_query_key_and_value_first_and_no_fp32(
    source: Mapping[str, str],
) -> None:
    front = _contract(
        _function(source["flash_attn/flash_attn_interface.py"], "flash_attn_varlen_func")
    )

    assert front.takes[:3] == ("q", "k", "v")
    assert "only support fp16 and bf16 data type" in source["csrc/flash_attn/flash_api.cpp"]
