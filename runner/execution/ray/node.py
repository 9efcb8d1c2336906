"""The process on a node that runs a unit: it reads a parcel and answers with events."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Generator

from repromatrix.runner.errors import ExitCode, Interrupted
from repromatrix.runner.execution.events import Done, Event, Unbuilt
from repromatrix.runner.execution.hardware import has_cuda
from repromatrix.runner.execution.ray.parcel import Parcel, unpacked
from repromatrix.runner.execution.ray.task import framed
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.signals import Interruption
from repromatrix.runner.subprocesses import anonymous
from repromatrix.runner.worker import process_control


def main() -> None:
    """Run the unit; a worker that ends ends this process, and with it everything below."""
    _root, _packages, worker, answers = sys.argv[1:]
    once = Interruption()  # what is being ended must not be interrupted again
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, once)
    # Ray's workers block signals, and a cell inherits what this process has.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    process_control.interrupt_with_parent(int(worker))
    if os.getppid() != int(worker):  # it ended before we asked
        sys.exit(ExitCode.INTERRUPTED)
    try:
        parcel = unpacked(sys.stdin.buffer.read())
        with os.fdopen(int(answers), "wb") as pipe, contextlib.closing(_events(parcel)) as events:
            for event in events:
                pipe.write(framed(event))
                pipe.flush()
    except (Interrupted, BrokenPipeError):
        sys.exit(ExitCode.INTERRUPTED)


def _events(parcel: Parcel) -> Generator[Event]:
    if parcel.planned.terms.device is Device.CUDA and not has_cuda():
        yield Unbuilt(unit=parcel.unit, reason="no NVIDIA driver is loaded there")
        return
    try:
        with contextlib.closing(parcel.planned.pool(parcel.prepare).run([parcel.unit])) as events:
            for event in events:
                # The driver knows itself when a unit is done.
                if not isinstance(event, Done):
                    yield event
    except OSError as error:  # a full disk, a folder that is not its own: another node has others
        yield Unbuilt(unit=parcel.unit, reason=anonymous(str(error)))
