"""An index that does not answer is no index that lacks something."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.environments import building, locks, uv
from repromatrix.runner.environments.building import Recipe, UnbuildableError
from repromatrix.runner.environments.uv import SilentError
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from repromatrix.runner.model.matrix import Matrix


@pytest.fixture
def silent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, forget_index: Callable[[], None]
) -> Iterator[None]:
    """Let the user's only index be a port on which nobody listens."""
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS", "UV_TORCH_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}/simple"
        monkeypatch.setenv("UV_DEFAULT_INDEX", address)
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")
        forget_index()
        yield


@pytest.mark.usefixtures("silent")
def test_whether_something_can_be_had_is_not_known_then() -> None:
    with pytest.raises(SilentError):
        uv.resolves("torch==2.13.0", python="3.11")


@pytest.mark.usefixtures("silent")
def test_no_build_of_torch_is_chosen_for_the_rest_of_a_run_by_a_moment_of_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROMATRIX_ENVIRONMENTS", str(tmp_path / "environments"))
    recipe = Recipe(name="a", digest="0" * 16, python="3.11", lock="", torch="2.13.0", versions={})
    with pytest.raises(UnbuildableError) as caught:
        building.build(Paths(), recipe)

    assert "Connection refused" in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)
    assert uv.choose_torch.cache_info().currsize == 0


@pytest.mark.usefixtures("silent")
def test_no_day_is_made_up_for_a_release_of_an_index_that_is_silent(matrix: Matrix) -> None:
    with pytest.raises(RunnerError) as caught:
        locks.published_on(matrix, "4.50.0")

    assert caught.value.code is ExitCode.UNBUILDABLE


@pytest.mark.parametrize(("told", "meant"), [("", 900.0), ("1", 1.0), ("3600", 3600.0)])
def test_how_long_an_installation_may_take_can_be_said(
    told: str, meant: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(uv.PATIENCE, told)

    assert meant == uv.patience()


@pytest.mark.parametrize("told", ["0", "-1", "1e3", "ten", "1000000", "٣"])
def test_what_is_no_number_of_seconds_is_refused(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(uv.PATIENCE, told)
    with pytest.raises(RunnerError) as caught:
        uv.patience()

    assert [fault.where for fault in caught.value.faults] == [uv.PATIENCE]


def test_offline_no_index_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, forget_index: Callable[[], None]
) -> None:
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with socket.create_server(("127.0.0.1", 0)) as index:
        index.settimeout(0)
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{index.getsockname()[1]}/simple")
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("UV_OFFLINE", "")  # so that it is as before at the end
        forget_index()
        uv.go_offline()

        assert not uv.resolves("packaging==26.3", python="3.11", seconds=60)
        with pytest.raises(BlockingIOError):
            index.accept()
