"""`matrix`: the main job."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import project, site
from repromatrix.runner.cli.options import (
    SELECTION,
    CellOptions,
    OnDevice,
    Rerun,
    Walls,
    command,
    stated,
    told,
)
from repromatrix.runner.cli.plan import (
    Strategy,
    choosing,
    narrowed,
    print_plan,
    say_after,
    say_before,
)
from repromatrix.runner.cli.progress import ProgressDisplay
from repromatrix.runner.cli.redraw import DrawnPages, Redrawing
from repromatrix.runner.cli.sandbox_option import walled
from repromatrix.runner.cli.shards import Share, left, share
from repromatrix.runner.cli.summary import say_unexpected
from repromatrix.runner.cli.user_files import own_files
from repromatrix.runner.environments import interpreter
from repromatrix.runner.errors import ExitCode, OldFault, refuse
from repromatrix.runner.evidence import answers, spill
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import cores, demand
from repromatrix.runner.execution.ray import connect as ray
from repromatrix.runner.execution.ray.driver import Cluster
from repromatrix.runner.execution.ray.parcel import choices
from repromatrix.runner.execution.run import Engine, Run, RunTally, known_rows
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.observation import UNPUBLISHED, Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Verdict
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.planning.shards import shard
from repromatrix.runner.project import Project
from repromatrix.runner.text import plural

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixOptions(CellOptions):
    """The options of `matrix`."""

    device: OnDevice = Device.CPU
    only: Annotated[
        str,
        typer.Option(
            "--only",
            metavar="unexpected",
            callback=stated,
            help="Only cells whose last result was unexpected.",
            rich_help_panel=SELECTION,
        ),
    ] = ""
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", min=0, help="Environments to run at once; 0 means all cores."),
    ] = 0
    python: Annotated[
        str,
        typer.Option(
            "--python",
            metavar="PATH",
            callback=stated,
            help="Use this Python interpreter instead of releases.",
        ),
    ] = ""
    shard: Annotated[
        str,
        typer.Option(
            "--shard",
            metavar="I/N",
            callback=stated,
            help="Run one of N shards, which are the same on every machine.",
        ),
    ] = ""
    ray: Annotated[
        str,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            callback=stated,
            help="Run on a Ray cluster: HOST:PORT, `auto`, or `local` for this machine alone.",
        ),
    ] = ""
    strategy: Annotated[
        Strategy,
        typer.Option(
            "--strategy",
            help="`boundaries` runs only the cells that decide what the cases expect, and infers"
            " the others.",
        ),
    ] = Strategy.ALL
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            metavar="90s|10m|2h",
            callback=stated,
            help="Stop after this time; the most valuable cells run first.",
        ),
    ] = ""
    rerun: Rerun = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, and run nothing.")
    ] = False
    strict: Annotated[bool, typer.Option("--strict", help="Fail if main cannot be fetched.")] = (
        False
    )
    trust_published: Annotated[
        bool, typer.Option("--trust-published", help="Skip cells that have published results.")
    ] = False
    sandbox: Walls = None

    @property
    def workers(self) -> int:
        """How many environments run at once; a cluster counts its own cores."""
        return self.jobs or (0 if self.ray else cores())


@command("matrix")
def matrix(options: MatrixOptions) -> ExitCode:
    """Build missing environments, run the cells that are due, and render the table."""
    return measure(Paths(), options, told())


def measure(places: Paths, options: MatrixOptions, console: Console) -> ExitCode:
    """Do the main job and return what its end means."""
    began = time.monotonic()
    how = choosing(options.strategy, options.budget)
    _check(options)
    one = shard(options.shard) if options.shard else None
    places, files = own_files(places, options.case, "--case")
    loaded = project.load(places, files)
    if files is not None:
        options = dataclasses.replace(options, case=tuple(loaded.cases))
    with answers.opened(places, _told(console)) as store:
        spill.take_in(store, _told(console))
        stored = list(store.rows())
        plan = _campaign(loaded, options, stored)
        mine = share(loaded, options, one) if one else None
        if mine:
            plan = _within(plan, mine)
        plan = narrowed(plan, how, began)
        if options.dry_run:
            print_plan(plan, console)
            return ExitCode.AS_EXPECTED
        say_before(plan, console)
        if mine:
            store.begin_shard(mine.split)
        if mine and not mine.environments:
            code = _nothing_to_do(mine, console)
        else:
            code = _run(plan, Redrawing(loaded, store, stored, options.workers), options, console)
        if mine and code in {ExitCode.AS_EXPECTED, ExitCode.UNEXPECTED}:
            _end_shard(mine, plan, store, console)
        return code


def _check(options: MatrixOptions) -> None:
    """Refuse what cannot be meant, or cannot be run here; raises RunnerError."""
    if options.only not in {"", "unexpected"}:
        raise refuse(OldFault(where="--only", found=repr(options.only), allowed="unexpected"))
    for one, other, allowed in _beside(options):
        raise refuse(OldFault(where=one, found=f"{other} beside it", allowed=allowed))
    if options.ray:
        ray.check(options.ray)
    else:
        demand(options.device)


def _beside(options: MatrixOptions) -> list[tuple[str, str, str]]:
    """Return pairs of options that exclude each other, each with what is allowed instead."""
    alike = "cells that every machine works out alike"
    boundaries = options.strategy is Strategy.BOUNDARIES
    pairs = (
        ("--shard", options.shard, "--only", options.only, alike),
        ("--shard", options.shard, "--python", options.python, alike),
        ("--shard", options.shard, "--strategy boundaries", boundaries, alike),
        (
            "--budget",
            options.budget,
            "--ray",
            options.ray,
            "a budget on this machine, or a cluster without one",
        ),
        (
            "--python",
            options.python,
            "--release",
            options.release,
            "either an interpreter or releases",
        ),
        (
            "--python",
            options.python,
            "--ray",
            options.ray,
            "either an interpreter of this machine or a cluster",
        ),
        (
            "--sandbox",
            options.sandbox,
            "--ray",
            options.ray,
            "a sandbox on this machine, or a cluster without one",
        ),
    )
    return [(one, two, instead) for one, first, two, second, instead in pairs if first and second]


def _nothing_to_do(mine: Share, console: Console) -> ExitCode:
    console.print(f"Shard {mine.shard} has no environment to run: there are fewer than shards.")
    return ExitCode.AS_EXPECTED


def _end_shard(mine: Share, planned: Run, store: Store, console: Console) -> None:
    """Keep that a shard is whole, which is what `merge --whole` looks at."""
    number = left(planned, list(store.rows()))
    if number:
        console.print(f"Shard {mine.shard} is not whole: {plural(number, 'cell')} left to measure.")
    else:
        store.end_shard(str(mine.shard), mine.split, planned.terms.run)


def _within(planned: Run, mine: Share) -> Run:
    names = planned.selection.environments & mine.environments
    selection = dataclasses.replace(planned.selection, environments=names)
    return dataclasses.replace(planned, selection=selection)


def _told(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, style="yellow")


def _campaign(loaded: Project, options: MatrixOptions, rows: list[Observation]) -> Run:
    wish: SelectionRequest = options
    if options.trust_published:
        rows = [*answers.published_rows(loaded.places), *rows]
    ready = interpreter.ask(_interpreter(options.python)) if options.python else None
    if ready is not None:
        environments = {ready[0].name: ready[0]}
        loaded = dataclasses.replace(loaded, environments=environments)
        wish = dataclasses.replace(wish, release=())
    else:
        loaded = project.informed(loaded, rows)
    selection = select(wish, loaded.cases, loaded.names)
    planned = Run(
        project=loaded,
        selection=selection,
        terms=Terms(limits=loaded.matrix.limits, device=wish.device, jobs=options.workers),
        known=known_rows(rows, loaded),
        rerun=options.rerun,
        interpreter=ready,
    )
    if options.only:
        return _only_unexpected(planned)
    return planned


def _interpreter(text: str) -> Path:
    """Return the file that a path names: without its folder, `./python` is one of `PATH`."""
    return Path(text).absolute() if "/" in text else Path(text)


def _only_unexpected(planned: Run) -> Run:
    environments = planned.project.environments
    unexpected = {
        cell
        for cell, row in planned.known.items()
        if planned.selection(cell)
        and planned.verdict(row, environments[cell.environment]).is_unexpected
    }
    if not unexpected:
        fault = OldFault(where="--only", found="no unexpected cell", allowed="at least one")
        raise refuse(fault, ExitCode.NOTHING_SELECTED)
    known = {cell: row for cell, row in planned.known.items() if cell not in unexpected}
    selection = dataclasses.replace(planned.selection, only=frozenset(unexpected))
    return dataclasses.replace(planned, selection=selection, known=known)


def _run(planned: Run, renderer: Redrawing, options: MatrixOptions, console: Console) -> ExitCode:
    begin = time.monotonic()

    def pause(left: int) -> None:
        if time.monotonic() < planned.terms.until:  # the last drawing is what time is kept for
            renderer.now_and_then(left)

    planned = _walled(planned, options, console)
    with ProgressDisplay(console) as display, _engine(planned, options, display) as engine:
        tally = planned.execute(renderer.store, display, pause, engine)
    shown = renderer.finally_()
    code = _summary(planned, shown, tally, options, console, time.monotonic() - begin)
    if renderer.undrawn:
        console.print(f"The table is not drawn: {renderer.undrawn}", markup=False)
        return max(code, renderer.undrawn.code)
    table = site.index(planned.project.places)
    console.print(f"The table: {table} (first drawn after {renderer.first:.0f} s)")
    return code


def _walled(planned: Run, options: MatrixOptions, console: Console) -> Run:
    """Return the plan with what walls its cells in here; a cluster's nodes have none."""
    if options.ray:
        console.print("Not sandboxed: a case has the network and the rights of Ray's workers.")
        return planned
    holds = walled(options.sandbox, _dimmed(console))
    return dataclasses.replace(planned, terms=dataclasses.replace(planned.terms, sandbox=holds))


def _dimmed(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, style="dim")


@contextlib.contextmanager
def _engine(planned: Run, options: MatrixOptions, display: ProgressDisplay) -> Iterator[Engine]:
    """Yield what runs the plan: this machine, or a cluster for as long as it is connected."""
    if not options.ray:
        yield planned.pool()
        return
    # What a cluster of this machine starts has all that this process has.
    chosen = {} if options.ray == ray.LOCAL else choices(planned)
    with ray.connected(options.ray, planned.project.places.built):
        yield Cluster(planned, lambda text: display.say(text, "yellow"), chosen)


def _summary(  # noqa: PLR0913, PLR0917 - it says everything at the end
    planned: Run,
    shown: DrawnPages,
    tally: RunTally,
    options: MatrixOptions,
    console: Console,
    seconds: float,
) -> ExitCode:
    mine = [one for one in shown.grid if planned.selection(one.seen.cell)]
    trusted = [one for one in mine if options.trust_published or one.seen.source in UNPUBLISHED]
    unexpected = [one for one in trusted if one.verdict.is_unexpected]
    _print_counts(mine, tally, console, seconds)
    _say_overruled(planned, mine, shown.rows, console)
    say_unexpected(unexpected, console)
    local = [one for one in shown.rows if options.trust_published or one.source in UNPUBLISHED]
    say_after(planned, tally, mine, local, console)
    if tally.interrupted:
        console.print("Interrupted; what was measured is kept, and the next run goes on from here.")
        return ExitCode.INTERRUPTED
    wanted = options.strict or any(MAIN in text for text in options.release)
    unbuilt = any(wanted or name.partition("+")[0] != MAIN for name in tally.unbuilt)
    if unbuilt or tally.lost:  # nobody said that what was lost could not be had
        return ExitCode.UNBUILDABLE
    return ExitCode.UNEXPECTED if unexpected else ExitCode.AS_EXPECTED


def _print_counts(
    mine: Sequence[Judged], tally: RunTally, console: Console, seconds: float
) -> None:
    verdicts = Counter(one.verdict for one in mine)
    said = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict if verdicts[verdict])
    spent = _core_seconds()
    console.print(
        f"{tally.measured} cells measured in {seconds:.0f} s, {spent:.0f} core-seconds here."
        f" Of {len(mine)}: {said}."
    )
    unproven = Counter(_why(one) for one in mine if one.verdict is Verdict.UNPROVEN)
    for why, number in unproven.most_common():
        console.print(f"  unproven, {number}: {why}")
    for name, reason in tally.lost.items():
        console.print(f"  not run to its end: {name}: {reason}", markup=False)


def _say_overruled(
    planned: Run, mine: Sequence[Judged], rows: Sequence[Observation], console: Console
) -> None:
    """Say what ran out of memory in this run and is not counted: others have measured it."""
    answering = {one.seen.cell: one.seen for one in mine}
    number = sum(
        row.provenance.run == planned.terms.run
        and row.outcome is Outcome.OUT_OF_MEMORY
        and answering.get(row.cell, row).outcome is not row.outcome
        for row in rows
    )
    if number:
        console.print(
            f"{plural(number, 'cell')} ran out of memory here; published evidence answers."
        )


def _core_seconds() -> float:
    """Return the processor time of this run and of all that it started and awaited."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _why(one: Judged) -> str:
    seen = one.seen
    if one.inferred:
        return "inferred, not run"
    if seen.unstable:
        return "disputed between machines" if seen.sides else "unstable"
    if seen.outcome.is_evidence:
        return "never computed in its precision"
    return f"{seen.outcome}: {seen.reason}" if seen.reason else str(seen.outcome)
