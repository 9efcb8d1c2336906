"""The process on a node that runs a unit: it reads a parcel and answers with events."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from runner.cluster.frames import framed
from runner.cluster.parcel import unpacked
from runner.engine.events import Done, Unbuilt
from runner.engine.hardware import has_cuda
from runner.engine.pool import Pool
from runner.errors import ExitCode, Interrupted
from runner.inside import cage
from runner.interruption import Interruption
from runner.model.outcomes import Device
from runner.processes import anonymous

if TYPE_CHECKING:
    from collections.abc import Generator

    from runner.cluster.parcel import Parcel
    from runner.engine.events import Event


def main() -> None:
    """Run the unit; a worker that ends ends this process, and with it everything below."""
    _root, _packages, worker, answers = sys.argv[1:]
    once = Interruption()  # what is being ended must not be interrupted again
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, once)
    # Ray's workers block signals, and a cell inherits what this process has.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    cage.interrupt_with_parent(int(worker))
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
    campaign = parcel.campaign
    if campaign.terms.device is Device.CUDA and not has_cuda():
        yield Unbuilt(unit=parcel.unit, reason="no NVIDIA driver is loaded there")
        return
    pool = Pool(campaign.terms, campaign.project.cases, parcel.prepare, campaign.doubted)
    try:
        with contextlib.closing(pool.run([parcel.unit])) as events:
            for event in events:
                # The driver knows itself when a unit is done.
                if not isinstance(event, Done):
                    yield event
    except OSError as error:  # a full disk, a folder that is not its own: another node has others
        yield Unbuilt(unit=parcel.unit, reason=anonymous(str(error)))
