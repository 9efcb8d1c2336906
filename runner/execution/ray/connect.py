"""The connection to a Ray cluster: made within seconds, or refused with what to do."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import socket
import sys
import tempfile
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
_SHORT = "/tmp"  # noqa: S108 - where Ray itself has its folder
_LONGEST = (103 if sys.platform == "darwin" else 107) - len(
    "/repromatrix-run-12345678/session_2026-11-26_01-02-03_123456_4194304/sockets/plasma_store"
)
"""Bytes of the longest path below which Ray's sockets have paths that sockets may have."""
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
_VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")

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
def connected(address: str, environments: Path) -> Iterator[None]:
    """Be a driver of a cluster; raises RunnerError where none can be reached, or another Ray is.

    A cluster of this machine alone builds where this machine does, in `environments`, and has its
    own files in a folder that goes with it.
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
        own = kept.enter_context(_folder()) if address == LOCAL else {}
        try:
            _join(address, own)
            yield
        finally:
            _leave()


@contextlib.contextmanager
def _folder() -> Iterator[dict[str, object]]:
    """Yield what Ray is told of a folder for a cluster of this machine; both end with the block.

    Ray waits for no end of what its own processes started; all of them write into the folder.
    """
    with scratch(_place()) as folder:
        try:
            yield {"_temp_dir": str(folder)}
        finally:
            process_control.end_users(str(folder))


def _place() -> str:
    """Return where a cluster of this machine has its folder: Ray's sockets need a short path."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= _LONGEST else _SHORT


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
    if host in {"localhost", "127.0.0.1", "::1"} and not _answers(_own_address(), port):
        return _BOUND_TO_LOOPBACK
    return {}


def _answers(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=_ANSWERS):
        return True
    return False


def _own_address() -> str:
    """Return the address by which others know this machine; nothing is sent."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return ""


def _join(address: str, own: Mapping[str, object]) -> None:
    """Join a cluster, or start one; `own` is what Ray is told beside the address."""
    import ray

    options = {
        **own,
        "logging_level": "CRITICAL",
        "log_to_driver": False,
        "configure_logging": True,
    }
    if address == LOCAL:
        # Nobody else can reach it.
        options |= {"_node_ip_address": "127.0.0.1", "include_dashboard": False}
        options |= {"num_cpus": cores(), "object_store_memory": _STORE}
    try:
        with _our_signals():
            ray.init(address=address, **options)
    except Exception as error:  # Ray raises a bare one where its own processes start too slowly
        raise _refused(address, error) from error


@contextlib.contextmanager
def _our_signals() -> Iterator[None]:
    """Keep our own answer to a signal: Ray puts one of its own in its place."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refused(address: str, error: BaseException) -> RunnerError:
    texts = [str(one) for one in (error, error.__cause__, error.__context__) if one]
    text = "\n".join(texts)
    versions = _VERSIONS.findall(text)
    if "ersion mismatch" in text and len(versions) > 1:
        (ray, python), (own, ours) = versions[:2]
        here = f"Ray {own} and Python {'.'.join(ours.split('.')[:2])}"
        what = f"the cluster has Ray {ray} and Python {python}, and here is {here}"
        fix = "Install the cluster's versions here, or these there."
        return refuse(Problem("--ray", what, fix))
    said = subprocesses.anonymous(" ".join(texts[0].split()))[:300]
    if address == LOCAL:
        what = f"no Ray cluster could be started on this machine ({said})"
        fix = "Is it short of memory or of disk? Without `--ray` a run needs no cluster."
        return refuse(Problem("--ray", what, fix))
    what = f"no Ray cluster can be joined at {address} ({said})"
    fix = "Is it Ray's own port, and is this machine a node of the cluster (`ray status`)?"
    return refuse(Problem("--ray", what, fix))
