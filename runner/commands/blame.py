"""`blame`: which package makes the difference between two environments."""

from __future__ import annotations

import dataclasses
import difflib
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner import campaign, project
from runner.blaming import sweeping
from runner.blaming.bench import Bench
from runner.blaming.question import Evidence, Question
from runner.blaming.runs import Runs
from runner.blaming.sweeping import sweep
from runner.blaming.table import table
from runner.commands.formats import check_format
from runner.commands.own import own_files
from runner.commands.sandboxing import walled
from runner.corpus import load_script
from runner.engine.hardware import demand
from runner.environments.shelf import load_matrix
from runner.errors import ExitCode, Fault, Interrupted, refuse
from runner.evidence import reading
from runner.evidence.store import Store
from runner.judging.culprits import Ending
from runner.model.matrix import MAIN
from runner.model.naming import asked, with_extras
from runner.planning.selection import NONE, Wish, select
from runner.telling.blame import Report, markdown, structured, text
from runner.terminal.speaking import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

    from runner.engine.events import Terms
    from runner.judging.culprits import Blame
    from runner.model.case import Case
    from runner.model.outcomes import Device
    from runner.places import Places
    from runner.project import Project

_FORMATS = {"text": text, "markdown": markdown, "json": structured}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """The options of `blame` as they were typed."""

    case: str
    precision: str
    workaround: str
    good: str
    bad: str
    device: Device
    any_failure: bool
    format: str
    command: Sequence[str]
    sweep: str = ""
    rerun: bool = False
    sandbox: bool | None = None


def blame(places: Places, asking: Asking, console: Console) -> ExitCode:
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


def _load(places: Places, asking: Asking, ends: Iterable[str]) -> Project:
    """Read the corpus, or a script of the user's, which need say nothing about itself."""
    places, files = own_files(places, [asking.case], "CASE")
    also = [name for name in ends if "+" in name]
    if files is None:
        return project.load(places, also=also)
    loaded = project.load(places, [], also)
    cases = [load_script(path, str(path)) for path in files]
    return dataclasses.replace(loaded, cases={case.name: case for case in cases})


def _end(places: Places, option: str, name: str) -> str:
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
    raise refuse(Fault(where=option, found=repr(name), allowed=allowed, remedy=remedy))


def _question(loaded: Project, asking: Asking, good: str, bad: str) -> Question:
    name = next(iter(loaded.cases)) if loaded.places.own else asking.case
    wish = Wish(
        case=[name],
        precision=[asking.precision],
        workaround=[asking.workaround or NONE],
        device=asking.device,
    )
    chosen = select(wish, loaded.cases, loaded.names)
    variants = chosen.workarounds or frozenset()
    several = [part for part in (chosen.cases, chosen.precisions, variants) if len(part) > 1]
    if several:
        found = " ".join(sorted(map(str, several[0])))
        allowed = "one case, one precision and one workaround"
        raise refuse(Fault(where="CASE", found=found, allowed=allowed))
    case = loaded.cases[next(iter(chosen.cases))]
    return Question(
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
    loaded: Project, question: Question, asking: Asking, tell: Callable[[str], None]
) -> Report:
    places = loaded.places
    wanted = sweeping.asked(asking.sweep, loaded, question.bad) if asking.sweep else None
    rows = reading.both(places, tell, {question.case.name})
    store = Store(places.trials, tell)
    try:
        known = () if asking.rerun else (*rows, *store.rows({question.case.name}))
        evidence = Evidence(rows=known, keep=store.put)
        runs = Runs(
            project=loaded,
            question=question,
            evidence=evidence,
            terms=_terms(loaded, question, sandbox=walled(asking.sandbox, tell)),
            say=tell,
        )
        bench = Bench(runs)
        found = bench.blame()
        swept = sweep(bench.runs, wanted, found.bad) if wanted and found.heals else None
    finally:
        store.close()
    variant = f"[{question.workaround}]" if question.workaround else ""
    matrix = loaded.matrix
    return Report(
        blame=found,
        company=table(loaded, question, rows, found),
        subject=f"{question.case.name}{variant} {question.precision}",
        ground=f"on {question.device} with torch {matrix.torch.version}, Python {matrix.python}",
        command=f"nox -s blame -- {shlex.join(asking.command)}",
        sweep=swept,
    )


def _terms(loaded: Project, question: Question, *, sandbox: bool) -> Terms:
    return campaign.local_terms(loaded.matrix.limits, question.device, 1, sandbox=sandbox)


def _code(found: Blame) -> ExitCode:
    match found.ending:
        case Ending.FOUND:
            return ExitCode.AS_EXPECTED
        case Ending.BAD_IS_GOOD:
            return ExitCode.NOT_REPRODUCED
        case Ending.GOOD_IS_BAD:
            return ExitCode.FAILS_ON_BOTH_SIDES
        case Ending.UNDECIDED | Ending.SILENT:
            return ExitCode.UNDECIDED
