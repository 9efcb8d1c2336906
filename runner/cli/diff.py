"""`diff`: what differs, cell by cell, between two sides.

Two environments, a release and a checkout, or two sets of evidence.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.options import Console
from repromatrix.runner.cli.progress import ProgressDisplay
from repromatrix.runner.compare import sides
from repromatrix.runner.compare.checkout import CheckoutRuns
from repromatrix.runner.compare.diff import compare, in_table_order
from repromatrix.runner.compare.render import DiffReport, document
from repromatrix.runner.document import write
from repromatrix.runner.environments.development import Checkout, read_checkout
from repromatrix.runner.errors import Conflict, ExitCode, Interrupted, InvalidValue, Problem, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import cores, demand
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.environment_name import asked
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, named_cases, select, suggestion
from repromatrix.runner.project import Project

_BEFORE, _AFTER = "BEFORE", "AFTER"


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffOptions(SelectionRequest):
    """The options of `diff`."""

    before: Annotated[
        str,
        typer.Argument(
            metavar=_BEFORE,
            help="An environment, such as 5.23.0; or evidence: a store, a folder of published"
            " evidence, or a publication by its name.",
        ),
    ]
    after: Annotated[
        str,
        typer.Argument(
            metavar=_AFTER,
            help="An environment, or the path of a checkout, such as ./transformers; evidence if"
            " BEFORE is evidence.",
        ),
    ]
    case: cli.Cases = ()
    area: cli.Areas = ()
    precision: cli.Precisions = ()
    workaround: cli.Workarounds = ()
    only_device: Annotated[
        Device | None,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="The device to compute on: cpu (default) or cuda; of evidence both by default.",
        ),
    ] = None
    format: cli.Format = "text"
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Cells to run at once; 0 means all cores.")
    ] = 0
    rerun: cli.Rerun = False
    sandbox: cli.Sandbox = None


@cli.command("diff")
def compare_sides(paths: Paths, options: DiffOptions, console: Console) -> ExitCode:
    """Print what differs: two environments, a release and a checkout, or two sets of evidence.

    Whatever has to be run for it is kept.
    """
    options = dataclasses.replace(options, device=options.only_device or Device.CPU)
    paths, files = cli.own_files(paths, options.case, "--case")
    typed = {_BEFORE: options.before, _AFTER: options.after}
    derived = {where: name for where, name in typed.items() if "+" in name and not _is_path(name)}
    # No case may have asked for them.
    named = [name for where, name in derived.items() if asked(name, where).base != MAIN]
    loaded = project.load(paths, files, named)
    if any(sides.is_evidence(text, loaded) for text in typed.values()):
        return _print_report(_evidence_report(loaded, options), options)
    demand(options.device)
    request = options if files is None else dataclasses.replace(options, case=tuple(loaded.cases))
    before = _environment(options.before, loaded, _BEFORE)
    checkout = None if options.after in loaded.names else _checkout(options.after, before, loaded)
    for where, given in (("--case", files), (_AFTER, checkout), ("--rerun", options.rerun)):
        if paths.is_installed and given:  # evidence does not answer it
            what = "`diff` runs nothing without a checkout of repromatrix"
            raise refuse(Problem(where, what, "Clone the repository and run `nox -s diff` in it."))
    names = [before] if checkout else [before, options.after]
    question = _request(loaded, request, options, names, console)
    try:
        both, setting = _sides(question, options, checkout, console)
    except Interrupted:
        console.print("Results so far are kept; run the same command to continue.")
        raise
    return _print_report(_report(question, options, checkout, both, setting), options)


def _print_report(report: DiffReport, options: DiffOptions) -> ExitCode:
    if not report.differences:
        problem = Problem("diff", "no selected cell has a result on either side")
        raise refuse(problem, ExitCode.NOTHING_SELECTED)
    cli.print_stdout(write(document(report), options.format))
    return report.exit_code


# Environments and checkouts


def _is_path(text: str) -> bool:
    return "/" in text or text.startswith((".", "~")) or Path(text).exists()


def _environment(text: str, loaded: Project, where: str) -> str:
    if text in loaded.names:
        return text
    fix = suggestion(text, loaded.names)
    if _is_path(text):
        fix = "Name the release first, then the checkout: `nox -s diff -- RELEASE PATH`."
    first, newest = loaded.matrix.releases[0].name, loaded.matrix.releases[-1].name
    expected = f"a release from {first} to {newest}, main, a pair, or evidence on both sides"
    raise refuse(InvalidValue(where, text, expected, fix))


def _checkout(text: str, base: str, loaded: Project) -> Checkout:
    if not _is_path(text):
        _environment(text, loaded, _AFTER)
    if not loaded.environments[base].source.has_lock:
        what = f"{base} has no lock; a checkout is compared with a release or a pair"
        newest = loaded.matrix.releases[-1].name
        raise refuse(Problem(_BEFORE, what, f"Use {newest}, for example."))
    return read_checkout(Path(text))


def _request(
    loaded: Project,
    request: SelectionRequest,
    options: DiffOptions,
    names: list[str],
    console: Console,
) -> sides.DiffRequest:
    selection = sides.of_pairs(select(request, loaded.cases, loaded.names), loaded, names)
    question = sides.DiffRequest(
        project=loaded,
        selection=selection,
        terms=Terms(
            limits=loaded.matrix.limits,
            device=request.device,
            jobs=options.jobs or cores(),
            sandbox=not loaded.paths.is_installed
            and cli.decide_sandbox(options.sandbox, cli.line_printer(console, "dim")),
        ),
        rerun=options.rerun,
        watched=lambda: ProgressDisplay(console),
    )
    environments = frozenset(each for name in names for each in question.environments(name))
    selection = dataclasses.replace(selection, environments=environments)
    return dataclasses.replace(question, selection=selection)


def _sides(
    question: sides.DiffRequest,
    options: DiffOptions,
    checkout: Checkout | None,
    console: Console,
) -> tuple[sides.Sides, str]:
    paths, warn = question.project.paths, cli.line_printer(console, "yellow")
    cases, named = question.selection.cases, (options.before, options.after)
    if paths.is_installed:
        return sides.known(question, named, answers.both(paths, warn, cases)), ""
    with answers.opened(paths, warn) as store:
        rows = [*answers.published_rows(paths, cases), *store.rows(cases)]
        if checkout is None:
            return sides.of_environments(question, named, rows, store), ""
        with contextlib.closing(Store(paths.trials, warn)) as trials:
            runs = CheckoutRuns(question, checkout, trials)
            both = sides.with_checkout(question, options.before, runs, rows, store)
            return both, runs.setting(options.before)


def _report(
    question: sides.DiffRequest,
    options: DiffOptions,
    checkout: Checkout | None,
    both: sides.Sides,
    setting: str,
) -> DiffReport:
    """Return the report; one that is to be pasted holds no path of this machine."""
    own = options.case if question.project.paths.own else ()
    files, after, title = {Path(text).stem: text for text in own}, options.after, options.after
    if checkout:
        state = checkout.standing
        facts = [
            f"commit {state.commit[:12]}" if state.commit else "no repository",
            f"branch {state.branch}" if state.branch else "",
            f"{'edited, ' if state.commit else ''}content {state.content}" if state.content else "",
        ]
        claimed = f"a checkout of {checkout.package} that claims {checkout.claims}"
        title = f"{claimed} ({', '.join(filter(None, facts))}), {setting}"
    if options.format != "text":
        files = {name: f"path/to/{name}.py" for name in files}
        after = f"path/to/{checkout.package}" if checkout else after
    return DiffReport(
        before=options.before,
        after=title,
        differences=compare(*both, question.project.cases),
        cases=question.project.cases,
        run=question.terms.run,
        sides=(options.before, after),
        files=files,
    )


# Sets of evidence, of which nothing is run


def _evidence_report(loaded: Project, options: DiffOptions) -> DiffReport:
    if loaded.paths.own:
        what = "evidence is compared by the names of cases, not by files"
        raise refuse(Problem("--case", what))
    if options.rerun:
        raise refuse(Conflict("--rerun", "evidence", "nothing is run"))
    typed = (options.before, options.after)
    (before, old), (after, new) = (sides.read_side(text, loaded) for text in typed)
    selection = select(dataclasses.replace(options, case=()), loaded.cases, loaded.names)
    known = {row.cell.case for row in (*old, *new)}  # also what only evidence knows
    cases = set(named_cases(options.case, [*loaded.cases, *sorted(known - {*loaded.cases})]))
    if options.area or options.model:
        cases &= selection.cases

    def answering(rows: Sequence[Observation]) -> Mapping[Cell, Observation]:
        """Return one row per cell: what is current in this checkout first, then the later."""
        rows = [row for row in rows if is_selected(row.cell)]
        return answering_rows(rows, loaded.cases, project.informed(loaded, rows).environments)

    def is_selected(cell: Cell) -> bool:
        return (
            cell.case in cases
            and cell.precision in selection.precisions
            and options.only_device in {None, cell.device}
            and (selection.workarounds is None or cell.workaround in selection.workarounds)
        )

    differences = compare(answering(old), answering(new), loaded.cases)
    titles = [before, after]
    if options.format == "text":  # what is to be pasted holds no path of this machine
        titles = [f"{text} ({title})" for text, title in zip(typed, titles, strict=True)]
    return DiffReport(
        before=titles[0],
        after=titles[1],
        differences=in_table_order(differences, loaded.cases, loaded.names),
        cases=loaded.cases,
        environments=loaded.names,
        of_one_set=len({*typed}) > 1 and all(sides.is_publication(text, loaded) for text in typed),
    )
