"""`run`: one cell, in an environment that is built for it where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.options import Console
from repromatrix.runner.cli.progress import cell_text
from repromatrix.runner.environments import uv
from repromatrix.runner.environments.building import UnbuildableError, is_built
from repromatrix.runner.errors import ExitCode, Problem, refuse
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import demand
from repromatrix.runner.execution.run import Run, measure
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell, Environment, belongs, obstacles
from repromatrix.runner.model.environment_name import asked
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.planning.selection import (
    CASE,
    NONE,
    SelectionRequest,
    environments_of,
    select,
)
from repromatrix.runner.project import Project
from repromatrix.runner.text import join, printable_lines

_RELEASE = "--release"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """The options of `run`."""

    case: cli.OneCase
    release: Annotated[
        str,
        typer.Option(metavar="RELEASE", help="A release, `main`, or a pair: 4.53.3+peft0.15.2."),
    ]
    precision: Annotated[str, cli.checked("The precision: fp32, bf16 or fp16.", *Precision)]
    workaround: cli.OneWorkaround = PLAIN
    device: cli.OnDevice = Device.CPU
    sandbox: cli.Sandbox = None
    offline: Annotated[bool, "Use no network: only what lies on this machine."] = False


@cli.command("run")
def run_cell(paths: Paths, options: RunOptions, console: Console) -> ExitCode:
    """Run a case once on a release, in an environment that is kept, and print what it did.

    The result is not stored. The exit code says whether it is as the case expects.
    """
    demand(options.device)
    if options.offline:
        uv.go_offline()
    name = options.release
    # No case may have asked for it.
    derived = [name] if "+" in name and asked(name, _RELEASE).base != MAIN else []
    loaded = cli.load_scripts(paths, [options.case], derived)
    case = cli.only_case(loaded, options.case)
    environment = _environment(loaded, case, options)
    named = [options.workaround] if options.workaround else []
    request = SelectionRequest(case=[case.name], workaround=named)
    selection = select(request, loaded.cases, loaded.names, CASE)
    workaround = PLAIN if options.workaround == NONE else options.workaround
    precision = Precision(options.precision)
    cell = Cell(case.name, workaround, environment.name, precision, options.device)
    sandbox = cli.decide_sandbox(options.sandbox, cli.line_printer(console, "dim"))
    planned = Run(
        project=loaded,
        selection=selection,
        terms=Terms(limits=loaded.matrix.limits, device=options.device, sandbox=sandbox),
        rerun=True,
    )
    has_lock = environment.source.has_lock
    digest = project.recipe(loaded, environment.name).digest if has_lock else ""
    if not (has_lock and is_built(paths, environment.name, digest)):
        console.print(f"Building {environment.name} in {paths.built}.")
    try:
        ready = planned.prepare(Unit(environment=environment.name, cells=(cell,)))
        (row,) = measure(ready, loaded.cases, planned.terms)
    except UnbuildableError as error:
        fix = "Without --offline, what is missing is downloaded." if options.offline else ""
        problem = Problem(environment.name, f"the environment cannot be built: {error}", fix)
        raise refuse(problem, ExitCode.UNBUILDABLE) from error
    verdict = planned.verdict(row, ready.environment)
    cli.print_stdout(printable_lines(f"{cell_text(row)} ({verdict})\n"))
    return ExitCode.UNEXPECTED if verdict.is_unexpected else ExitCode.AS_EXPECTED


def _environment(loaded: Project, case: Case, options: RunOptions) -> Environment:
    """Return the environment of a release that has what a case needs; raises RunnerError."""
    names = environments_of([options.release], loaded.names, _RELEASE)
    fitting = [name for name in names if belongs(case, loaded.environments[name])]
    if len(fitting) != 1:
        what = f"{options.release!r} names {join(fitting, 'and') or 'no release of this case'}"
        raise refuse(Problem(_RELEASE, what, "Name one release."))
    environment = loaded.environments[fitting[0]]
    if lacking := obstacles(case, environment, options.device):
        what = f"{case.name} cannot run there: {join(lacking, 'and')}"
        raise refuse(Problem(_RELEASE, what), ExitCode.NOTHING_SELECTED)
    return environment
