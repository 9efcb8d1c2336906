"""`matrix`: the main job."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import time
from collections import Counter
from typing import TYPE_CHECKING

from runner import campaign, project, rendering, running
from runner.campaign import Campaign
from runner.cluster import connecting as ray
from runner.cluster.choices import choices
from runner.cluster.engine import Cluster
from runner.commands.measuring import Options, check
from runner.commands.own import own_files
from runner.commands.planned import (
    choosing,
    narrowed,
    print_plan,
    say_after,
    say_before,
)
from runner.commands.redrawing import Redrawing
from runner.commands.sandboxing import walled
from runner.commands.shards import left, share
from runner.environments import interpreter
from runner.errors import ExitCode, Fault, refuse
from runner.evidence import late, reading
from runner.model.matrix import MAIN
from runner.model.observation import UNPUBLISHED
from runner.model.outcomes import Verdict
from runner.planning.selection import Wish, select
from runner.planning.shards import shard
from runner.telling.wording import count
from runner.terminal.progress import Display
from runner.terminal.surprises import say_surprises, say_suspicions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from runner.commands.redrawing import Shown
    from runner.commands.shards import Share
    from runner.evidence.store import Store
    from runner.judging.verdicts import Judged
    from runner.model.observation import Observation
    from runner.places import Places
    from runner.project import Project
    from runner.running import Engine, Tally


def measure(places: Places, options: Options, console: Console) -> ExitCode:
    """Do the main job and return what its end means."""
    began = time.monotonic()
    how = choosing(options.plan, options.budget, dry=options.dry_run)
    check(options)
    one = shard(options.shard) if options.shard else None
    places, files = own_files(places, options.wish.case, "--case")
    loaded = project.load(places, files)
    wish = options.wish
    if files is not None:
        wish = dataclasses.replace(wish, case=tuple(loaded.cases))
    with reading.opened(places, _told(console)) as store:
        late.take_in(store, _told(console))
        stored = list(store.rows())
        plan = _campaign(loaded, wish, options, stored)
        mine = share(loaded, wish, one) if one else None
        if mine:
            plan = _within(plan, mine)
        plan = narrowed(plan, how, began)
        if how.dry:
            print_plan(plan, console)
            return ExitCode.AS_EXPECTED
        say_before(plan, console)
        if mine:
            store.begin_shard(mine.split)
        if mine and not mine.environments:
            code = _nothing_to_do(mine, console)
        else:
            code = _run(plan, Redrawing(loaded, store, stored, options.jobs), options, console)
        if mine and code in {ExitCode.AS_EXPECTED, ExitCode.UNEXPECTED}:
            _end_shard(mine, plan, store, console)
        return code


def _nothing_to_do(mine: Share, console: Console) -> ExitCode:
    console.print(f"Shard {mine.shard} has no environment to run: there are fewer than shards.")
    return ExitCode.AS_EXPECTED


def _end_shard(mine: Share, planned: Campaign, store: Store, console: Console) -> None:
    """Keep that a shard is whole, which is what `merge --whole` looks at."""
    number = left(planned, list(store.rows()))
    if number:
        console.print(f"Shard {mine.shard} is not whole: {count(number, 'cell')} left to measure.")
    else:
        store.end_shard(str(mine.shard), mine.split, planned.terms.run)


def _within(planned: Campaign, mine: Share) -> Campaign:
    names = planned.selection.environments & mine.environments
    selection = dataclasses.replace(planned.selection, environments=names)
    return dataclasses.replace(planned, selection=selection)


def _told(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, style="yellow")


def _campaign(loaded: Project, wish: Wish, options: Options, rows: list[Observation]) -> Campaign:
    if options.trust_published:
        rows = [*reading.published_rows(loaded.places), *rows]
    ready = interpreter.ask(options.python) if options.python else None
    if ready is not None:
        environments = {ready[0].name: ready[0]}
        loaded = dataclasses.replace(loaded, environments=environments)
        wish = dataclasses.replace(wish, release=())
    else:
        loaded = project.informed(loaded, rows)
    selection = select(wish, loaded.cases, loaded.names)
    planned = Campaign(
        project=loaded,
        selection=selection,
        terms=campaign.local_terms(loaded.matrix.limits, wish.device, options.jobs),
        known=campaign.known_rows(rows, loaded),
        rerun=options.rerun,
        interpreter=ready,
    )
    if options.only:
        return _only_unexpected(planned)
    return planned


def _only_unexpected(planned: Campaign) -> Campaign:
    environments = planned.project.environments
    surprises = {
        cell
        for cell, row in planned.known.items()
        if planned.selection(cell)
        and planned.verdict(row, environments[cell.environment]).is_surprise
    }
    if not surprises:
        fault = Fault(where="--only", found="no unexpected cell", allowed="at least one")
        raise refuse(fault, ExitCode.NOTHING_SELECTED)
    known = {cell: row for cell, row in planned.known.items() if cell not in surprises}
    selection = dataclasses.replace(planned.selection, only=frozenset(surprises))
    return dataclasses.replace(planned, selection=selection, known=known)


def _run(planned: Campaign, renderer: Redrawing, options: Options, console: Console) -> ExitCode:
    begin = time.monotonic()

    def pause(left: int) -> None:
        if time.monotonic() < planned.terms.until:  # the last drawing is what time is kept for
            renderer.now_and_then(left)

    planned = _walled(planned, options, console)
    with Display(console) as display, _engine(planned, options, display) as engine:
        tally = running.run(planned, renderer.store, display, pause, engine)
    shown = renderer.finally_()
    code = _summary(planned, shown, tally, options, console, time.monotonic() - begin)
    if renderer.undrawn:
        console.print(f"The table is not drawn: {renderer.undrawn}", markup=False)
        return max(code, renderer.undrawn.code)
    table = rendering.index(planned.project.places)
    console.print(f"The table: {table} (first drawn after {renderer.first:.0f} s)")
    return code


def _walled(planned: Campaign, options: Options, console: Console) -> Campaign:
    """Return the plan with what walls its cells in here; a cluster's nodes have none."""
    if options.ray:
        console.print("Not sandboxed: a case has the network and the rights of Ray's workers.")
        return planned
    holds = walled(options.sandbox, _dimmed(console))
    return dataclasses.replace(planned, terms=dataclasses.replace(planned.terms, sandbox=holds))


def _dimmed(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, style="dim")


@contextlib.contextmanager
def _engine(planned: Campaign, options: Options, display: Display) -> Iterator[Engine]:
    """Yield what runs the plan: this machine, or a cluster for as long as it is connected."""
    if not options.ray:
        yield running.pool(planned)
        return
    # What a cluster of this machine starts has all that this process has.
    chosen = {} if options.ray == ray.LOCAL else choices(planned)
    with ray.connected(options.ray, planned.project.places.built):
        yield Cluster(planned, lambda text: display.say(text, "yellow"), chosen)


def _summary(  # noqa: PLR0913, PLR0917 - it says everything at the end
    planned: Campaign,
    shown: Shown,
    tally: Tally,
    options: Options,
    console: Console,
    seconds: float,
) -> ExitCode:
    mine = [one for one in shown.grid if planned.selection(one.seen.cell)]
    trusted = [one for one in mine if options.trust_published or one.seen.source in UNPUBLISHED]
    surprises = [one for one in trusted if one.verdict.is_surprise]
    _print_counts(mine, tally, console, seconds)
    say_surprises(surprises, console)
    say_suspicions(trusted, console)
    local = [one for one in shown.rows if options.trust_published or one.source in UNPUBLISHED]
    say_after(planned, tally, mine, local, console)
    if tally.interrupted:
        console.print("Interrupted; what was measured is kept, and the next run goes on from here.")
        return ExitCode.INTERRUPTED
    wanted = options.strict or any(MAIN in text for text in options.wish.release)
    unbuilt = any(wanted or name.partition("+")[0] != MAIN for name in tally.unbuilt)
    if unbuilt or tally.lost:  # nobody said that what was lost could not be had
        return ExitCode.UNBUILDABLE
    return ExitCode.UNEXPECTED if surprises else ExitCode.AS_EXPECTED


def _print_counts(mine: Sequence[Judged], tally: Tally, console: Console, seconds: float) -> None:
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
    if seen.outcome.was_run and not seen.outcome.blames_machine:
        return "never computed in its precision"
    return f"{seen.outcome}: {seen.reason}" if seen.reason else str(seen.outcome)
