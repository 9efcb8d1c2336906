"""`audit`: the known bugs of a lock file, a list of packages or an interpreter."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repromatrix.runner.audit import asking, render_ci
from repromatrix.runner.audit.hits import Audit
from repromatrix.runner.audit.hits import audit as find
from repromatrix.runner.audit.inputs import read
from repromatrix.runner.audit.lines import file_of
from repromatrix.runner.audit.render import document, spots_of
from repromatrix.runner.audit.render_ci import workflow_command
from repromatrix.runner.audit.settings import (
    AuditTerms,
    FailOn,
    asked_fail_on,
    fails_build,
)
from repromatrix.runner.audit.swept_models import swept_models
from repromatrix.runner.cli.options import (
    All,
    AtFault,
    Features,
    QuestionOptions,
    Triggers,
    checked,
    command,
    print_stdout,
    warn,
)
from repromatrix.runner.document import Document, Listing, write
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.packages import TRANSFORMERS
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from repromatrix.runner.audit.swept import SweptAnswer

_USUAL = AuditTerms()
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print every error, and all cases without an answer."),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditOptions(QuestionOptions):
    """The options of `audit`."""

    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A folder, a lock, a list of packages, an SBOM (`-` reads standard input), or an"
            " interpreter; by default this folder, else the active interpreter.",
        ),
    ] = ""
    environment: Annotated[str, "The environment of a pixi.lock; `default` where there is one."] = (
        ""
    )
    ignore: Annotated[Sequence[str], "A case to leave out, by name or glob."] = ()
    trigger: Triggers = ()
    package: AtFault = ()
    feature: Features = ()
    format: Annotated[
        str,
        checked(
            "Output format: text, markdown (to paste), json, sarif (for code scanning) or github"
            " (annotations of a workflow).",
            *("text", "markdown", "json", "sarif", "github"),
        ),
    ] = "text"
    base_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The address of the published site, to link to cases; their first report without.",
        ),
    ] = ""
    fail_on: Annotated[
        Sequence[str],
        typer.Option(
            metavar="WORDS",
            help="What ends with exit code 1: measured, derived, swept, bug, change, policy, silent"
            " or none; every known bug by default.",
        ),
    ] = ()
    against: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="What you had before: the answer begins with what the change of versions breaks,"
            " mends and leaves unknown.",
        ),
    ] = ""
    all: All = False
    verbose: Verbose = False


@command("audit", collect=False)
def audit_packages(paths: Paths, options: AuditOptions) -> ExitCode:
    """List the known bugs of a set of packages, and what avoids them; 1 where some fail a build."""
    installed = read(options.path, options.environment)
    fail_on, page = asked_fail_on(options.fail_on), _USUAL.page
    if options.base_url:
        from repromatrix.runner import site  # noqa: PLC0415 - most ask without, and it takes time
        from repromatrix.runner.cli.report import site_address  # noqa: PLC0415

        page = functools.partial(site.case_page, site_address(options.base_url))
    loaded, question, models, terms = asking.asked(
        paths, options, beside=file_of(installed), ignore=options.ignore
    )
    terms = dataclasses.replace(
        terms, fail_on=fail_on or terms.fail_on, page=page, everything=options.all
    )
    known = asking.known_of(loaded, question, warn, installed)
    report = find(installed, known, question)
    found = swept_models(paths, models, installed.version(TRANSFORMERS), question.precisions)
    change = None
    if options.against:
        from repromatrix.runner.audit.render_advice import moved  # noqa: PLC0415 - likewise

        old = read(options.against, options.environment)
        before = find(old, asking.known_of(loaded, question, warn, old), question)
        move = report.after(before, known)
        change = moved(move, (*before.hits, *report.hits)), spots_of(move)
    verbose = options.verbose
    print_stdout(told(report, options.format, terms, verbose=verbose, found=found, change=change))
    return exit_code(report, found, terms.fail_on)


def told(  # noqa: PLR0913 - what is told, and how
    report: Audit,
    form: str,
    terms: AuditTerms = _USUAL,
    *,
    verbose: bool = False,
    found: Sequence[SweptAnswer] = (),
    change: tuple[Listing, Mapping[str, Any]] | None = None,
) -> str:
    """Return the answer in a format, with what the sweep `found`; what is pasted says all."""
    match form:
        case "sarif":  # its results are cases
            return render_ci.sarif(report, terms)
        case "github":
            return render_ci.github(report, terms) + _annotation(found)
        case _:
            answer = document(report, terms, verbose=verbose, full=form == "markdown")
            if change:
                parts, data = [change[0], *answer.parts], {**answer.data, "move": change[1]}
                answer = dataclasses.replace(answer, parts=parts, data=data)
            return write(with_swept(answer, found), form)


def exit_code(
    report: Audit, found: Sequence[SweptAnswer] = (), fail_on: Sequence[FailOn] = ()
) -> ExitCode:
    """Return 1 where something fails the build, and 7 where nothing was answered."""
    if FailOn.NONE in fail_on:
        return ExitCode.AS_EXPECTED
    if FailOn.SWEPT in fail_on and any(one.bad for one in found):
        return ExitCode.UNEXPECTED
    if not report.hits and report.unknown and not report.clear:
        return ExitCode.UNDECIDED  # nothing was answered: a script must not take that for a pass
    fails = any(fails_build(hit, fail_on) for hit in report.hits)
    return ExitCode.UNEXPECTED if fails else ExitCode.AS_EXPECTED


# What the sweep found of the models that are asked for


def with_swept(answer: Document, found: Sequence[SweptAnswer]) -> Document:
    """Return an answer with what the sweep found."""
    if not found:
        return answer
    from repromatrix.runner.audit import swept  # noqa: PLC0415 - most ask without models

    parts, data = [*answer.parts, swept.listing(found)], swept.as_data(found)
    return dataclasses.replace(answer, parts=parts, data={**answer.data, "swept": data})


def _annotation(found: Sequence[SweptAnswer]) -> str:
    if not found:
        return ""
    from repromatrix.runner.audit.swept import lines  # noqa: PLC0415 - most ask without models

    first, *rest = lines(found)
    text = "\n".join(line.removeprefix("  ") for line in rest)
    level = "warning" if any(answer.bad for answer in found) else "notice"
    return f"{workflow_command(level, text, first)}\n"
