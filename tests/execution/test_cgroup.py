"""Groups that count processes: what cannot be had is done without, and nobody is disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cells
import pytest

from repromatrix.runner.execution import cgroup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CROWD = """
import subprocess, time
started = [subprocess.Popen(['sleep', '600']) for _ in range(40)]
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """Let each test ask the machine that it makes up."""
    asked = cgroup.can_count
    asked.cache_clear()
    yield
    asked.cache_clear()


def without(monkeypatch: pytest.MonkeyPatch, *parents: Path) -> None:
    monkeypatch.setattr(cgroup, "_parents", lambda: iter(parents))


def test_a_folder_that_is_no_group_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without(monkeypatch, tmp_path / "absent", tmp_path)
    one = cgroup.group()
    one.close()

    assert (cgroup.can_count(), one.folder, one.inherited, one.listing) == (False, None, [], "")


def test_a_group_that_is_gone_before_it_is_opened_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cgroup, "can_count", lambda: True)
    monkeypatch.setattr(cgroup, "_made", lambda: tmp_path / "gone")
    one = cgroup.group()
    one.close()

    assert (one.folder, one.inherited) == (None, [])


@pytest.mark.parametrize("counted", [True, False])
def test_a_crowd_is_ended_and_its_neighbour_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, counted: bool
) -> None:
    if not counted:
        without(monkeypatch)
    crowd, calm = tmp_path / "crowd.py", tmp_path / "calm.py"
    crowd.write_text(CROWD)
    calm.write_text("import time\ntime.sleep(0.5)\n")
    with cells.worker(cells.here(), [crowd, calm], sandbox=False, slots=2) as worker:
        requests = [cells.request(path, n, processes=20) for n, path in enumerate((crowd, calm))]
        answers = cells.said(worker, *requests)
        again = cells.said(worker, cells.request(calm, 2, processes=20))

    actual = {
        number: (answer["outcome"], answer.get("error_class"))
        for number, answer in {**answers, **again}.items()
    }
    assert actual == {0: ("crashes", "TooManyProcesses"), 1: ("passes", None), 2: ("passes", None)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory.max": "max\n", "cpu.max": "max 100000\n", "cpuset.cpus": "\n"}, False),
        ({"memory.max": "1073741824\n"}, True),
        ({"cpu.max": "50000 100000\n"}, True),
        ({"cpuset.cpus": "0-1\n"}, True),
    ],
)
def test_nobody_leaves_a_group_that_bounds_memory_or_processors(
    tmp_path: Path, files: dict[str, str], *, expected: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    assert cgroup._bounds(tmp_path) == expected


V2 = "35 24 0:30 {root} {top} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "36 24 0:31 {root} {top}/pids rw,nosuid shared:10 - cgroup cgroup rw,pids"


@pytest.mark.parametrize(
    ("listed", "mounts", "root", "limit", "expected"),
    [
        # A session of systemd: below our own, or beside it, as long as it bounds nothing.
        ("0::/user.slice/a.scope", [V2], "/", "max", ["user.slice/a.scope", "user.slice"]),
        ("0::/user.slice/a.scope", [V2], "/", "1073741824", ["user.slice/a.scope"]),
        # A container that sees its own group as the root, and one that sees the machine's names.
        ("0::/", [V2], "/", "1073741824", ["."]),
        ("0::/docker/a", [V2], "/docker/a", "max", ["."]),
        # Both kinds at once: the old counts processes.
        ("4:pids:/a\n0::/", [V1, V2], "/", "max", ["pids/a", "."]),
        # The old without a count, what we are in is not mounted here, and no groups at all.
        ("4:memory:/a", [V1], "/", "max", []),
        ("0::/elsewhere/a", [V2], "/docker/a", "max", []),
        ("0::/user.slice/a.scope", [], "/", "max", []),
        ("", [], "/", "max", []),
    ],
)
def test_a_group_is_made_below_our_own_or_beside_it_in_either_version(  # noqa: PLR0913
    tmp_path: Path, listed: str, mounts: list[str], *, root: str, limit: str, expected: list[str]
) -> None:
    top = tmp_path / "cgroup"
    (top / "user.slice" / "a.scope").mkdir(parents=True)
    (top / "user.slice" / "a.scope" / "memory.max").write_text(f"{limit}\n")
    told = [line.format(root=root, top=top) for line in mounts]
    me = tmp_path / "me"
    me.mkdir()
    (me / "cgroup").write_text(listed)
    (me / "mountinfo").write_text("\n".join(told))

    assert list(cgroup._parents(me)) == [top / name for name in expected]
