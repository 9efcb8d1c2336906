"""`audit`: the known bugs of a lock file, a list of packages or an interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner.audit import questions, render
from repromatrix.runner.audit.hits import audit as find
from repromatrix.runner.audit.inputs import read
from repromatrix.runner.cli.options import QuestionOptions, command, print_stdout, stderr_console
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditOptions(QuestionOptions):
    """The options of `audit`."""

    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A requirements file, uv.lock, pylock.toml, poetry.lock, the output of"
            " `pip freeze` (`-` reads it from standard input), or an interpreter; the active"
            " one by default.",
        ),
    ] = ""
    ignore: Annotated[
        Sequence[str], typer.Option(help="A case to leave out, by name or glob.")
    ] = ()
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print every error, and all cases without an answer."),
    ] = False


@command("audit", collect=False)
def audit_packages(
    paths: Paths, options: AuditOptions, console: Callable[[], Console] = stderr_console
) -> ExitCode:
    """List the known bugs of a set of packages, and what avoids them.

    The exit code is 1 where there are some. `console` is called only where there is something to
    warn of: rich takes time to import.
    """
    installed = read(options.path)
    loaded, question = questions.asked(paths, options, options.ignore)
    known = questions.known_of(loaded, question, console, installed)
    report = find(installed, known, question)
    if options.format == "text":
        answer = render.text(report, verbose=options.verbose)
    else:
        answer = {"markdown": render.markdown, "json": render.as_json}[options.format](report)
    print_stdout(answer)
    if not report.hits and report.unknown and not report.clear:
        return ExitCode.UNDECIDED  # nothing was answered: a script must not take that for a pass
    return ExitCode.UNEXPECTED if report.hits else ExitCode.AS_EXPECTED
