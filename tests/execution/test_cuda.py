"""CUDA as a device, on a machine that has none: a torch that is made up, and the real one's CPU."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import factories
import pytest
from cells import case, request
from factories import cell
from fakes import LIMITS, RELEASE, corpus, load

from repromatrix.runner.environments import uv
from repromatrix.runner.environments.building import Built, NoGpuBuildError
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution import hardware
from repromatrix.runner.execution.events import Ready, Terms
from repromatrix.runner.execution.pool import Batch, Pool
from repromatrix.runner.execution.run import Run, RunListener
from repromatrix.runner.execution.worker_client import Start, Worker, worker_environ
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.worker import cell_process
from repromatrix.runner.worker.gpu_probe import driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Faked = Callable[..., Worker]

TORCH = """
import types
__version__ = "2.13.0+cu130"
version = types.SimpleNamespace(cuda="13.0")
def set_num_threads(_): pass
def _init():
    {init}
def _about(_): return types.SimpleNamespace(name="NVIDIA H200", major=9, minor=0)
class _Tensor:
    add = lambda self, _: self
    item = lambda self: {computes}
def ones(*_, **__): return _Tensor()
cuda = types.SimpleNamespace(
    is_initialized=lambda: {initialised}, init=_init, get_device_properties=_about
)
"""
REMEDY = "UV_TORCH_BACKEND=auto lets torch be built for this machine's driver"
TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update it from the"
    " URL: http://www.nvidia.com/Download/index.aspx"
)


@pytest.fixture
def faked(tmp_path: Path) -> Iterator[Faked]:
    """Start workers of this interpreter for CUDA, with a torch that is made up."""
    started: list[Worker] = []

    def begin(
        *, init: str = "pass", computes: str = "2.0", initialised: bool = False, **changed: str
    ) -> Worker:
        tree = tmp_path / "tree"
        tree.mkdir()
        text = TORCH.format(init=init, computes=computes, initialised=initialised)
        for old, new in changed.items():
            text = re.sub(rf"(?m)^{old} = .*$", f"{old} = {new}", text)
        (tree / "torch.py").write_text(text)
        start = Start(
            built=Built(name="here", folder=tmp_path, python=Path(sys.executable), versions={}),
            device=Device.CUDA,
            preload={"modules": ["torch"], "names": {}},
            fork=True,
            slots=1,
            front={"path": str(tree), "kept": str(tmp_path / "kept")},
        )
        started.append(Worker(start))
        return started[-1]

    yield begin
    for worker in started:
        worker.close()


def _ways(worker: Worker, folder: Path) -> dict[str, str]:
    """Return how a cell was started on each device: a fork has torch already."""
    says = case(folder, "import sys", "print('forked' if 'torch' in sys.modules else 'fresh')")
    asked = [
        request(says, number, device=str(device), witness=False)
        for number, device in enumerate(Device)
    ]
    answers = dict(worker.run(asked))
    return {str(device): answers[n]["output"].strip() for n, device in enumerate(Device)}


@pytest.mark.parametrize(
    ("initialised", "expected"),
    [
        (False, {"cpu": "forked", "cuda": "forked"}),
        (True, {"cpu": "forked", "cuda": "fresh"}),
    ],
)
def test_a_worker_that_has_initialised_cuda_forks_no_cell_for_it(
    faked: Faked, tmp_path: Path, *, initialised: bool, expected: dict[str, str]
) -> None:
    assert expected == _ways(faked(initialised=initialised), tmp_path)


@pytest.mark.parametrize(("code", "expected"), [(3, False), (0, True), (100, True)])
def test_the_driver_tells_whether_anybody_has_initialised_cuda(
    monkeypatch: pytest.MonkeyPatch, *, code: int, expected: bool
) -> None:
    library = SimpleNamespace(cuDeviceGetCount=lambda _: code)
    asked: list[tuple[str, int]] = []

    def loaded(name: str, *, mode: int) -> SimpleNamespace:
        asked.append((name, mode))
        return library

    monkeypatch.setattr(ctypes, "CDLL", loaded)

    assert (cell_process.is_cuda_initialized(), asked) == (
        expected,
        [("libcuda.so.1", os.RTLD_NOLOAD)],
    )


def test_a_driver_that_nobody_has_loaded_is_not_initialised_and_not_loaded_by_asking() -> None:
    assert not cell_process.is_cuda_initialized()
    assert "libcuda" not in Path("/proc/self/maps").read_text()


def test_a_gpu_is_known_by_name_capability_and_driver(faked: Faked) -> None:
    found = faked().gpu(LIMITS)

    expected = f"NVIDIA H200, compute capability 9.0, driver {driver() or 'unknown'}"
    assert found == expected


@pytest.mark.parametrize(
    ("torch", "reason"),
    [
        (
            {"init": f"raise RuntimeError({TOO_OLD!r})"},
            f"torch 2.13.0+cu130: {TOO_OLD.rpartition(' ')[0]} <address>",
        ),
        (
            {"computes": "1 / 0"},
            "torch 2.13.0+cu130: division by zero",
        ),
        (
            {"__version__": "'2.13.0+cpu'", "version": "types.SimpleNamespace(cuda=None)"},
            f"torch 2.13.0+cpu is built without CUDA; {REMEDY}",
        ),
        (
            {"init": "import os; os.abort()"},
            "asking torch for its GPU crashes: SIGABRT: died by SIGABRT",
        ),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_a_reason_in_torchs_own_words(
    faked: Faked, torch: dict[str, Any], reason: str
) -> None:
    with pytest.raises(NoGpuBuildError) as caught:
        faked(**torch).gpu(LIMITS)

    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, "0"), ("3", "3"), ("2,3", "2"), ("GPU-8932f937,1", "GPU-8932f937"), ("", "")],
)
def test_a_cell_on_the_cpu_sees_no_gpu_and_one_on_cuda_the_first_that_the_user_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, visible: str | None, expected: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "PYTORCH_NVML_BASED_CUDA_CHECK")
    found = {device: worker_environ(tmp_path, device) for device in Device}

    assert {device: tuple(found[device].get(name) for name in names) for device in Device} == {
        Device.CPU: ("", "", "1"),
        Device.CUDA: (expected, None, "1"),
    }


def test_the_gpu_is_part_of_what_a_cell_ran_on() -> None:
    gpu = "NVIDIA H200, compute capability 9.0, driver 570.86.15"
    toy = cell(RELEASE)
    terms = Terms(run="now", limits=LIMITS, device=Device.CUDA, jobs=1)
    built = Built(name="here", folder=Path("here"), python=Path("python"), versions={})
    ready = Ready(environment=load().environments[RELEASE], built=built, cells=())
    batch = Batch(
        Pool(terms, {toy.case: factories.case()}, lambda _: ready, lambda *_: False), ready
    )
    before = batch._observe(toy, {"outcome": "passes"}).provenance.hardware
    batch.gpu = gpu

    assert before == hardware.hardware()
    assert batch._observe(toy, {"outcome": "passes"}).provenance.hardware == f"{before}; {gpu}"


@pytest.mark.parametrize(("chosen", "expected"), [(None, "auto"), ("cu128", "cu128")])
def test_torch_is_built_for_the_gpu_that_is_asked_for_unless_the_user_chose(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, expected: str
) -> None:
    monkeypatch.setattr(hardware, "has_cuda", lambda: True)
    monkeypatch.setenv("UV_TORCH_BACKEND", chosen or "")
    if chosen is None:
        monkeypatch.delenv("UV_TORCH_BACKEND")
    hardware.demand(Device.CPU)
    before = uv.torch_backend()
    hardware.demand(Device.CUDA)

    assert (before, uv.torch_backend()) == (chosen or "", expected)


def test_cuda_where_there_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_DRIVERS", ("/nowhere/driver",))
    with pytest.raises(RunnerError) as caught:
        hardware.demand(Device.CUDA)

    assert [fault.where for fault in caught.value.faults] == ["--device"]


class Nobody(RunListener):
    """Listens to a run and keeps why something was not built."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, int]] = []

    def unbuilt(self, environment: str, reason: str, cells: int) -> None:
        self.heard.append((environment, reason, cells))


@pytest.mark.builds
def test_cells_for_a_gpu_that_torch_does_not_have_are_not_applicable_and_those_of_the_cpu_stay(
    tmp_path: Path,
) -> None:
    loaded = load([corpus() / "fake_fills_gpu.py"])
    store = Store(tmp_path / "store.sqlite", print)
    told: dict[Device, list[tuple[str, str, int]]] = {}
    for device in Device:
        terms = Terms(run="now", limits=LIMITS, device=device, jobs=1)
        wish = SelectionRequest(release=[RELEASE], precision=["bf16"], device=device)
        selection = select(wish, loaded.cases, loaded.names)
        planned = Run(project=loaded, selection=selection, terms=terms, known={})
        listening = Nobody()
        planned.execute(store, listening)
        told[device] = listening.heard
    found = {row.cell: (row.outcome, row.reason) for row in store.rows()}
    store.close()
    version = next(iter(told[Device.CUDA]))[1].split()[1]
    reason = f"torch {version} is built without CUDA; {REMEDY}"

    def at(device: Device, workaround: str = "") -> Any:  # noqa: ANN401
        return cell(
            RELEASE, Precision.BF16, device=device, workaround=workaround, name="fake_fills_gpu"
        )

    assert told == {Device.CPU: [], Device.CUDA: [(RELEASE, reason, 2)]}
    assert found == {
        at(Device.CPU): (Outcome.OUT_OF_MEMORY, ""),
        at(Device.CPU, "cublas"): (Outcome.OUT_OF_MEMORY, ""),
        at(Device.CUDA): (Outcome.NOT_APPLICABLE, reason),
        at(Device.CUDA, "cublas"): (Outcome.NOT_APPLICABLE, reason),
    }
