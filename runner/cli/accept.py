"""`accept`: expectations rewritten from evidence, as a diff to review."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repromatrix.runner import files, project, site
from repromatrix.runner.cli.options import command, told
from repromatrix.runner.errors import ExitCode, Fault, OldFault, RunnerError, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.judging.acceptance import ProposedEntry, propose
from repromatrix.runner.judging.lint import scrutinise
from repromatrix.runner.judging.verdicts import Judged, by_case
from repromatrix.runner.model.case import PLAIN, Case, read_case
from repromatrix.runner.model.case_edit import Written, rewritten
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.observation import UNPUBLISHED
from repromatrix.runner.model.outcomes import Device, Outcome, Precision, Verdict
from repromatrix.runner.model.script import decode
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import CASE, SelectionRequest, select
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 5
_TELLING = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptOptions:
    """The options of `accept`."""

    cases: Annotated[
        Sequence[str], typer.Argument(help="Cases by name or glob; all by default.")
    ] = ()
    allow_regressions: Annotated[
        bool,
        typer.Option(
            "--allow-regressions", help="Allow an expected pass to become an expected failure."
        ),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the diff, and write nothing.")
    ] = False


@command("accept")
def accept(options: AcceptOptions) -> ExitCode:
    """Rewrite the expectations of cases from evidence, and show the diff."""
    return rewrite(Paths(), options, told())


def rewrite(places: Paths, options: AcceptOptions, console: Console) -> ExitCode:
    """Rewrite the chosen cases' `fails` from evidence, all of them or, where one is refused, none.

    Raises RunnerError with every refusal.
    """
    loaded = project.load(places)
    every = answers.both(places, lambda text: console.print(text, style="yellow"))
    known = project.informed(loaded, every)
    chosen_rows = answering_rows(every, known.cases, known.environments).values()
    # Neither a gap nor a device comes of what the machine decided.
    rows = [row for row in chosen_rows if row.outcome.is_evidence]
    known_to, grid = site.judged_grid(loaded, rows)
    chosen = select(SelectionRequest(case=options.cases), loaded.cases, loaded.names, CASE).cases
    drafts: dict[Path, tuple[str, str]] = {}
    faults: list[Fault] = []
    judged = by_case(one for one in grid if _counts(known_to, one))
    # A published row may agree with one of this machine, which then answers.
    published = {
        row.cell.case for row in every if row.outcome.is_evidence and row.source not in UNPUBLISHED
    }
    for name in sorted(chosen):
        case = loaded.cases[name]
        mine = judged.get(name, [])
        try:
            before = decode(Path(case.path).read_bytes(), case.where)
            _refuse_regressions(
                case, mine, allowed=options.allow_regressions or name not in published
            )
            after = _accepted(known_to, case, mine, before)
            if after != before:
                _refuse_faults(known_to, after, case)
            drafts[Path(case.path)] = before, after
        except RunnerError as error:
            faults += error.faults
    if faults:
        raise RunnerError(faults)
    return _finish(places, drafts, options, console)


def _finish(
    places: Paths,
    drafts: dict[Path, tuple[str, str]],
    options: AcceptOptions,
    console: Console,
) -> ExitCode:
    changed = {path: texts for path, texts in drafts.items() if texts[0] != texts[1]}
    for path, (before, after) in changed.items():
        shown = places.shown(path)
        lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
        diff = difflib.unified_diff(*lines, shown, shown)
        console.print("".join(diff), markup=False, end="")
        if not options.dry_run:
            files.write(path, after)
    done = "would change" if options.dry_run else "rewritten"
    console.print(f"{len(changed)} of {len(drafts)} cases {done}; review the difference.")
    return ExitCode.AS_EXPECTED


def _counts(loaded: Project, one: Judged) -> bool:
    """Leave out what nobody else can repeat: interpreters of this machine."""
    source = loaded.environments[one.seen.cell.environment].source
    return source is not Source.INTERPRETER


def _accepted(loaded: Project, case: Case, mine: Sequence[Judged], text: str) -> str:
    """Return the case's text with the entries that its evidence asks for; raises RunnerError."""
    current = [one for one in mine if one.seen.outcome.is_evidence and not one.stale]
    _refuse_gaps(loaded, case, mine, current)
    _refuse_unstable(case, current)
    proposal = propose(case, current, loaded.environments)
    if proposal.unexplained:
        found = f"failures that no interval describes: {'; '.join(proposal.unexplained)}"
        allowed = "failures that follow the versions of transformers or of a package of the pairs"
        remedy = "Write these entries by hand, or name pairs that tell the versions apart."
        raise refuse(_fault(case, "fails", found, allowed, remedy))
    vague = [text for one in proposal.derived for text in one.how.match if len(text) < _TELLING]
    if vague:
        allowed = f"messages with at least {_TELLING} letters that do not vary"
        remedy = "Give the assert a message, or write the entry by hand."
        raise refuse(_fault(case, "match", repr(vague[0]), allowed, remedy))
    if not proposal.derived and len(proposal.kept) == len(case.block.fails):
        return text
    devices = {one.seen.cell.device for one in current}
    written = [_written(entry, case, devices) for entry in proposal.derived]
    return rewritten(text, case.where, proposal.kept, written)


def _written(entry: ProposedEntry, case: Case, measured: set[Device]) -> Written:
    how = entry.how
    told = (
        set(case.block.fails[entry.replaces].devices) if entry.replaces is not None else set(Device)
    )
    keys: dict[str, Any] = {"when": list(entry.when)}
    if set(entry.precisions) < set(Precision):
        keys["precisions"] = [precision.value for precision in entry.precisions]
    if measured - set(entry.devices) or told < set(Device):
        keys["devices"] = [device.value for device in entry.devices]
    if set(entry.workarounds) == set(case.variants) and len(case.variants) > 1:
        keys["workarounds"] = ["*"]
    elif entry.workarounds != (PLAIN,):
        keys["workarounds"] = list(entry.workarounds)
    if how.outcome is not Outcome.FAILS:
        keys["outcome"] = how.outcome.value
    else:
        keys |= {
            "raises": how.raises,
            "match": how.match[0] if len(how.match) == 1 else [*how.match],
        }
    return Written(keys=keys, replaces=entry.replaces)


def _fault(case: Case, key: str, found: str, allowed: str, remedy: str) -> Fault:
    return OldFault(where=case.where, key=key, found=found, allowed=allowed, fix=remedy)


def _refuse_gaps(
    loaded: Project, case: Case, mine: Sequence[Judged], current: Sequence[Judged]
) -> None:
    """Refuse to derive anything from a part: an interval would be drawn over what is not known."""
    gaps = [one for one in mine if _is_gap(loaded, one)]
    remedy = f"Run `nox -s matrix -- --case {case.name}` first."
    allowed = "cells measured on this case, on every release"
    if not current:
        stale = any(one.stale for one in mine)
        found = "evidence of another version of the case only" if stale else "nothing measured"
        raise refuse(_fault(case, "evidence", found, allowed, remedy))
    if gaps:
        found = f"{len(gaps)} cells without current evidence: {_few([_named(one) for one in gaps])}"
        raise refuse(_fault(case, "evidence", found, allowed, remedy))


def _is_gap(loaded: Project, one: Judged) -> bool:
    on_main = loaded.environments[one.seen.cell.environment].source is Source.MAIN
    return one.stale or (one.seen.outcome is Outcome.NOT_RUN and not on_main)


def _refuse_faults(loaded: Project, text: str, case: Case) -> None:
    """Refuse to write what `check` would refuse."""
    fresh = read_case(text, case.where, case.path, loaded.matrix.extras)
    faults = scrutinise(fresh, loaded.environments, loaded.matrix.precisions, Device)
    known = scrutinise(case, loaded.environments, loaded.matrix.precisions, Device)
    if [fault for fault in faults if fault not in known]:
        raise RunnerError(faults)


def _refuse_unstable(case: Case, current: Sequence[Judged]) -> None:
    cells = [_named(one) for one in current if one.seen.unstable]
    if cells:
        found = f"{len(cells)} unstable cells: {_few(cells)}"
        remedy = "Make the case decide the same way each time."
        raise refuse(_fault(case, "evidence", found, "cells whose repeats agree", remedy))


def _refuse_regressions(case: Case, mine: Sequence[Judged], *, allowed: bool) -> None:
    """Keep a pass that was expected; of a case that was never published nothing is yet."""
    worse = [one for one in mine if one.verdict is Verdict.REGRESSED and not one.stale]
    if not worse or allowed:
        return
    cells = [_named(one) for one in worse]
    found = f"{len(cells)} cells that were expected to pass and fail: {_few(cells)}"
    wanted = "failures that were expected, `--allow-regressions` for others"
    remedy = "Look whether the bug is the case's own; then say `--allow-regressions`."
    raise refuse(_fault(case, "fails", found, wanted, remedy))


def _named(one: Judged) -> str:
    return " ".join(filter(None, one.seen.cell[1:4]))


def _few(cells: Sequence[str]) -> str:
    more = f" and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else ""
    return ", ".join(cells[:_SHOWN]) + more
