"""`merge`: evidence of shards and of other machines into this machine's store."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import project, site
from repromatrix.runner.cli.options import command, told
from repromatrix.runner.cli.progress import cell_name
from repromatrix.runner.cli.summary import LISTED, say_rest, say_unexpected
from repromatrix.runner.errors import ExitCode, Fault, OldFault, RunnerError, more_to_do, refuse
from repromatrix.runner.evidence import answers, foreign
from repromatrix.runner.evidence.conflicts import dispute, disputed
from repromatrix.runner.evidence.imports import Taken
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.shards import lacking
from repromatrix.runner.text import plural, printable

if TYPE_CHECKING:
    from rich.console import Console

_EVERY = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeOptions:
    """The options of `merge`."""

    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Stores, or folders with publications.toml."),
    ]
    whole: Annotated[
        bool, typer.Option("--whole", help="Merge only if the files hold all shards of a run.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be merged, and write nothing.")
    ] = False


@dataclass(kw_only=True, slots=True)
class _Brought:
    """What the files held."""

    cells: set[Cell] = field(default_factory=set)
    shards: set[tuple[str, str]] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)


@command("merge")
def merge(options: MergeOptions) -> ExitCode:
    """Merge evidence of shards and other machines into the local store."""
    gc.disable()
    return bring(Paths(), options, told())


def bring(places: Paths, options: MergeOptions, console: Console) -> ExitCode:
    """Bring evidence of others in, each file whole or not at all, and say what is disputed.

    Raises RunnerError for the files that cannot be merged; the others are. Where a whole split
    was demanded and is not there, nothing is merged.
    """
    warn = lambda text: console.print(text, style="yellow")  # noqa: E731
    with answers.opened(places, warn) as store, _bracket(store, options):
        brought = _Brought()
        for path in _once(options.files, console):
            _bring(path, places, store, brought, console)
        if options.whole:
            _refuse_part(brought)
        code = _say(places, store, brought, console)
        if options.dry_run:
            console.print("Nothing was written.")
        if brought.faults:
            raise RunnerError(brought.faults)
        return code


def _bracket(store: Store, options: MergeOptions) -> contextlib.AbstractContextManager[None]:
    if options.dry_run:
        return store.rehearsing()
    return store.together() if options.whole else contextlib.nullcontext()


def _once(files: Sequence[Path], console: Console) -> Iterator[Path]:
    seen: set[Path] = set()
    for path in files:
        if path.resolve() in seen:
            console.print(f"  {path}: named twice, merged once", markup=False)
            continue
        seen.add(path.resolve())
        yield path


def _bring(path: Path, places: Paths, store: Store, brought: _Brought, console: Console) -> None:
    try:
        if path.exists() and places.store.exists() and path.samefile(places.store):
            allowed = "evidence of somebody else"
            raise refuse(
                OldFault(where=str(path), found="this machine's own store", allowed=allowed)
            )
        with foreign.evidence(path) as found:
            cells: set[Cell] = set()
            taken = store.take(_watched(found.rows, cells, path, console))
    except RunnerError as error:
        brought.faults.extend(error.faults)
        return
    brought.cells |= cells
    brought.shards |= found.shards
    console.print(f"  {path}: {_counted(taken)}", markup=False)


def _watched(
    rows: Iterable[Observation], cells: set[Cell], path: Path, console: Console
) -> Iterator[Observation]:
    """Hand rows on, remember their cells, and say now and then how far it is."""
    told = time.monotonic()
    for number, row in enumerate(rows):
        if time.monotonic() - told > _EVERY:
            told = time.monotonic()
            console.print(f"  {path}: {number} rows so far …", markup=False)
        cells.add(row.cell)
        yield row


def _counted(taken: Taken) -> str:
    if not taken.rows:
        return "holds no cells"
    known = taken.rows - taken.new - taken.newer
    parts = {"new": taken.new, "newer than what was there": taken.newer, "already there": known}
    told = ", ".join(f"{number} {what}" for what, number in parts.items() if number)
    return f"{taken.rows} rows, {told}"


def _refuse_part(brought: _Brought) -> None:
    """Raise RunnerError unless the files hold every shard of one split."""
    lack = lacking(brought.shards)
    if not lack and not brought.faults:
        return
    faults = list(brought.faults)
    if lack:
        allowed = "every shard of one split, each measured to its end"
        faults.append(OldFault(where="--whole", found=lack, allowed=allowed))
    faults[-1] = more_to_do(faults[-1], "Nothing was merged.")
    raise RunnerError(faults)


def _say(places: Paths, store: Store, brought: _Brought, console: Console) -> ExitCode:
    stored = store.rows({cell.case for cell in brought.cells})
    rows = [row for row in stored if row.cell in brought.cells]
    _, grid = site.judged_grid(project.load(places, code=False), rows)
    mine = [one for one in grid if one.seen.cell in brought.cells]
    _say_strangers(brought.cells - {one.seen.cell for one in mine}, mine, console)
    unexpected = [one for one in mine if one.verdict.is_unexpected and not one.stale]
    if unexpected:
        console.print(f"{plural(len(unexpected), 'unexpected result')}:")
        say_unexpected(unexpected, console)
    # What machines say of an older state of a case is shown nowhere, and measured never again.
    contested = disputed(one.seen for one in mine if not one.stale)
    _say_disputes(contested, console)
    return ExitCode.UNEXPECTED if unexpected or contested else ExitCode.AS_EXPECTED


def _say_strangers(strangers: set[Cell], mine: Sequence[Judged], console: Console) -> None:
    if strangers:
        number = plural(len(strangers), "cell")
        console.print(f"{number} of a case or an environment that is not in this checkout: kept.")
    if stale := sum(one.stale for one in mine):
        number = plural(stale, "cell")
        console.print(f"{number} measured on another state of the case or of its pins: kept.")


def _say_disputes(contested: Sequence[Observation], console: Console) -> None:
    if not contested:
        return
    console.print(
        f"{plural(len(contested), 'cell')} disputed between machines; each is unstable until"
        " `nox -s matrix` has measured it here:"
    )
    for row in contested[:LISTED]:
        told = printable(f"disputed: {cell_name(row)}: {dispute(row)}")
        console.print(f"  {told}", markup=False)
    say_rest(len(contested), console)
