"""`audit`: the known bugs of a lock file, a list of packages or an interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner.audit import asking, render
from repromatrix.runner.audit.hits import audit as find
from repromatrix.runner.audit.inputs import read
from repromatrix.runner.cli import swept
from repromatrix.runner.cli.options import (
    QuestionOptions,
    command,
    late_printer,
    print_stdout,
    stderr_console,
)
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.packages import TRANSFORMERS
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

    The exit code is 1 where there are some; where no case is about the models, what the sweep
    found of them decides. `console` is called only where there is something to
    warn of: rich takes time to import.
    """
    installed = read(options.path)
    asked = swept.SweptModels(paths, options.model)
    loaded, question = asking.asked(paths, options, options.ignore, asked.is_known)
    known = asking.known_of(loaded, question, late_printer(console), installed)
    report = find(installed, known, question)
    found = asked.answers(installed.version(TRANSFORMERS), question.precisions)
    if options.format == "text":
        answer = render.text(report, verbose=options.verbose)
    else:
        answer = {"markdown": render.markdown, "json": render.as_json}[options.format](report)
    print_stdout(swept.added(answer, found, options.format))
    if not question.chosen(loaded.cases):
        return swept.code_of(found)
    if not report.hits and report.unknown and not report.clear:
        return ExitCode.UNDECIDED  # nothing was answered: a script must not take that for a pass
    return ExitCode.UNEXPECTED if report.hits else ExitCode.AS_EXPECTED
