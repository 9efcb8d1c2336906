"""`blame`: which package makes the difference between two environments."""

from __future__ import annotations

import dataclasses
import difflib
import gc
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.bisect import package_runs
from repromatrix.runner.bisect.package_runs import (
    BlameQuestion,
    MixtureEvidence,
    MixtureOracle,
    MixtureRuns,
    sweep,
    table,
)
from repromatrix.runner.bisect.packages import Blame, BlameOutcome
from repromatrix.runner.bisect.render_packages import (
    BlameReport,
    blame_markdown,
    blame_text,
    structured,
)
from repromatrix.runner.cases import load_script
from repromatrix.runner.cli.options import (
    AnyFailure,
    Format,
    OnDevice,
    OneWorkaround,
    Rerun,
    Walls,
    command,
    told,
)
from repromatrix.runner.cli.output_formats import check_format
from repromatrix.runner.cli.sandbox_option import walled
from repromatrix.runner.cli.stdout import say
from repromatrix.runner.cli.user_files import own_files
from repromatrix.runner.environments.locks import load_matrix
from repromatrix.runner.errors import ExitCode, Interrupted, OldFault, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import demand
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.environment_name import asked, with_extras
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import CASE, NONE, SelectionRequest, select
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console

_FORMATS = {"text": blame_text, "markdown": blame_markdown, "json": structured}


@dataclass(frozen=True, kw_only=True, slots=True)
class BlameOptions:
    """The options of `blame`."""

    case: Annotated[str, typer.Argument(help="A case by name, or your own script.")]
    precision: Annotated[str, typer.Option("--precision", help="fp32, bf16 or fp16.")]
    good: Annotated[str, typer.Option("--good", help="An environment in which the case passes.")]
    bad: Annotated[str, typer.Option("--bad", help="An environment in which the case fails.")]
    workaround: OneWorkaround = ""
    device: OnDevice = Device.CPU
    format: Format = "text"
    sweep: Annotated[
        str,
        typer.Option(
            "--sweep", help="Also try every minor version of this package, such as accelerate."
        ),
    ] = ""
    any_failure: AnyFailure = False
    rerun: Rerun = False
    sandbox: Walls = None


@command("blame")
def blame(options: BlameOptions) -> ExitCode:
    """Find the package whose version makes a case fail in one of two environments."""
    gc.disable()
    return find(Paths(), options, told())


def find(places: Paths, asking: BlameOptions, console: Console) -> ExitCode:
    """Print which packages make the difference; the exit code says how the search ended."""
    check_format(asking.format)
    demand(asking.device)

    def tell(line: str) -> None:
        console.print(line, markup=False)

    ends = [_end(places, "--good", asking.good), _end(places, "--bad", asking.bad)]
    loaded = _load(places, asking, ends)
    question = _question(loaded, asking, *ends)
    try:
        report = _searched(loaded, question, asking, tell)
    except Interrupted:
        tell("What was run is kept, and the same command goes on from here.")
        raise
    say(_FORMATS[asking.format](report))
    return _code(report.blame)


def _load(places: Paths, asking: BlameOptions, ends: Iterable[str]) -> Project:
    """Read the corpus, or a script of the user's, which need say nothing about itself."""
    places, files = own_files(places, [asking.case], CASE)
    also = [name for name in ends if "+" in name]
    if files is None:
        return project.load(places, also=also)
    loaded = project.load(places, [], also)
    cases = [load_script(path, str(path)) for path in files]
    return dataclasses.replace(loaded, cases={case.name: case for case in cases})


def _end(places: Paths, option: str, name: str) -> str:
    """Return the name of an end as it was typed; raises RunnerError where no lock can be meant."""
    parts = asked(name, option)
    known = [release.name for release in load_matrix(places).releases]
    if parts.base in known:
        return name
    remedy = ""
    if nearest := difflib.get_close_matches(parts.base, known, n=1, cutoff=0.3):
        remedy = f"Did you mean {nearest[0]!r}?"
    if parts.base == MAIN:
        remedy = "main has no lock, so that nothing can be held still; take the newest release."
    allowed = "a release, with extras or as a pair"
    raise refuse(OldFault(where=option, found=repr(name), allowed=allowed, fix=remedy))


def _question(loaded: Project, asking: BlameOptions, good: str, bad: str) -> BlameQuestion:
    name = next(iter(loaded.cases)) if loaded.places.own else asking.case
    wish = SelectionRequest(
        case=[name],
        precision=[asking.precision],
        workaround=[asking.workaround or NONE],
        device=asking.device,
    )
    chosen = select(wish, loaded.cases, loaded.names, CASE)
    variants = chosen.workarounds or frozenset()
    several = [part for part in (chosen.cases, chosen.precisions, variants) if len(part) > 1]
    if several:
        found = " ".join(sorted(map(str, several[0])))
        allowed = "one case, one precision and one workaround"
        raise refuse(OldFault(where=CASE, found=found, allowed=allowed))
    case = loaded.cases[next(iter(chosen.cases))]
    return BlameQuestion(
        case=case,
        workaround=next(iter(variants)),
        precision=next(iter(chosen.precisions)),
        device=asking.device,
        good=_for(case, loaded, good),
        bad=_for(case, loaded, bad),
        any_failure=asking.any_failure,
    )


def _for(case: Case, loaded: Project, name: str) -> str:
    """Let a release stand for itself with the extras that a case needs."""
    extended = with_extras(name, case.extras)
    return extended if "+" not in name and extended in loaded.environments else name


def _searched(
    loaded: Project, question: BlameQuestion, asking: BlameOptions, tell: Callable[[str], None]
) -> BlameReport:
    places = loaded.places
    wanted = package_runs.asked(asking.sweep, loaded, question.bad) if asking.sweep else None
    rows = answers.both(places, tell, {question.case.name})
    store = Store(places.trials, tell)
    try:
        known = () if asking.rerun else (*rows, *store.rows({question.case.name}))
        evidence = MixtureEvidence(rows=known, keep=store.put)
        runs = MixtureRuns(
            project=loaded,
            question=question,
            evidence=evidence,
            terms=_terms(loaded, question, sandbox=walled(asking.sandbox, tell)),
            say=tell,
        )
        bench = MixtureOracle(runs)
        found = bench.blame()
        swept = sweep(bench.runs, wanted, found.bad) if wanted and found.fixes else None
    finally:
        store.close()
    variant = f"[{question.workaround}]" if question.workaround else ""
    matrix = loaded.matrix
    return BlameReport(
        blame=found,
        company=table(loaded, question, rows, found),
        subject=f"{question.case.name}{variant} {question.precision}",
        ground=f"on {question.device} with torch {matrix.torch.version}, Python {matrix.python}",
        command=f"nox -s blame -- {shlex.join(sys.argv[2:])}",
        sweep=swept,
    )


def _terms(loaded: Project, question: BlameQuestion, *, sandbox: bool) -> Terms:
    return Terms(limits=loaded.matrix.limits, device=question.device, sandbox=sandbox)


def _code(found: Blame) -> ExitCode:
    match found.ending:
        case BlameOutcome.FOUND:
            return ExitCode.AS_EXPECTED
        case BlameOutcome.BAD_IS_GOOD:
            return ExitCode.NOT_REPRODUCED
        case BlameOutcome.GOOD_IS_BAD:
            return ExitCode.FAILS_ON_BOTH_SIDES
        case BlameOutcome.UNDECIDED | BlameOutcome.SILENT:
            return ExitCode.UNDECIDED
