"""The connection to a Ray cluster: made within seconds, or refused with what to do."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from repromatrix.runner import subprocesses
from repromatrix.runner.errors import InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.execution.hardware import cores
from repromatrix.runner.tempdirs import scratch
from repromatrix.runner.worker import process_control

LOCAL = "local"
"""A cluster of this machine alone, which ends with the run."""
_AUTO = "auto"
_FORMS = "HOST:PORT of a cluster that this machine is a node of, `auto`, or `local`"
_ANSWERS = 3.0
_LEAVING = 5.0
"""Seconds for Ray's goodbye, which takes about one, or two where it ends a cluster."""
_STORE = 100 << 20
_SHORT = "/tmp"  # noqa: S108 - where Ray itself has its folder: its sockets need a short path
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Packages are the run's own; only the minor version of Python has to be the same.
    "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
}
# Where something answers that is no Ray, it would be asked for a quarter of an hour.
_PATIENCE = {"RAY_py_gcs_connect_timeout_s": "5", "RAY_gcs_server_port_wait_time_s": "1"}
_BOUND_TO_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray's way not to replace a loopback address by the machine's own."""

_stuck: list[threading.Thread] = []
"""Threads that were left behind in Ray."""


def check(address: str) -> None:
    """Raise RunnerError for what cannot be an address, and where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        fix = "Use `nox -s matrix -- --ray …`, or install the dependency group `ray`."
        raise refuse(Problem("--ray", "Ray is not installed for this Python", fix))
    if address not in {LOCAL, _AUTO}:
        _parted(address)


def _parted(address: str) -> tuple[str, int]:
    found = re.fullmatch(r"([\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", address)
    if found is None:
        raise refuse(InvalidValue("--ray", address, _FORMS))
    return found[1].strip("[]"), int(found[2])


@contextlib.contextmanager
def connected(address: str, environments: Path, sent: Path) -> Iterator[None]:
    """Be a driver of a cluster; raises RunnerError where none can be reached, or another Ray is.

    Tasks find what is in the folder `sent`. A cluster of this machine alone builds where this
    machine does, in `environments`, and has its own files in a folder that goes with it.
    """
    environ = dict(_SETTINGS)
    if address == LOCAL:
        environ |= {"REPROMATRIX_ENVIRONMENTS": str(environments), **_BOUND_TO_LOOPBACK}
    else:
        environ |= _PATIENCE
    if address not in {LOCAL, _AUTO}:
        environ |= _reached(address)
    # Ray reads them as it is imported, and what it starts inherits them.
    os.environ.update({name: os.environ.get(name, value) for name, value in environ.items()})
    # Ray tells its troubles on standard output, which is for what programs read.
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as kept:
        own = {"_temp_dir": str(kept.enter_context(scratch(_SHORT)))} if address == LOCAL else {}
        try:
            _join(address, sent, own)
            yield
        finally:
            # Ray waits for no end of what its own processes started.
            started = process_control.descendants(os.getpid()) if address == LOCAL else []
            _leave()
            process_control.end_those(
                lambda pid: pid in started and not process_control.has_ended(pid)
            )


def came_back(thread: threading.Thread, seconds: float) -> bool:
    """Wait for a thread that speaks to Ray; say whether it ended in that time.

    Ray waits without a limit for the answer of a cluster: only a thread can be left behind in it.
    """
    try:
        thread.join(seconds)
    finally:  # a second Ctrl-C leaves it at once
        if stays := thread.is_alive():
            _stuck.append(thread)
    return not stays


def is_stuck() -> bool:
    """Say whether a thread is left behind in Ray.

    Then the process may not end in the ordinary way, which crashes in Ray's own threads: whoever
    ends it calls `os._exit`.
    """
    return any(thread.is_alive() for thread in _stuck)


def _leave() -> None:
    """Leave the cluster, unless a thread is left behind in Ray, or its goodbye gets no answer."""
    # Interrupted while it was imported, Ray has begun nothing, and cannot be imported again.
    shutdown = getattr(sys.modules.get("ray"), "shutdown", None)
    if shutdown is not None and not is_stuck():
        thread = threading.Thread(target=shutdown, daemon=True)
        thread.start()
        came_back(thread, _LEAVING)


def _reached(address: str) -> dict[str, str]:
    """Return what Ray has to be told to reach an address; raises RunnerError if nobody answers."""
    host, port = _parted(address)
    if not _answers(host, port):
        fix = "`ray status` on a node of the cluster prints its address."
        what = f"nothing answers at {address} within {_ANSWERS:.0f} s"
        raise refuse(Problem("--ray", what, fix))
    own = ""  # the address by which others know this machine; nothing is sent
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        own = str(probe.getsockname()[0])
    if host in {"localhost", "127.0.0.1", "::1"} and not _answers(own, port):
        return _BOUND_TO_LOOPBACK
    return {}


def _answers(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=_ANSWERS):
        return True
    return False


_ITS_PYTHON = """bash -c 'exec "${0%/lib/python*}/bin/python3" "$0" "$@"'"""
"""How a node of Ray starts its Python, by where its own files lie: it quotes no path of it."""


def _join(address: str, sent: Path, own: Mapping[str, object]) -> None:
    """Join a cluster, or start one; `own` is what Ray is told beside the address."""
    import ray

    options = {**own, "logging_level": "CRITICAL", "log_to_driver": False}
    if address == LOCAL:
        # Nobody else can reach it.
        options |= {"_node_ip_address": "127.0.0.1", "include_dashboard": False}
        options |= {"num_cpus": cores(), "object_store_memory": _STORE}
    environment = {"working_dir": str(sent)}
    if " " in sys.executable:
        environment["py_executable"] = _ITS_PYTHON
    # Ray puts its own answer to a signal in the place of ours.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ray.init(address=address, runtime_env=environment, **options)
    except Exception as error:  # Ray raises a bare one where its own processes start too slowly
        raise _refused(address, error) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refused(address: str, error: BaseException) -> RunnerError:
    said = subprocesses.anonymous(" ".join(str(error).split()))[:300]
    if address == LOCAL:
        what = f"no Ray cluster could be started on this machine ({said})"
        fix = "Is it short of memory or of disk? Without `--ray` a run needs no cluster."
    else:
        what = f"no Ray cluster can be joined at {address} ({said})"
        fix = (
            "Is it Ray's own port, is this machine a node of the cluster (`ray status`),"
            " and are Ray and Python of the same version there and here?"
        )
    return refuse(Problem("--ray", what, fix))
