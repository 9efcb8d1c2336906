"""`advise`: the newest release on which all selected cases pass."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repromatrix.runner.audit import questions, render_advice
from repromatrix.runner.audit.advice import advise as find
from repromatrix.runner.cli.options import (
    Areas,
    Cases,
    Format,
    Models,
    OnDevice,
    Precisions,
    command,
    print_stdout,
    stderr_console,
)
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class AdviseOptions(SelectionRequest):
    """The options of `advise`."""

    case: Cases = ()
    area: Areas = ()
    model: Models = ()
    precision: Precisions = ()
    device: OnDevice = Device.CPU
    format: Format = "text"


@command("advise")
def advise(options: AdviseOptions) -> ExitCode:
    """Print the newest release on which all selected cases pass, with a version specifier."""
    gc.disable()
    return advise_release(Paths(), options, stderr_console)


def advise_release(
    paths: Paths, options: AdviseOptions, console: Callable[[], Console]
) -> ExitCode:
    """Print the newest release on which everything passes; the exit code says if there is one.

    `console` is called only where there is something to warn of: rich takes time to import.
    """
    loaded, question = questions.asked(paths, options)
    wanted = questions.plain(question)
    advice = find(questions.known_of(loaded, question, console, wanted), question)
    match options.format:
        case "markdown":
            print_stdout(render_advice.markdown(advice))
        case "json":
            print_stdout(render_advice.as_json(advice))
        case _:
            print_stdout(render_advice.text(advice))
    return advice.code
