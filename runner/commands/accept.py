"""`accept`: expectations rewritten from evidence, as a diff to review."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import project, rendering
from runner.errors import ExitCode, Fault, RunnerError, refuse
from runner.evidence import reading
from runner.judging.acceptance import propose, unstable
from runner.model.case import PLAIN
from runner.model.outcomes import Device, Outcome, Precision, Verdict
from runner.model.rewriting import Written, rewritten
from runner.planning.selection import Wish, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from runner.judging.acceptance import Entry
    from runner.judging.verdicts import Judged
    from runner.model.case import Case
    from runner.places import Places
    from runner.project import Project

_SHOWN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepting:
    """The options of `accept` as they were typed."""

    cases: Sequence[str]
    allow_regressions: bool
    dry_run: bool


def accept(places: Places, options: Accepting, console: Console) -> ExitCode:
    """Rewrite the chosen cases' `fails` from evidence, all of them or, where one is refused, none.

    Raises RunnerError with every refusal.
    """
    loaded = project.load(places)
    rows = reading.both(places, lambda text: console.print(text, style="yellow"))
    known_to, grid = rendering.judged_grid(loaded, rows)
    chosen = select(Wish(case=options.cases), loaded.cases, loaded.names).cases
    drafts: dict[Path, tuple[str, str]] = {}
    faults: list[Fault] = []
    for name in sorted(chosen):
        case = loaded.cases[name]
        mine = [one for one in grid if one.seen.cell.case == name]
        try:
            before = Path(case.path).read_text(encoding="utf-8")
            drafts[Path(case.path)] = before, _accepted(known_to, case, mine, before, options)
        except RunnerError as error:
            faults += error.faults
    if faults:
        raise RunnerError(faults)
    return _finish(places, drafts, options, console)


def _finish(
    places: Places,
    drafts: dict[Path, tuple[str, str]],
    options: Accepting,
    console: Console,
) -> ExitCode:
    changed = {path: texts for path, texts in drafts.items() if texts[0] != texts[1]}
    for path, (before, after) in changed.items():
        shown = places.shown(path)
        lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
        diff = difflib.unified_diff(*lines, shown, shown)
        console.print("".join(diff), markup=False, end="")
        if not options.dry_run:
            path.write_text(after, encoding="utf-8")
    done = "would change" if options.dry_run else "rewritten"
    console.print(f"{len(changed)} of {len(drafts)} cases {done}; review the difference.")
    return ExitCode.AS_EXPECTED


def _accepted(
    loaded: Project, case: Case, mine: Sequence[Judged], text: str, options: Accepting
) -> str:
    """Return the case's text with the entries that its evidence asks for; raises RunnerError."""
    current = [one for one in mine if one.seen.outcome.was_run and not one.stale]
    _refuse_old(case, mine, current)
    _refuse_unstable(case, current)
    _refuse_regressions(case, current, options)
    proposal = propose(case, current, loaded.environments)
    if proposal.unexplained:
        found = f"failures that no interval describes: {'; '.join(proposal.unexplained)}"
        allowed = "failures that follow the versions of transformers or of a package of the pairs"
        remedy = "Write these entries by hand, or name pairs that tell the versions apart."
        raise refuse(_fault(case, "fails", found, allowed, remedy))
    if not proposal.derived and len(proposal.kept) == len(case.block.fails):
        return text
    written = [_written(entry, case) for entry in proposal.derived]
    return rewritten(text, case.where, proposal.kept, written)


def _written(entry: Entry, case: Case) -> Written:
    how = entry.how
    keys: dict[str, Any] = {"when": list(entry.when)}
    if set(entry.precisions) < set(Precision):
        keys["precisions"] = [precision.value for precision in entry.precisions]
    if Device.CPU not in entry.devices:
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
    return Fault(where=case.where, key=key, found=found, allowed=allowed, remedy=remedy)


def _refuse_old(case: Case, mine: Sequence[Judged], current: Sequence[Judged]) -> None:
    if current:
        return
    stale = [one for one in mine if one.stale]
    found = "evidence of another version of the case only" if stale else "nothing measured"
    remedy = f"Run `nox -s matrix -- --case {case.name}` first."
    raise refuse(_fault(case, "evidence", found, "cells measured on this case", remedy))


def _refuse_unstable(case: Case, current: Sequence[Judged]) -> None:
    cells = unstable(case, current)
    if cells:
        found = f"{len(cells)} unstable cells: {_few(cells)}"
        remedy = "Make the case decide the same way each time."
        raise refuse(_fault(case, "evidence", found, "cells whose repeats agree", remedy))


def _refuse_regressions(case: Case, current: Sequence[Judged], options: Accepting) -> None:
    """Keep a pass that was expected; a case without entries expects nothing yet."""
    worse = [one for one in current if one.verdict is Verdict.REGRESSED]
    if not worse or options.allow_regressions or not case.block.fails:
        return
    cells = [" ".join(filter(None, one.seen.cell[1:4])) for one in worse]
    found = f"{len(cells)} cells that were expected to pass and fail: {_few(cells)}"
    allowed = "failures that were expected, `--allow-regressions` for others"
    remedy = "Look whether the bug is the case's own; then say `--allow-regressions`."
    raise refuse(_fault(case, "fails", found, allowed, remedy))


def _few(cells: Sequence[str]) -> str:
    more = f" and {len(cells) - _SHOWN} more" if len(cells) > _SHOWN else ""
    return ", ".join(cells[:_SHOWN]) + more
