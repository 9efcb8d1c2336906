"""What a cluster is sent and says, piece by piece; no Ray is started."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, case_text, cell, seen
from fakes import LIMITS
from rich.console import Console

from repromatrix.runner import cases
from repromatrix.runner.cli.matrix import MatrixOptions, _summary
from repromatrix.runner.cli.report import RenderedSite
from repromatrix.runner.environments import development
from repromatrix.runner.errors import ExitCode, Interrupted, RunnerError
from repromatrix.runner.execution.events import Lost, Terms, Unbuilt
from repromatrix.runner.execution.ray import connect, driver, parcel, task
from repromatrix.runner.execution.ray.driver import Cluster, Flight
from repromatrix.runner.execution.ray.parcel import Parcel, choices, unpacked
from repromatrix.runner.execution.run import Run, RunTally
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.planning.selection import SelectionRequest, select

if TYPE_CHECKING:
    from repromatrix.runner.project import Project

GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]


def planned_run(loaded: Project, **wish: object) -> Run:
    terms = Terms(run="now", limits=LIMITS, device=Device.CPU, jobs=0)
    selection = select(SelectionRequest(**wish), loaded.cases, loaded.names)  # type: ignore[arg-type]
    return Run(project=loaded, selection=selection, terms=terms, known={})


# What is sent -----------------------------------------------------------------------------------


def test_a_node_is_sent_the_code_the_cases_and_the_pins_and_nothing_else(
    checkout: Project, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(case_text())
    theirs = checkout.paths.cases / "blip2_load_half.py"
    loaded_cases, faults = cases.load_corpus(checkout.paths, [mine, theirs])
    loaded = dataclasses.replace(checkout, cases=loaded_cases)
    sent = tmp_path / "sent"
    parcel.write_code(loaded, sent)
    names = {str(path.relative_to(sent)) for path in sent.rglob("*") if path.is_file()}
    rest = {name for name in names if not name.startswith(("repromatrix/", "environments/locks/"))}

    assert faults == []
    assert rest == {
        "cases/blip2_load_half.py",
        "cases/mine.py",
        "environments/matrix.toml",
        "pyproject.toml",
    }
    assert {Path(name).suffix for name in names - rest} == {".py", ".txt"}


def test_a_worker_of_the_cluster_needs_the_standard_library_alone() -> None:
    """With -S nothing that is installed can be found."""
    module = "repromatrix.runner.execution.ray.task"
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], check=False)

    assert done.returncode == 0


def test_the_process_on_a_node_needs_what_is_installed_for_it_and_no_more() -> None:
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    script += "import repromatrix.runner.execution.ray.parcel\n"
    script += "print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    runners = {one.partition("==")[0] for one in GROUPS["runner"] if isinstance(one, str)}

    assert runners
    assert set(done.stdout.split()) & (runners | {"ray"}) == set()


def test_a_parcel_holds_its_unit_and_nothing_of_other_environments(
    places: Paths, checkout: Project
) -> None:
    loaded_cases, _ = cases.load_corpus(places, sorted(places.cases.glob("gemma3*.py")))
    planned = planned_run(
        dataclasses.replace(checkout, cases=loaded_cases), release=["4.50.0,4.51.0"]
    )
    unit = next(one for one in planned.units() if one.environment == "4.50.0")
    few = dataclasses.replace(unit, cells=unit.cells[:2])
    due = {*few.cells}
    planned = dataclasses.replace(planned, asked=lambda each: each in due)  # no text of itself
    arrived = unpacked(Parcel(planned=planned, unit=few).packed())
    there = arrived.planned

    assert arrived.unit == few
    assert set(there.project.locks) == set(there.project.environments) == {"4.50.0"}
    assert set(there.project.cases) == {one.case for one in few.cells}
    assert there.selection.only == frozenset(few.cells)
    assert there.terms == dataclasses.replace(planned.terms, jobs=1)
    for name, one in there.project.cases.items():
        assert (one.digest, one.path) == (loaded_cases[name].digest, loaded_cases[name].path)


def test_two_units_on_one_node_install_what_our_code_needs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[Path] = []

    def install(_: list[str], folder: Path) -> None:
        folder.mkdir()
        time.sleep(0.1)
        installed.append(folder)

    monkeypatch.setattr(task, "_install", install)
    with ThreadPoolExecutor() as pool:
        found = set(pool.map(lambda _: task.installed(tmp_path), range(4)))

    assert len(installed) == len(found) == 1


# What comes back --------------------------------------------------------------------------------


def test_a_cell_is_news_once_and_once_more_when_it_was_repeated() -> None:
    first = seen(Outcome.FAILS)
    confirmed = dataclasses.replace(first, repeats=3)
    unit = Unit(environment="4.50.0", cells=(cell(), cell(name="another")))
    flight = Flight(unit=unit)

    assert [flight.is_news(row) for row in (first, first, confirmed, first, confirmed)] == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert flight.left.cells == (cell(name="another"),)


def test_an_unexpected_result_that_lost_its_node_is_repeated_elsewhere() -> None:
    unexpected, expected = seen(Outcome.FAILS), seen(Outcome.PASSES, cell(name="another"))
    flight = Flight(unit=Unit(environment="4.50.0", cells=(unexpected.cell, expected.cell)))
    for row in (unexpected, expected):
        flight.is_news(row)

    assert flight.unconfirmed(lambda row: row.outcome is Outcome.FAILS) == (unexpected,)
    flight.is_news(dataclasses.replace(unexpected, repeats=3))
    assert flight.unconfirmed(lambda row: row.outcome is Outcome.FAILS) == ()


def with_toy(checkout: Project) -> Project:
    return dataclasses.replace(checkout, cases={"toy_breaks": case(BREAKS)})


@pytest.mark.parametrize("nodes", [{"a"}, {"a", "b"}])
def test_what_no_node_can_run_is_not_sent(
    checkout: Project, monkeypatch: pytest.MonkeyPatch, nodes: set[str]
) -> None:
    unit = Unit(environment="4.50.0", cells=(cell(),))
    cluster = Cluster(planned_run(with_toy(checkout)), print, {})
    cluster.barred = {"a": "it has no pip"}
    cluster.waiting.append(Flight(unit=unit, refusals={"b": "torch is not there"}))
    monkeypatch.setattr(driver, "_able", lambda _: nodes)
    cluster._look()
    cluster._send()

    assert not cluster.flying
    assert cluster.events.get_nowait() == Unbuilt(unit=unit, reason="torch is not there")


@pytest.mark.parametrize(("there", "given_up"), [({"a"}, True), ({"a", "b"}, False)])
def test_what_waits_for_a_node_that_is_gone_is_given_up(
    checkout: Project, monkeypatch: pytest.MonkeyPatch, there: set[str], *, given_up: bool
) -> None:
    unit = Unit(environment="4.50.0", cells=(cell(),))
    cancelled: list[str] = []
    ray = SimpleNamespace(cancel=lambda one, **_: cancelled.append(one))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(driver, "_able", lambda _: there)
    cluster = Cluster(planned_run(with_toy(checkout)), print, {})
    flight = Flight(unit=unit, refusals={"a": "torch is not there"})
    cluster.flying = {"task": flight, "elsewhere": Flight(unit=unit)}
    cluster._look()
    cluster._strand()
    told = [] if cluster.events.empty() else [cluster.events.get_nowait()]
    unbuilt = Unbuilt(unit=unit, reason="torch is not there")

    assert (cancelled, list(cluster.flying), told) == (
        (["task"], ["elsewhere"], [unbuilt]) if given_up else ([], ["task", "elsewhere"], [])
    )


def test_a_cluster_that_has_lost_all_its_nodes_is_given_up_after_a_while(
    checkout: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = {"a"}
    told: list[str] = []
    cancelled: list[str] = []
    ray = SimpleNamespace(cancel=lambda one, **_: cancelled.append(one))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(driver, "_able", lambda _: nodes)
    cluster = Cluster(planned_run(with_toy(checkout)), told.append, {})
    sent, unsent = (Unit(environment=name, cells=(cell(name),)) for name in ("4.50.0", "4.51.0"))
    cluster.flying = {"task": Flight(unit=sent)}
    cluster.waiting.append(Flight(unit=unsent))
    cluster.inhabited -= 3600
    cluster._look()
    cluster._strand()
    assert (cancelled, told, list(cluster.waiting)) == ([], [], [cluster.waiting[0]])

    nodes.clear()
    cluster._look()
    cluster._strand()
    assert cluster.flying
    cluster.inhabited -= driver._DESERTED
    cluster._strand()
    lost = [cluster.events.get_nowait() for _ in range(2)]
    reason = "the cluster has had no node with a CPU for 120 s"

    assert lost == [Lost(unit=unit, reason=reason) for unit in (sent, unsent)]
    assert (cluster.flying, list(cluster.waiting), cancelled) == ({}, [], ["task"])
    assert told == [f"  {reason}; what is left is given up"]


def test_a_lost_main_does_not_end_as_expected(checkout: Project) -> None:
    options = MatrixOptions(ray="auto")
    loaded, console = with_toy(checkout), Console(quiet=True)
    nothing = RenderedSite(rows=[], grid=[])
    codes = [
        _summary(planned_run(loaded), nothing, tally, options, console, 1.0)
        for tally in (RunTally(lost={"main": "no node"}), RunTally(unbuilt={"main": "no network"}))
    ]

    assert codes == [ExitCode.UNBUILDABLE, ExitCode.AS_EXPECTED]


# What goes with a run ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ("transformers==5.24.0", {development.VARIABLE: "transformers==5.24.0"}),
        (f"git+https://me:secret@127.0.0.1/t.git@{'a' * 40}", {}),
        (f"git+https://token@127.0.0.1/t.git@{'a' * 40}", {}),
        (
            f"git+https://127.0.0.1/t.git@{'a' * 40}",
            {development.VARIABLE: f"transformers @ git+https://127.0.0.1/t.git@{'a' * 40}"},
        ),
    ],
)
def test_main_is_the_same_on_every_node_and_no_password_is_sent(
    checkout: Project, monkeypatch: pytest.MonkeyPatch, main: str, expected: dict[str, str]
) -> None:
    monkeypatch.setenv(development.VARIABLE, main)
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    loaded = dataclasses.replace(checkout, cases={"toy_breaks": case(BREAKS)})

    assert choices(planned_run(loaded, release=["main"])) == expected
    assert choices(planned_run(loaded, release=["4.50.0"])) == {}


# What cannot be meant ---------------------------------------------------------------------------


def refusal(address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    with pytest.raises(RunnerError) as caught:
        connect.check(address)
    return str(caught.value)


@pytest.mark.parametrize("address", ["somewhere", "ray://127.0.0.1:10001", "host:", ":6379", "h:x"])
def test_what_is_no_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(address) in refusal(address, monkeypatch)


def test_without_ray_it_is_said_how_to_come_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RunnerError) as caught:
        connect.check("local")

    assert str(caught.value) == (
        "--ray: Ray is not installed for this Python. Use `nox -s matrix -- --ray …`, or"
        " install the dependency group `ray`."
    )


def test_a_cluster_that_does_not_start_is_told_with_what_ray_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def init(**_: object) -> None:
        message = "The current node timed out during startup."
        raise Exception(message)  # noqa: TRY002 - as Ray does

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    with pytest.raises(RunnerError) as caught:
        connect._join(connect.LOCAL, tmp_path, {})

    assert str(caught.value) == (
        "--ray: no Ray cluster could be started on this machine (The current node timed out"
        " during startup.). Is it short of memory or of disk? Without `--ray` a run needs no"
        " cluster."
    )


@pytest.mark.parametrize("imported", [None, SimpleNamespace()])
def test_an_interruption_while_ray_is_imported_is_the_end_of_the_run(
    imported: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def join(*_: object) -> None:
        monkeypatch.setitem(sys.modules, "ray", imported)  # what is left of it then
        raise Interrupted

    monkeypatch.setattr(connect, "_join", join)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with pytest.raises(Interrupted), connect.connected(connect.LOCAL, tmp_path, tmp_path):
        pass


def test_everything_that_a_node_installs_is_pinned() -> None:
    assert [one for one in GROUPS["node"] if "==" not in one] == []
