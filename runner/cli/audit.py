"""`audit`: which known bugs a lock, a list or an interpreter has."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner.audit import questions
from repromatrix.runner.audit import render as telling
from repromatrix.runner.audit.hits import Audit
from repromatrix.runner.audit.hits import audit as find
from repromatrix.runner.audit.inputs import read
from repromatrix.runner.audit.render import as_json
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
class AuditOptions(SelectionRequest):
    """The options of `audit`."""

    path: Annotated[
        str,
        typer.Argument(
            help="A requirements file, uv.lock, pylock.toml, poetry.lock, what `pip freeze` prints"
            " (`-` reads it from standard input), or an interpreter; the active one by"
            " default."
        ),
    ] = ""
    case: Cases = ()
    area: Areas = ()
    model: Models = ()
    precision: Precisions = ()
    ignore: Annotated[
        Sequence[str], typer.Option("--ignore", help="A case to ignore, by name or glob.")
    ] = ()
    device: OnDevice = Device.CPU
    format: Format = "text"
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print every error and everything that is unknown."),
    ] = False


@command("audit")
def audit(options: AuditOptions) -> ExitCode:
    """List the known bugs of a set of packages, and what avoids them."""
    gc.disable()
    code = audit_packages(Paths(), options, told)
    gc.freeze()  # nothing is worth being looked through at the end
    return code


def audit_packages(places: Paths, options: AuditOptions, tell: Callable[[], Console]) -> ExitCode:
    """Print which known bugs somebody's packages have; return 1 where one hits."""
    check_format(options.format)
    installed = read(options.path)
    loaded, question = questions.asked(places, options, options.ignore)
    wanted = questions.around(installed, loaded, question)
    found = find(installed, questions.known_of(loaded, question, tell, wanted), question)
    say(_told(found, options))
    if not found.hits and found.unknown and not found.clear:
        return ExitCode.UNDECIDED  # nothing was examined: no green for whoever only asks the code
    return ExitCode.UNEXPECTED if found.hits else ExitCode.AS_EXPECTED


def _told(found: Audit, options: AuditOptions) -> str:
    match options.format:
        case "markdown":
            return telling.markdown(found)
        case "json":
            return as_json(found)
        case _:
            return telling.text(found, verbose=options.verbose)
