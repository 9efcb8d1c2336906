"""`matrix`: confirm published results on this machine, or run the cells that are selected."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from repromatrix.runner import project, site
from repromatrix.runner.cli import confirm, under_torch
from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.engine import engine_of, sandbox_of
from repromatrix.runner.cli.options import Console
from repromatrix.runner.cli.progress import (
    ProgressDisplay,
    core_seconds,
    expects_nothing,
    is_of_main,
    print_unexpected,
)
from repromatrix.runner.cli.report import RenderedSite, SiteUpdates
from repromatrix.runner.cli.shards import Share, left, share
from repromatrix.runner.environments import building, development
from repromatrix.runner.errors import ExitCode, Problem, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import cores, demand
from repromatrix.runner.execution.ray import connect as ray
from repromatrix.runner.execution.run import Run, RunTally, known_rows
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.observation import UNPUBLISHED, Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Verdict
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.budget import Budget, Costs, costs
from repromatrix.runner.planning.budget import seconds as seconds_of
from repromatrix.runner.planning.plan import due
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.planning.shards import shard
from repromatrix.runner.project import Project
from repromatrix.runner.text import plural, shorten

_WIDTH = 100
_NOT_DUE = "not due"
_DRAWN = "the seed draws cells only where nothing is selected"
_DRAWING = 5.0
"""Seconds of a budget that are kept for drawing the table; at most a tenth of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixOptions(cli.CellOptions):
    """The options of `matrix`."""

    device: cli.OnDevice = Device.CPU
    only: Annotated[
        str,
        cli.checked(
            "Only cells whose last result was unexpected.",
            "unexpected",
            metavar="unexpected",
            panel=cli.SELECTION,
        ),
    ] = ""
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", min=0, help="Environments to run at once; 0 means all cores."),
    ] = 0
    python: Annotated[
        str, cli.checked("Use this Python interpreter instead of releases.", metavar="PATH")
    ] = ""
    shard: Annotated[
        str,
        cli.checked("Run shard I of N; the split is the same on every machine.", metavar="I/N"),
    ] = ""
    torch: Annotated[
        str,
        cli.checked(
            "Run under another torch of environments/matrix.toml, on the releases at the changes"
            " of each case and at both ends.",
            metavar="VERSION",
        ),
    ] = ""
    ray: cli.OnRay = ""
    budget: Annotated[
        str,
        cli.checked(
            f"Stop after this time; {confirm.BUDGET} of measuring when nothing is selected.",
            metavar="90s|10m|2h",
        ),
    ] = ""
    all_due: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Run every cell that is due: not those that cannot be expected to differ from"
            " their neighbours.",
        ),
    ] = False
    every: Annotated[bool, "Run every cell, due or not."] = False
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="What draws releases and cells when nothing is selected.", metavar="N"
        ),
    ] = None
    rerun: cli.Rerun = False
    dry_run: Annotated[bool, "Print what would run, and run nothing."] = False
    strict: Annotated[bool, "Fail if `main` of transformers cannot be built."] = False
    sandbox: cli.Sandbox = None

    @property
    def workers(self) -> int:
        """How many environments run at once; a cluster counts its own cores."""
        return self.jobs or (0 if self.ray else cores())

    @property
    def confirms(self) -> bool:
        """Whether nothing is selected: published results are confirmed, and the run ends."""
        selected = (self.case, self.area, self.model, self.release, self.precision)
        others = (self.workaround, self.trigger, self.only, self.python, self.torch)
        asked = self.all_due or self.every or any(selected) or any(others)
        return not asked and self.device is Device.CPU

    @property
    def wants_main(self) -> bool:
        """Whether the run fails where `main` cannot be built."""
        return self.strict or any(MAIN in text for text in self.release)


@cli.command("matrix")
def measure(paths: Paths, options: MatrixOptions, console: Console) -> ExitCode:
    """Confirm published results on this machine for a quarter of an hour, or run selected cells.

    The table is drawn either way. The exit code says whether all was as expected.
    """
    began = time.monotonic()
    seconds = seconds_of(options.budget) if options.budget else None
    mine = shard(options.shard) if options.shard else None
    _refuse_conflicts(options)
    paths, files = cli.own_files(paths, options.case, "--case")
    loaded = project.load(paths, files)
    if files is not None:
        options = dataclasses.replace(options, case=tuple(loaded.cases))
    warn = cli.line_printer(console, "yellow")
    opened = answers.copied if options.dry_run else answers.opened
    with opened(paths, warn) as store:
        stored = list(store.rows())
        if options.confirms:
            return _confirm(loaded, options, store, stored, console)
        planned = _planned(loaded, options, stored)
        part = share(loaded, options, mine) if mine else None
        if part:
            names = planned.selection.environments & part.environments
            selection = dataclasses.replace(planned.selection, environments=names)
            planned = dataclasses.replace(planned, selection=selection)
        if seconds is not None:
            planned = narrowed(planned, began + seconds - min(_DRAWING, seconds / 10))
        if options.dry_run:
            _print_plan(planned, console)
            return ExitCode.AS_EXPECTED
        if part is None:
            return _run(planned, store, stored, options, console)
        return _run_shard(planned, part, store, stored, options, console)


def _refuse_conflicts(options: MatrixOptions) -> None:
    """Raise RunnerError for options that exclude each other, and for a missing device."""
    alone = "shards are computed from the checkout alone"
    placed, lacking = "the interpreter takes their place", "the nodes do not have this interpreter"
    pairs = (
        ("--shard", options.shard, "--only", options.only, alone),
        ("--shard", options.shard, "--python", options.python, alone),
        ("--budget", options.budget, "--ray", options.ray, "a budget works on one machine only"),
        ("--all", options.all_due, "--every", options.every, "they are different cells"),
        ("--seed", options.seed is not None, "a selection", not options.confirms, _DRAWN),
        ("--python", options.python, "--release", options.release, placed),
        ("--python", options.python, "--ray", options.ray, lacking),
        (under_torch.OPTION, options.torch, "--ray", options.ray, "the nodes read no evidence"),
        (under_torch.OPTION, options.torch, "--python", options.python, placed),
        (under_torch.OPTION, options.torch, "--shard", options.shard, alone),
        ("--sandbox", options.sandbox, "--ray", options.ray, "the nodes have no sandbox"),
    )
    cli.refuse_pairs(pairs)
    for option in ("shard", "ray"):
        if getattr(options, option) and options.confirms:
            what = "published results are confirmed on one machine"
            raise refuse(Problem(f"--{option}", what, "Add --all, --every or a selection."))
    if options.ray:
        ray.check(options.ray)
    else:
        demand(options.device)


# What is run


def _planned(loaded: Project, options: MatrixOptions, rows: list[Observation]) -> Run:
    request: SelectionRequest = options
    ready = None
    if options.python:
        # Without its folder, `./python` would be one of `PATH`.
        path = Path(options.python)
        ready = development.ask_interpreter(path.absolute() if "/" in options.python else path)
        loaded = dataclasses.replace(loaded, environments={ready[0].name: ready[0]})
        request = dataclasses.replace(options, release=())
    else:
        loaded = project.informed(loaded, rows)
    planned = Run(
        project=loaded,
        selection=select(request, loaded.cases, loaded.names),
        terms=Terms(limits=loaded.matrix.limits, device=options.device, jobs=options.workers),
        known=known_rows(rows, loaded),
        rerun=options.rerun,
        interpreter=ready,
    )
    if options.all_due:
        published = answers.published_rows(loaded.paths)
        # The cells of a shard are the same on every machine.
        evidence = published if options.shard else [*published, *rows]
        is_due = due(site.axes_of(loaded), known_rows(evidence, loaded))
        planned = dataclasses.replace(planned, asked=is_due)
    if options.torch:
        evidence = [*answers.published_rows(loaded.paths), *rows]
        planned = under_torch.under(planned, options.torch, rows, evidence)
    return _only_unexpected(planned) if options.only else planned


def _only_unexpected(planned: Run) -> Run:
    environments = planned.project.environments
    unexpected = {
        cell
        for cell, row in planned.known.items()
        if planned.selection(cell)
        and planned.verdict(row, environments[cell.environment]).is_unexpected
    }
    if not unexpected:
        problem = Problem("--only", "no selected cell was unexpected")
        raise refuse(problem, ExitCode.NOTHING_SELECTED)
    known = {cell: row for cell, row in planned.known.items() if cell not in unexpected}
    selection = dataclasses.replace(planned.selection, only=frozenset(unexpected))
    return dataclasses.replace(planned, selection=selection, known=known)


def narrowed(planned: Run, until: float) -> Run:
    """Return a run that begins nothing that cannot end by a moment of the monotonic clock."""
    jobs = planned.terms.jobs
    budget = Budget(
        until=until,
        workers=jobs,
        costs=_costs(planned),
        beside=max(1, jobs // len(planned.selection.environments)),
    )
    terms = dataclasses.replace(planned.terms, until=until)
    return dataclasses.replace(planned, budget=budget, terms=terms)


def _costs(planned: Run) -> Costs:
    loaded = planned.project

    def is_absent(name: str) -> bool:
        if planned.interpreter is not None or name not in loaded.locks:
            return False
        digest = project.recipe(loaded, name).digest
        return not building.is_built(loaded.paths, name, digest)

    return costs(planned.known.values(), is_absent)


def _print_plan(planned: Run, console: Console) -> None:
    """Print what would run, and for how long by what earlier cells took."""
    known, every = _costs(planned), planned.units()
    units = every if planned.budget is None else planned.budget.first(every)
    for unit in units:
        absent = "  to be built" if known.absent(unit.environment) else ""
        console.print(f"{unit.environment:>12}  {plural(len(unit.cells), 'cell'):>10}{absent}")
    number = plural(sum(len(unit.cells) for unit in units), "cell")
    minutes = sum(map(known.of_unit, units)) / planned.terms.jobs / 60
    console.print(
        f"{number} in {plural(len(units), 'environment')}, about {minutes:.1f} minutes"
        f" with {planned.terms.jobs} at once."
    )
    if planned.budget is not None:
        begun = {cell for unit in units for cell in unit.cells}
        console.print(_left({cell for unit in every for cell in unit.cells} - begun))


def _left(cells: Collection[Cell]) -> str:
    return f"Left for another run: {plural(len(cells), 'cell')}." if cells else "Nothing is left."


# How it is run


def _confirm(
    loaded: Project,
    options: MatrixOptions,
    store: Store,
    stored: list[Observation],
    console: Console,
) -> ExitCode:
    """Draw the table of what is published, then measure some of it, and say what that bounds."""
    seed = store.seed() if options.seed is None else options.seed
    drawn = confirm.drawn(_planned(loaded, options, stored), seed)
    seconds = seconds_of(options.budget or confirm.BUDGET)
    if options.dry_run:
        _print_plan(narrowed(drawn.run, time.monotonic() + seconds), console)
        return ExitCode.AS_EXPECTED
    updates = SiteUpdates(loaded, store, stored, options.workers)
    console.print("Drawing the table of published results.")
    shown = updates.render()
    confirm.print_opening(shown, loaded, console)
    theirs = (row for row in shown.rows if row.source not in UNPUBLISHED)
    published, _ = current(theirs, loaded.cases, loaded.environments)
    confirm.print_intention(drawn, seconds, console)
    terms = dataclasses.replace(drawn.run.terms, sandbox=sandbox_of("", options.sandbox, console))
    planned = dataclasses.replace(drawn.run, published=published, terms=terms)
    store.begin_confirmation(drawn.seed, terms.run)
    begin = time.monotonic()
    planned = narrowed(planned, begin + seconds)
    with ProgressDisplay(console, planned.terms.until) as display:
        tally = planned.execute(store, display)
    spent = time.monotonic() - begin
    shown = updates.render()
    confirmed = confirm.compared(drawn, published, shown.rows, store.confirmations(drawn.seed))
    code = confirm.print_closing(confirmed, planned, tally, shown, console, spent)
    return _with_table(code, loaded, updates, console)


def _run_shard(  # noqa: PLR0913, PLR0917 - what `_run` takes, and which shard it is
    planned: Run,
    part: Share,
    store: Store,
    stored: list[Observation],
    options: MatrixOptions,
    console: Console,
) -> ExitCode:
    """Run a shard; store that it is complete, which `merge --whole` asks for."""
    store.begin_shard(part.split)
    code = ExitCode.AS_EXPECTED
    if part.environments:
        code = _run(planned, store, stored, options, console)
    else:
        what = "has nothing to run: there are more shards than releases"
        console.print(f"Shard {part.shard} {what}.")
    if code not in {ExitCode.AS_EXPECTED, ExitCode.UNEXPECTED}:
        return code
    if number := left(planned, list(store.rows())):
        cells = plural(number, "cell")
        console.print(f"Shard {part.shard} is incomplete: {cells} left to measure.")
    else:
        store.end_shard(str(part.shard), part.split, planned.terms.run)
    return code


def _run(
    planned: Run,
    store: Store,
    stored: list[Observation],
    options: MatrixOptions,
    console: Console,
) -> ExitCode:
    begin = time.monotonic()
    loaded, cases = planned.project, planned.selection.cases
    rows = answers.published_rows(loaded.paths, None if cases == {*loaded.cases} else cases)
    published, _ = current(rows, loaded.cases, loaded.environments)
    updates = _updates(planned, options, store, stored)

    def pause(left: int) -> None:
        if updates and time.monotonic() < planned.terms.until:  # the last drawing has its time
            updates.render_if_due(left)

    sandbox = sandbox_of(options.ray, options.sandbox, console)
    terms = dataclasses.replace(planned.terms, sandbox=sandbox)
    planned = dataclasses.replace(planned, published=published, terms=terms)
    with (
        ProgressDisplay(console, wants_main=options.wants_main, cases=loaded.cases) as display,
        engine_of(planned, options.ray, display) as engine,
    ):
        tally = planned.execute(store, display, pause, engine)
    shown = updates.render() if updates else _known(planned, options, store, stored)
    code = _summary(planned, shown, tally, options, console, time.monotonic() - begin)
    return code if options.torch else _with_table(code, loaded, updates, console)


def _updates(
    planned: Run, options: MatrixOptions, store: Store, stored: list[Observation]
) -> SiteUpdates | None:
    """Return what draws the site; None where it shows all, or would show none of the cells."""
    if not options.torch and not planned.units():
        inputs = site.with_local(site.published_inputs(planned.project.paths), stored)
        if site.is_drawn(planned.project.paths, inputs):
            return None
    return None if options.torch else SiteUpdates(planned.project, store, stored, options.workers)


def _known(
    planned: Run, options: MatrixOptions, store: Store, stored: Sequence[Observation]
) -> RenderedSite:
    loaded = planned.project
    if options.torch:
        rows = list(store.rows())
        return RenderedSite(rows=rows, grid=site.judged_under_torches(loaded, rows)[1])
    cases = {name: loaded.cases[name] for name in loaded.cases if name in planned.selection.cases}
    own = (row for row in stored if row.cell.case in cases)
    rows = [*answers.published_rows(loaded.paths, cases), *own]
    grid = site.judged_grid(dataclasses.replace(loaded, cases=cases), rows)[1]
    return RenderedSite(rows=rows, grid=grid)


def _with_table(
    code: ExitCode, loaded: Project, updates: SiteUpdates | None, console: Console
) -> ExitCode:
    """Print where the table is; return the exit code, that of the disk where it is not drawn."""
    if updates and updates.undrawn:
        console.print(f"The table is not drawn: {updates.undrawn}")
        return max(code, updates.undrawn.code)
    state = f" (first drawn after {updates.first:.0f} s)" if updates else ""
    console.print(f"The table: {site.index(loaded.paths)}{state}")
    return code


# What it came to


def _summary(  # noqa: PLR0913, PLR0917 - it prints everything at the end
    planned: Run,
    shown: RenderedSite,
    tally: RunTally,
    options: MatrixOptions,
    console: Console,
    seconds: float,
) -> ExitCode:
    grid = [judged for judged in shown.grid if planned.selection(judged.seen.cell)]
    unpublished = [each for each in grid if each.seen.source in UNPUBLISHED]
    unexpected = [judged for judged in unpublished if judged.verdict.is_unexpected]
    cases = planned.project.cases
    _print_counts(grid, tally, options, console, seconds, cases)
    print_unexpected(unexpected, console, cases)
    if planned.budget:
        console.print(_left(tally.left))
        once = sum(judged.verdict.is_unexpected and judged.seen.repeats == 1 for judged in grid)
        if once and time.monotonic() >= planned.budget.until:
            results = plural(once, "unexpected result")
            console.print(f"{results} not repeated yet: `--only unexpected` confirms them.")
    if tally.interrupted:
        console.print("Interrupted. Results so far are kept; run the same command to continue.")
        return ExitCode.INTERRUPTED
    unbuilt = any(options.wants_main or not is_of_main(name) for name in tally.unbuilt)
    if unbuilt or tally.lost:
        return ExitCode.UNBUILDABLE
    return ExitCode.UNEXPECTED if unexpected else ExitCode.AS_EXPECTED


def _print_counts(  # noqa: PLR0913, PLR0917 - as above
    grid: Sequence[Judged],
    tally: RunTally,
    options: MatrixOptions,
    console: Console,
    seconds: float,
    cases: Mapping[str, Case],
) -> None:
    numbers = Counter(_count_of(judged, cases) for judged in grid)
    names = (*Verdict, *(each for each in Outcome if each.is_evidence), _NOT_DUE)
    counts = ", ".join(f"{numbers[name]} {name}" for name in names if numbers[name])
    console.print(
        f"{plural(tally.measured, 'cell')} measured in {seconds:.0f} s,"
        f" {core_seconds():.0f} core-seconds on this machine."
        f" Of {plural(len(grid), 'selected cell')}: {counts}."
    )
    left_out = {
        name: reason
        for name, reason in tally.unbuilt.items()
        if is_of_main(name) and not options.wants_main
    }
    unproven = Counter(
        _why_unproven(judged.seen)
        for judged in grid
        if _count_of(judged, cases) == Verdict.UNPROVEN
        and judged.seen.cell.environment not in left_out
    )
    for why, number in unproven.most_common():
        console.print(f"  unproven, {number}: {why}")
    for name, reason in tally.lost.items():
        console.print(f"  not finished: {name}: {reason}")
    for name, reason in left_out.items():
        console.print(f"  left out: {name} ({shorten(reason, _WIDTH)})", style="dim")


def _count_of(judged: Judged, cases: Mapping[str, Case]) -> str:
    """Return what a cell is counted as: its verdict, where a rule or an entry asks for one."""
    row = judged.seen
    if row.outcome is Outcome.NOT_DUE:
        return _NOT_DUE
    told = row.reading.fails is not None and expects_nothing(row, cases)
    return row.outcome if told else judged.verdict


def _why_unproven(seen: Observation) -> str:
    if seen.unstable:
        return "disputed between machines" if seen.sides else "unstable"
    return "never computed in its precision" if seen.outcome.is_evidence else seen.described
