"""`blame`: the package that makes a case fail in one of two environments."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.package_runs import MixtureOracle
from repromatrix.runner.bisect.packages import Blame
from repromatrix.runner.bisect.render_packages import document
from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.options import Console
from repromatrix.runner.document import write
from repromatrix.runner.environments.locks import load_matrix
from repromatrix.runner.errors import ExitCode, Interrupted, InvalidValue, Problem, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import demand
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.environment_name import asked, with_extras
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths, as_typed
from repromatrix.runner.planning.selection import CASE, NONE, SelectionRequest, select, suggestion
from repromatrix.runner.project import Project
from repromatrix.runner.text import join


@dataclass(frozen=True, kw_only=True, slots=True)
class BlameOptions:
    """The options of `blame`."""

    case: cli.OneCase
    precision: Annotated[str, "fp32, bf16 or fp16."]
    good: Annotated[str, "An environment in which the case passes."]
    bad: Annotated[str, "An environment in which the case fails."]
    workaround: cli.OneWorkaround = ""
    device: cli.OnDevice = Device.CPU
    format: cli.Format = "text"
    any_failure: cli.AnyFailure = False
    rerun: cli.Rerun = False
    sandbox: cli.Sandbox = None


@cli.command("blame", collect=False)
def find(paths: Paths, options: BlameOptions, console: Console) -> ExitCode:
    """Find the package whose version makes a case fail in one of two environments.

    The exit code says how the search ended.
    """
    demand(options.device)
    known = [release.name for release in load_matrix(paths).releases]
    for option, name in (("--good", options.good), ("--bad", options.bad)):
        base = asked(name, option).base
        if base == MAIN:
            fix = "Use the newest release instead."
            raise refuse(Problem(option, f"{MAIN} has no lock, so its packages vary", fix))
        if base not in known:
            expected = "a release, with extras or as a pair"
            raise refuse(InvalidValue(option, name, expected, suggestion(base, known)))
    derived = [name for name in (options.good, options.bad) if "+" in name]
    loaded = cli.load_scripts(paths, [options.case], derived)
    question = _question(loaded, options)
    try:
        blame = _searched(loaded, question, options, console.print)
    except Interrupted:
        console.print("Results so far are kept; run the same command to continue.")
        raise
    variant = f"[{question.workaround}]" if question.workaround else ""
    matrix = loaded.matrix
    page = document(
        blame,
        subject=f"{question.case.name}{variant} {question.precision}",
        ground=f"on {question.device} with torch {matrix.torch.version}, Python {matrix.python}",
        command=as_typed("blame", shlex.join(cli.portable(sys.argv[2:]))),
    )
    cli.print_stdout(write(page, options.format))
    return blame.ending.code


def _question(loaded: Project, options: BlameOptions) -> CaseQuestion:
    name = next(iter(loaded.cases)) if loaded.paths.own else options.case
    request = SelectionRequest(
        case=[name],
        precision=[options.precision],
        workaround=[options.workaround or NONE],
        device=options.device,
    )
    selection = select(request, loaded.cases, loaded.names, CASE)
    variants = selection.workarounds or frozenset()
    for names in (selection.cases, selection.precisions, variants):
        if len(names) > 1:
            shown = join(sorted(map(str, names)))
            what = f"takes one case, one precision and one workaround, not {shown}"
            raise refuse(Problem(CASE, what))
    return CaseQuestion(
        case=loaded.cases[next(iter(selection.cases))],
        workaround=next(iter(variants)),
        precision=next(iter(selection.precisions)),
        device=options.device,
        any_failure=options.any_failure,
    )


def _with_needed_extras(case: Case, loaded: Project, name: str) -> str:
    """Let a release stand for itself with the extras that a case needs."""
    extended = with_extras(name, case.extras)
    return extended if "+" not in name and extended in loaded.environments else name


def _searched(
    loaded: Project,
    question: CaseQuestion,
    options: BlameOptions,
    tell: Callable[[str], None],
) -> Blame:
    paths, cases = loaded.paths, {question.case.name}
    ends = (options.good, options.bad)
    good, bad = (_with_needed_extras(question.case, loaded, name) for name in ends)
    with contextlib.closing(Store(paths.trials, tell)) as store:
        known = () if options.rerun else (*answers.both(paths, tell, cases), *store.rows(cases))
        sandbox = cli.decide_sandbox(options.sandbox, tell)
        return MixtureOracle(
            project=loaded,
            question=question,
            good=good,
            bad=bad,
            rows=known,
            keep=store.put,
            terms=Terms(limits=loaded.matrix.limits, device=question.device, sandbox=sandbox),
            say=tell,
        ).blame()
