"""A real Ray cluster of several nodes on this machine, reachable from nowhere else."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

_NODE = {
    "object_store_memory": 100 << 20,
    "include_dashboard": False,
}


_BOOT = "import sys; sys.path"
"""How each of our own processes on a node begins."""


@dataclass(kw_only=True)
class Nodes:
    """The nodes of a cluster; every process of ours on them has `mark` in its PATH."""

    cluster: Any
    folder: Path
    mark: str
    count: int = 0

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self, cpus: int = 1, gpus: int = 0, **environ: str) -> str:
        """Start a node, with variables of its own, and return its name."""
        # A driver belongs to the node that has its address: that one, the first, is never killed.
        self.count += 1
        own = {
            "node_ip_address": f"127.0.0.{self.count}",
            "num_cpus": cpus,
            "num_gpus": gpus,
            "env_vars": self._environ(environ),
        }
        # Its workers inherit what we ignore: that is how a script's background job starts one.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            node = self._added(own)
        finally:
            signal.signal(signal.SIGINT, before)
        return str(node.node_id)

    def _added(self, own: dict[str, Any]) -> Any:  # noqa: ANN401 - Ray's node has no type
        """Start a node, again where it ended itself: https://github.com/ray-project/ray/issues/65983."""
        with contextlib.suppress(Exception):
            return self.cluster.add_node(**_NODE, **own)
        return self.cluster.add_node(**_NODE, **own)

    @property
    def head(self) -> int:
        """The process that all nodes and drivers ask for everything."""
        (server,) = self.cluster.head_node.all_processes["gcs_server"]
        return int(server.process.pid)

    def _environ(self, own: dict[str, str]) -> dict[str, str]:
        return {"XDG_CACHE_HOME": str(self.folder / "cache"), "PATH": self.mark, **own}

    def kill(self, name: str) -> None:
        """End a node as a power cut does."""
        node = next(one for one in self.cluster.list_all_nodes() if one.node_id == name)
        self.cluster.remove_node(node, allow_graceful=False)

    def ours(self) -> dict[int, str]:
        """Return what we run on the nodes, by its number: no part of Ray."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                program, *words = (process / "cmdline").read_text().split("\0")
                own = program.endswith("/uv") or any(one.startswith(_BOOT) for one in words)
                if own and self.mark.encode() in (process / "environ").read_bytes():
                    found[int(process.name)] = " ".join(words)
        return found


@contextlib.contextmanager
def nodes(folder: Path, count: int, cpus: int = 1) -> Iterator[Nodes]:
    """Start so many nodes and a head that runs nothing; skip where Ray is not installed."""
    quiet = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # a loopback address is meant as it is written
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_local_fs_capacity_threshold": "1",
        "RAY_worker_niceness": "0",  # beside other work a task would not get on for minutes
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quiet.items():
            patch.setenv(name, value)
        # Everything that is built is built in one place: what is there is used.
        built = os.environ.get("REPROMATRIX_ENVIRONMENTS", str(ROOT / ".nox" / "environments"))
        patch.setenv("REPROMATRIX_ENVIRONMENTS", built)
        utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
        cluster = utils.Cluster()
        made = Nodes(cluster=cluster, folder=folder, mark=f"{os.environ['PATH']}:{folder}")
        try:
            made.add(cpus=0)
            for _ in range(count):
                made.add(cpus)
            yield made
        finally:
            cluster.shutdown()
