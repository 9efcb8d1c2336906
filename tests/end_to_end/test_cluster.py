"""Units on a real cluster of three nodes: what comes back is what this machine alone gives."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING

import pytest
from clusters import Nodes, nodes
from factories import case_text
from fakes import LIMITS, corpus, load
from programs import PATIENCE, ignoring_sigint, started

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Done, Lost, Phase, Terms, Unbuilt
from repromatrix.runner.execution.hardware import has_cuda
from repromatrix.runner.execution.ray import connect
from repromatrix.runner.execution.ray import driver as ray_driver
from repromatrix.runner.execution.ray.driver import Cluster
from repromatrix.runner.execution.ray.parcel import write_code
from repromatrix.runner.execution.run import Run
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import ROOT
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from repromatrix.runner.execution.events import Event
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.project import Project

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.builds,
    # What Ray leaves open or will change one day is not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]

FAKES = (
    "declines",
    "exits_with_text",
    "fails_differently",
    "fails_unexpectedly",
    "hangs",
    "ignores_sigterm",
    "kills_worker",
    "prints_late",
    "segfaults",
)
"""None of them imports torch; two last a second, in which a node can be lost."""
RELEASES = ("4.49.0", "4.50.0")
BEGINNING = 150.0
"""Seconds in which a run on a fresh cluster has measured a cell: each node installs and imports."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with nodes(tmp_path_factory.mktemp("nodes"), 3) as made:
        yield made


@pytest.fixture
def driver(three: Nodes, loaded: Project, tmp_path: Path) -> Iterator[Nodes]:
    write_code(loaded, tmp_path / "sent")
    with connect.connected(three.address, tmp_path, tmp_path / "sent"):
        yield three


@pytest.fixture(scope="module")
def loaded() -> Project:
    return load([corpus() / f"fake_{name}.py" for name in FAKES])


def plan(loaded: Project, *releases: str, device: Device = Device.CPU) -> Run:
    terms = Terms(run="fakes", limits=LIMITS, device=device, jobs=0)
    wish = SelectionRequest(release=releases or RELEASES, device=device)
    selection = select(wish, loaded.cases, loaded.names)
    selection = dataclasses.replace(selection, precisions=frozenset({Precision.BF16}))
    return Run(project=loaded, selection=selection, terms=terms, known={})


@dataclass(kw_only=True)
class Ran:
    """What happened, in its order."""

    events: list[Event] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[Observation]:
        return [event for event in self.events if isinstance(event, Observation)]

    def final(self) -> dict[Cell, tuple[Outcome, str, int, bool]]:
        """Return what is known of each cell in the end."""
        return {
            row.cell: (
                row.outcome,
                row.failed.headline if row.failed else "",
                row.repeats,
                row.unstable,
            )
            for row in self.rows
        }


def run(planned: Run, meanwhile: Callable[[Cluster, Event], None] = lambda *_: None) -> Ran:
    ran = Ran()
    cluster = Cluster(planned, ran.told.append, {})
    with contextlib.closing(cluster.run(planned.units())) as events:
        for event in events:
            ran.events.append(event)
            meanwhile(cluster, event)
    return ran


def wait(until: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(0.1)
    return until()


def locally(planned: Run) -> Ran:
    here = dataclasses.replace(planned, terms=dataclasses.replace(planned.terms, jobs=2))
    with contextlib.closing(here.pool().run(here.units())) as events:
        return Ran(events=list(events))


def test_a_node_is_lost_and_every_cell_is_there_once_as_this_machine_gives_it(
    driver: Nodes, loaded: Project
) -> None:
    planned = plan(loaded)
    killed: list[str] = []

    def is_unexpected(row: Observation) -> bool:
        return planned.doubted(row, planned.environment(row))

    def cut_power(cluster: Cluster, event: Event) -> None:
        # In the middle, when an unexpected result has come that nobody has confirmed yet.
        if isinstance(event, Observation) and not killed and is_unexpected(event):
            flights = list(cluster.flying.values())
            here = (one for one in flights if one.unit.environment == event.cell.environment)
            killed.append(next(here).node)
            driver.kill(killed[0])

    ran = run(planned, cut_power)
    driver.add()
    times = Counter((row.cell, row.repeats) for row in ran.rows)

    assert locally(planned).final() == ran.final()
    assert set(times.values()) == {1}
    assert {cell for cell, _ in times} == {cell for unit in planned.units() for cell in unit.cells}
    assert [killed[0][:8] in told and "was lost" in told for told in ran.told] == [True]
    assert sum(isinstance(event, Done) for event in ran.events) == len(RELEASES)
    assert wait(lambda: driver.ours() == {}), driver.ours()


def alone(planned: Run, node: str) -> Ran:
    """Return an engine that sends to one node first, and to the others once it has refused."""
    ran = Ran()

    def tell(text: str) -> None:
        ran.told.append(text)
        cluster.barred.clear()

    cluster = Cluster(planned, tell, {})
    cluster.barred.update(dict.fromkeys(ray_driver._able(Device.CPU) - {node}, "not the first"))
    ran.events.extend(cluster.run(planned.units()))
    return ran


@pytest.mark.whole
def test_a_node_that_cannot_build_says_why_and_another_one_does(
    driver: Nodes, loaded: Project, tmp_path: Path
) -> None:
    poor = driver.add(
        REPROMATRIX_ENVIRONMENTS=str(tmp_path / "environments"),
        UV_CACHE_DIR=str(tmp_path / "uv"),
        UV_OFFLINE="1",
    )
    ran = alone(plan(loaded, "4.50.0"), poor)
    driver.kill(poor)
    kind = f"{sys.platform} {platform.machine()}, Python 3.{sys.version_info.minor}"

    assert {row.cell.case for row in ran.rows} == {f"fake_{name}" for name in FAKES}
    (told,) = ran.told
    assert told.startswith(f"  node {poor[:8]} ({kind}) cannot run 4.50.0: ")
    assert "accelerate==" in told
    assert str(tmp_path) not in told


@pytest.mark.whole
def test_a_node_whose_pip_finds_nothing_is_left_alone(
    driver: Nodes, loaded: Project, tmp_path: Path
) -> None:
    poor = driver.add(
        XDG_CACHE_HOME=str(tmp_path), PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull,
        PIP_FIND_LINKS=str(tmp_path),
    )  # fmt: skip
    ran = alone(plan(loaded, "4.50.0"), poor)
    driver.kill(poor)

    assert {row.cell.case for row in ran.rows} == {f"fake_{name}" for name in FAKES}
    (told,) = ran.told
    assert "uv==" in told
    assert "cannot be installed there" in told


@pytest.mark.usefixtures("driver")
def test_where_no_node_is_of_the_drivers_kind_the_unit_is_unbuildable(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_driver, "kind", lambda: "darwin arm64, Python 3.99")
    ran = run(plan(loaded, "4.50.0"))
    here = f"{sys.platform} {platform.machine()}, Python 3.{sys.version_info.minor}"

    (unbuilt,) = [event for event in ran.events if isinstance(event, Unbuilt)]
    assert unbuilt.reason == f"it is {here}; the run is for darwin arm64, Python 3.99"
    assert len(unbuilt.unit.cells) == len(FAKES)
    assert len(ran.told) == len(ray_driver._able(Device.CPU)) > 1


@pytest.mark.whole
def test_a_unit_that_loses_its_node_again_and_again_is_given_up(
    driver: Nodes, loaded: Project
) -> None:
    def kill(_: Cluster, event: Event) -> None:
        if isinstance(event, Phase):
            for pid, command in driver.ours().items():
                if "repromatrix.runner.execution.ray.parcel" in command:
                    os.kill(pid, signal.SIGKILL)

    ran = run(plan(loaded, "4.50.0"), kill)

    (lost,) = [event for event in ran.events if isinstance(event, Lost)]
    assert lost.reason == "lost with its node 3 times: it ended with signal SIGKILL"
    assert len(lost.unit.cells) == len(FAKES)
    assert ran.rows == []


@pytest.mark.whole
def test_a_run_whose_cluster_has_lost_all_its_nodes_ends(
    driver: Nodes, loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_driver, "_DESERTED", 3.0)
    there = ray_driver._able(Device.CPU)

    def kill(_: Cluster, event: Event) -> None:
        if isinstance(event, Phase):
            while there:
                driver.kill(there.pop())

    try:
        ran = run(plan(loaded, "4.50.0"), kill)
    finally:
        for _ in range(3):
            driver.add()

    (lost,) = [event for event in ran.events if isinstance(event, Lost)]
    assert lost.reason == "the cluster has had no node with a CPU for 3 s"
    assert wait(lambda: driver.ours() == {}), driver.ours()


@pytest.mark.skipif(has_cuda(), reason="asks what a machine without a driver says")
def test_a_cell_for_a_gpu_goes_to_a_node_that_has_one(driver: Nodes, loaded: Project) -> None:
    planned = plan(loaded, "4.50.0", device=Device.CUDA)
    with pytest.raises(RunnerError) as caught:
        run(planned)
    with_gpu = driver.add(gpus=1)
    ran = run(planned)
    driver.kill(with_gpu)

    assert str(caught.value) == "--ray: the cluster has no node with a GPU."
    (unbuilt,) = [event for event in ran.events if isinstance(event, Unbuilt)]
    assert unbuilt.reason == "no NVIDIA driver is loaded there"
    assert [f"node {with_gpu[:8]} " in told for told in ran.told] == [True]


# From outside -----------------------------------------------------------------------------------

HANGS = """
import signal
import sys
import time
from pathlib import Path

if sys.argv[1] != "fp32":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path({began!r}).touch()
    while True:
        time.sleep(1)
"""


# Stops the head before it is asked for nodes: the first time, or once a cell hangs. Of a process
# that is told to stop, threads go on for a moment, and one of them may still answer.
SHORT = """
import os, signal, time
from pathlib import Path
from repromatrix.runner.cli import main
from repromatrix.runner.execution.ray import driver

def stands():
    threads = Path("/proc/{head}/task").glob("*/stat")
    return all(one.read_text().rpartition(")")[2].split()[0] == "T" for one in threads)

def able(device):
    if {at_once!r} or {as_asked!r} and Path({began!r}).exists():
        os.kill({head}, signal.SIGSTOP)
        while not stands():
            time.sleep(0.01)
    return asked(device)

asked, driver._able, driver._ENDING = driver._able, able, 3.0
main()
"""


@dataclass(frozen=True, kw_only=True)
class Hanging:
    """A run on a cluster whose fp32 passes and whose bf16 hangs, started with SIGINT ignored."""

    nodes: Nodes
    folder: Path

    @property
    def began(self) -> Path:
        return self.folder / "began"

    def started(self, *program: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
        path = self.folder / "toy_breaks.py"
        text = '"""A toy must not break. It is a toy."""\n' + HANGS.format(began=str(self.began))
        path.write_text(case_text("timeout = 600", text, dependencies=["transformers==4.50.0"]))
        own = {
            "REPROMATRIX_STORE": str(self.folder / "s.sqlite"),
            "REPROMATRIX_SITE": str(self.folder / "site"),
        }
        run = ["--ray", self.nodes.address, "--case", str(path), "--release", "4.50.0"]
        return started(
            ignoring_sigint([sys.executable, *program, "matrix", *run]),
            cwd=ROOT,
            env=os.environ | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    @property
    def store(self) -> Path:
        return self.folder / "own-s.sqlite"

    def stored(self) -> list[tuple[Precision, Outcome]]:
        with contextlib.closing(Store(self.store, print)) as store:
            return [(row.cell.precision, row.outcome) for row in store.rows()]

    def is_half_done(self) -> bool:
        """Say whether fp32 has come back and bf16 has begun."""
        return self.began.exists() and self.store.exists() and len(self.stored()) == 1


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGKILL, -9, marks=pytest.mark.whole),
    ],
)
def test_an_end_keeps_what_came_and_leaves_nothing_of_ours_on_any_node(
    three: Nodes, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    hanging = Hanging(nodes=three, folder=tmp_path)
    with hanging.started("-m", "repromatrix") as process:
        assert wait(hanging.is_half_done, BEGINNING)
        assert three.ours() != {}
        begin = time.monotonic()
        process.send_signal(number)
        said, _ = process.communicate(timeout=PATIENCE)
        lasted = time.monotonic() - begin

    assert process.returncode == code, said
    assert lasted < ray_driver._ENDING, "the task on the node did not hear that it is canceled"
    assert wait(lambda: three.ours() == {}), three.ours()
    assert hanging.stored() == [(Precision.FP32, Outcome.PASSES)]


KEPT = [(Precision.FP32, Outcome.PASSES)]
"""What such a run has stored when bf16 hangs."""


def workers(nodes: Nodes) -> list[int]:
    """Return Ray's workers that run a task of ours: what each starts is told its number."""
    commands = [
        one.split()
        for one in nodes.ours().values()
        if "repromatrix.runner.execution.ray.parcel" in one
    ]
    return [int(words[-2]) for words in commands]


@pytest.mark.parametrize(
    ("silent", "stored", "left"),
    [
        pytest.param("the worker", KEPT, False, marks=pytest.mark.whole),
        ("the head", KEPT, False),
        pytest.param("the head as it is asked", KEPT, False, marks=pytest.mark.whole),
        pytest.param("the head at once", [], True, marks=pytest.mark.whole),
    ],
)
def test_an_interrupted_run_ends_where_nobody_answers_any_more(
    three: Nodes, tmp_path: Path, silent: str, stored: list[object], *, left: bool
) -> None:
    hanging = Hanging(nodes=three, folder=tmp_path)
    code = SHORT.format(
        head=three.head,
        began=str(hanging.began),
        at_once=silent == "the head at once",
        as_asked=silent == "the head as it is asked",
    )
    stopped = three.head
    try:
        with hanging.started("-c", code) as process:
            assert silent == "the head at once" or wait(hanging.is_half_done, BEGINNING)
            if silent == "the worker":
                (stopped,) = workers(three)
            if silent in {"the worker", "the head"}:
                os.kill(stopped, signal.SIGSTOP)
            assert wait(lambda: process_control.is_stopped(stopped))
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, said
        assert wait(lambda: three.ours() == {}), three.ours()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGCONT)

    assert ("the cluster does not answer" in said) == left
    assert "The table: " in said
    assert hanging.stored() == stored


def run_script(
    script: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own: Ray connects a process once, and its end is looked at."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "goodbye", ["", pytest.param("connect._leave = lambda: None", marks=pytest.mark.whole)]
)
def test_a_cluster_of_this_machine_leaves_no_folder_and_no_process(
    tmp_path: Path, goodbye: str
) -> None:
    script = (
        "import os, ray; from pathlib import Path\n"
        "from repromatrix.runner.execution.ray import connect\n"
        "from repromatrix.runner.worker.process_control import descendants, has_ended\n"
        f"{goodbye}\n"
        "with connect.connected('local', Path(), Path('docs')):\n"
        " folder = ray._private.worker._global_node.get_temp_dir_path()\n"
        " there = descendants(os.getpid())\n"
        "left = [pid for pid in there if not has_ended(pid)]\n"
        "print(len(there) > 1, left, Path(folder).exists())"
    )
    temporary = tmp_path / ("long" * 12)
    temporary.mkdir()
    done = run_script(script, TMPDIR=str(temporary))

    assert done.stdout == "True [] False\n", done.stderr
    assert list(temporary.iterdir()) == []


def test_a_cluster_of_another_ray_is_named_with_both_versions(three: Nodes) -> None:
    script = (
        "import sys, ray; from pathlib import Path; ray.__version__ = '2.59.1'\n"
        "from repromatrix.runner.execution.ray.connect import connected\n"
        "from repromatrix.runner.errors import RunnerError\n"
        "try:\n with connected(sys.argv[1], Path(), Path('docs')): print('connected')\n"
        "except RunnerError as error: print(error)"
    )
    done = run_script(script, three.address)
    version = metadata.version("ray")

    assert f"Ray: {version}" in done.stdout
    assert "Ray: 2.59.1" in done.stdout
    assert "of the same version there and here?" in done.stdout


def test_something_else_at_the_address_is_refused_long_before_ray_would_do_so() -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        begin = time.monotonic()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "repromatrix",
                "matrix",
                "--ray",
                address,
                "--release",
                "4.50.0",
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 2
    assert f"--ray: no Ray cluster can be joined at {address} (" in done.stderr
    assert time.monotonic() - begin < 300  # Ray alone asks for a quarter of an hour
