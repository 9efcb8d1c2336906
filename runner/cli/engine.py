"""What runs the cells of a command: this machine, or a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.options import Console
from repromatrix.runner.cli.progress import ProgressDisplay
from repromatrix.runner.execution.ray import connect as ray
from repromatrix.runner.execution.ray.driver import Cluster
from repromatrix.runner.execution.ray.parcel import choices, write_code
from repromatrix.runner.execution.run import Engine, Run
from repromatrix.runner.tempdirs import scratch


def sandbox_of(address: str, asked: bool | None, console: Console) -> bool:  # noqa: FBT001
    """Return whether cells are sandboxed, and say it where they are not; on a cluster never."""
    if not address:
        return cli.decide_sandbox(asked, cli.line_printer(console, "dim"))
    console.print("Not sandboxed: a case can use the network and the rights of Ray's workers.")
    return False


@contextlib.contextmanager
def engine_of(planned: Run, address: str, display: ProgressDisplay) -> Iterator[Engine]:
    """Yield what runs the plan: the cluster at an address while it is connected, or this machine.

    Raises RunnerError where no cluster answers at that address.
    """
    if not address:
        yield planned.pool()
        return
    # What a cluster of this machine starts has all that this process has.
    chosen = {} if address == ray.LOCAL else choices(planned)
    with scratch() as sent:
        write_code(planned.project, sent)
        with ray.connected(address, planned.project.paths.built, sent):
            yield Cluster(planned, lambda text: display.say(text, "yellow"), chosen)
