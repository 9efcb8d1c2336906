"""What `matrix` says when nothing is selected: it confirms what is published, and ends."""

from __future__ import annotations

import dataclasses
import secrets
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from repromatrix.runner import site
from repromatrix.runner.cli.options import Console
from repromatrix.runner.cli.progress import (
    LISTED,
    cell_name,
    core_seconds,
    print_rest,
    print_unexpected,
)
from repromatrix.runner.cli.report import RenderedSite
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence.answering import are_comparable, current, measured_with, says
from repromatrix.runner.execution.run import Run, RunTally
from repromatrix.runner.judging.counts import bugs_of, count
from repromatrix.runner.judging.verdicts import Judged, by_case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import LOCAL, UNPUBLISHED, Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.planning.confirmation import Visit, bounds, plain_releases, visits
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.planning.selection import selecting
from repromatrix.runner.project import Project
from repromatrix.runner.text import plural, printable

BUDGET = "12m"
"""For how long it measures."""
_UNCHECKED = "extras, pairs, stacks, `main`, other versions of torch, GPUs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmation:
    """What a seed draws: the releases in turn with their cells, and the run of them."""

    seed: int
    visits: tuple[Visit, ...]
    run: Run


def drawn(planned: Run, seed: int | None) -> Confirmation:
    """Return the run that confirms what is published, as a seed draws it.

    Without any seed one is drawn, so that nobody who published knows what is going to be measured.
    """
    seed = secrets.randbelow(10**6) if seed is None else seed
    turns = tuple(visits(site.axes_of(planned.project), seed))
    order = tuple(Unit(environment=turn.environment, cells=turn.cells) for turn in turns)
    run = dataclasses.replace(planned, order=order)
    return Confirmation(seed=seed, visits=turns, run=run)


def print_opening(shown: RenderedSite, loaded: Project, console: Console) -> None:
    """Print where the table is, the silent bugs of the newest release, and what to do next."""
    cells = sum(judged.seen.outcome.was_run for judged in shown.grid)
    console.print(f"The table: {site.index(loaded.paths)} ({cells:,} cells, published before)")
    newest = plain_releases(loaded.environments)[-1]
    silent = _silent_bugs(shown.grid, loaded, newest)
    bugs = plural(len(silent), "known bug")
    console.print(f"\nWith transformers {newest}, {bugs} without an error message:")
    for title, precisions in silent[:LISTED]:
        console.print(printable(f"  {title} ({', '.join(precisions)})"))
    if len(silent) > LISTED:
        page = loaded.paths.shown(loaded.paths.site / f"release/{newest}.html")
        console.print(f"  … and {len(silent) - LISTED} more: {page}")
    console.print("Those of your versions: pip freeze | nox -s audit -- -\n")


def _silent_bugs(
    grid: Iterable[Judged], loaded: Project, release: str
) -> list[tuple[str, Sequence[Precision]]]:
    """Return the bugs of a release that raise nothing: their titles and precisions.

    Those of any model come first.
    """
    names = {one.name for one in loaded.environments.values() if one.column == release}
    here = by_case(
        judged
        for judged in grid
        if judged.seen.cell.environment in names and judged.seen.cell.device is Device.CPU
    )
    bugs = chain.from_iterable(
        bugs_of(loaded.cases[name], loaded.environments, (judged.seen for judged in rows))
        for name, rows in here.items()
    )
    silent = count((bug, bug.state(names)) for bug in bugs).silent
    return [
        (bug.title, bug.failing(names))
        for bug in sorted(
            silent, key=lambda bug: not loaded.cases[bug.case].block.is_about_any_model
        )
    ]


def print_intention(drawn: Confirmation, seconds: float, console: Console) -> None:
    """Print what is going to be measured, and for how long."""
    # A release is visited again, for further cells, once all others were.
    fixed = dict.fromkeys(visit.environment for visit in drawn.visits if not visit.drawn)
    first = ", ".join(fixed) or "nothing"
    console.print(
        f"Checking a sample of it here for {seconds / 60:.0f} min: {first}, then releases"
        f" drawn by seed {drawn.seed}. Ctrl-C ends it and keeps what was measured."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What this machine measured of what is published, and whether it saw the same."""

    drawn: Confirmation
    here: Mapping[Cell, Observation]
    """The current results of this machine."""
    denied: Mapping[Cell, Observation]
    """The published results of those that differ."""
    agrees: Mapping[Cell, bool]
    """Of the cells that can be compared, whether they agree."""
    confirming: frozenset[Cell]
    """Those that were measured to confirm what is published, by the same seed."""
    unlike: Mapping[tuple[str, str, str], int]
    """On what the results were measured that cannot be compared, with their number."""


def compared(
    drawn: Confirmation,
    published: Mapping[Cell, Observation],
    rows: Iterable[Observation],
    runs: frozenset[str],
) -> Compared:
    """Hold this machine's current results against the published ones; `runs` confirmed by it."""
    loaded = drawn.run.project
    local = (row for row in rows if row.source == LOCAL and row.outcome.is_evidence)
    here, _ = current(local, loaded.cases, loaded.environments)
    pairs = {cell: (row, published[cell]) for cell, row in here.items() if cell in published}
    like = {cell: pair for cell, pair in pairs.items() if are_comparable(*pair)}
    agrees = {cell: says(own) == says(theirs) for cell, (own, theirs) in like.items()}
    return Compared(
        drawn=drawn,
        here=here,
        denied={cell: like[cell][1] for cell, same in agrees.items() if not same},
        agrees=agrees,
        confirming=frozenset(cell for cell, row in here.items() if row.provenance.run in runs),
        unlike=Counter(
            measured_with(theirs) for cell, (_, theirs) in pairs.items() if cell not in like
        ),
    )


def print_closing(  # noqa: PLR0913, PLR0917 - it prints everything at the end
    confirmed: Compared,
    planned: Run,
    tally: RunTally,
    shown: RenderedSite,
    console: Console,
    seconds: float,
) -> ExitCode:
    """Print what was measured, what contradicts, and what that bounds; return the exit code."""
    ran = sum(judged.seen.outcome.was_run for judged in shown.grid)
    releases = len({cell.environment for cell in confirmed.here})
    console.print(
        f"{plural(tally.measured, 'cell')} measured in {seconds:.0f} s,"
        f" {core_seconds():.0f} core-seconds of {planned.terms.jobs} cores.\n"
        f"Of {ran:,} cells of the table {len(confirmed.here):,} were measured here, on"
        f" {plural(releases, 'release')}; the others are published results."
    )
    new = _print_differing(confirmed, shown, console)
    _print_bounds(confirmed, console)
    for name, reason in {**tally.unbuilt, **tally.lost}.items():
        console.print(f"Not measured: {name}: {reason}")
    if tally.interrupted:
        console.print("Interrupted. Results so far are kept; the next run goes on from here.")
        return ExitCode.INTERRUPTED
    if tally.left:
        left = {cell.environment for cell in tally.left}
        fresh = left - {cell.environment for cell in confirmed.here}
        state = "not visited yet" if fresh else "visited in part"
        console.print(
            f"The next run goes on: {plural(len(fresh or left), 'release')} {state}."
            " For more at once: nox -s matrix -- --budget 1h"
        )
    if tally.unbuilt or tally.lost:
        return ExitCode.UNBUILDABLE
    return ExitCode.UNEXPECTED if new or confirmed.denied else ExitCode.AS_EXPECTED


def _print_differing(confirmed: Compared, shown: RenderedSite, console: Console) -> list[Judged]:
    """Print each contradiction with the command that repeats it; return new unexpected results."""
    for (machine, python, torch), number in confirmed.unlike.items():
        console.print(
            f"{plural(number, 'cell')} cannot be compared: published on {machine}, Python {python},"
            f" torch {torch}."
        )
    differing = plural(len(confirmed.denied), "contradicts", "contradict")
    number = len(confirmed.agrees)
    console.print(f"{number:,} compared with what is published: {differing}.")
    for cell, theirs in [*confirmed.denied.items()][:LISTED]:
        own = confirmed.here[cell]
        seen = f"{plural(own.repeats, 'run')}{', unstable' if own.unstable else ''}"
        line = (
            f"  {cell_name(own)}: {own.described} here ({seen}); {theirs.described} in the snapshot"
            f" of {theirs.source}"
        )
        console.print(printable(line), style="bold red")
        console.print(f"    repeat it: {repeating(cell)}")
    print_rest(len(confirmed.denied), console)
    new = [
        judged
        for judged in shown.grid
        if judged.seen.source in UNPUBLISHED
        and judged.verdict.is_unexpected
        and not confirmed.agrees.get(judged.seen.cell)
        and judged.seen.cell not in confirmed.denied
    ]
    print_unexpected(new, console)
    return new


def repeating(cell: Cell) -> str:
    """Return the command that measures a cell again."""
    named = ["--case", cell.case, "--release", cell.environment]
    return shlex.join(["nox", "-s", "matrix", "--", *named, *selecting(cell), "--rerun"])


def _print_bounds(confirmed: Compared, console: Console) -> None:
    visits, run = confirmed.drawn.visits, confirmed.drawn.run
    cells, releases = bounds(visits, confirmed.agrees, confirmed.confirming)
    most = [
        f"at most {bound.share:.2%} of cells differ" if bound.sample else "nothing is known yet"
        for bound in (cells, releases)
    ]
    visited = len({cell.environment for cell in confirmed.agrees})
    every = len(plain_releases(run.project.environments))
    console.print(
        f"What this bounds, with 95 % confidence (seed {confirmed.drawn.seed}):\n"
        f"  In the {plural(visited, 'release')} visited: {most[0]} ({cells.differing} of"
        f" {cells.sample:,} drawn at random).\n"
        f"  In all {every} plain releases: {most[1]} ({releases.differing} of"
        f" {plural(releases.sample, 'release')} drawn at random had one; the bound is loose, as"
        f" a release counts once).\n  Not checked here: {_UNCHECKED}."
    )
