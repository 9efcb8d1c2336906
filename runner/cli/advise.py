"""`advise`: the newest release on which all chosen cases pass."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repromatrix.runner.audit import questions
from repromatrix.runner.audit import render_advice as telling
from repromatrix.runner.audit.advice import Advice
from repromatrix.runner.audit.advice import advise as find
from repromatrix.runner.cli.options import (
    Areas,
    Cases,
    Format,
    Models,
    OnDevice,
    Precisions,
    command,
    told,
)
from repromatrix.runner.cli.output_formats import check_format
from repromatrix.runner.cli.stdout import say
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
    """Print the newest release on which all chosen cases pass, with a version specifier."""
    gc.disable()
    return advise_release(Paths(), options, told)


def advise_release(places: Paths, options: AdviseOptions, tell: Callable[[], Console]) -> ExitCode:
    """Print the newest release on which everything passes; return what it tells a script."""
    check_format(options.format)
    loaded, question = questions.asked(places, options)
    wanted = questions.plain(question)
    found = find(questions.known_of(loaded, question, tell, wanted), question)
    say(_told(found, options.format))
    return found.code


def _told(found: Advice, form: str) -> str:
    match form:
        case "markdown":
            return telling.markdown(found)
        case "json":
            return telling.as_json(found)
        case _:
            return telling.text(found)
