"""`merge`: results of shards and of other machines, added to the local store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from repromatrix.runner import project, site
from repromatrix.runner.cli.options import Console, command, line_printer
from repromatrix.runner.cli.progress import LISTED, cell_name, print_rest, print_unexpected
from repromatrix.runner.errors import ExitCode, Fault, Problem, RunnerError, more_to_do, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import dispute
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.shards import lacking
from repromatrix.runner.text import plural, printable


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeOptions:
    """The options of `merge`."""

    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Stores (evidence.sqlite), or folders with publications.toml."
        ),
    ]
    whole: Annotated[bool, "Merge only if the files hold all shards of one run."] = False
    dry_run: Annotated[bool, "Print what would be merged, and write nothing."] = False


@command("merge", collect=False)
def bring(paths: Paths, options: MergeOptions, console: Console) -> ExitCode:
    """Merge results of shards and of other machines into the local store.

    Each file is merged whole or not at all, and what is unexpected or disputed is printed. Raises
    RunnerError for the files that cannot be merged; the others are. With `--whole`, nothing is
    merged unless all shards are there.
    """
    warn, merged = line_printer(console, "yellow"), _Merged()
    files = list({path.resolve(): path for path in reversed(options.files)}.values())[::-1]
    target = answers.copied if options.dry_run else answers.opened
    with target(paths, warn) as store:
        for group in [files] if options.whole else ([path] for path in files):
            _merge(group, paths, store, merged, console, whole=options.whole)
        code = _summary(paths, store, merged, console)
        if options.dry_run:
            console.print("Nothing was written.")
        if merged.faults:
            raise RunnerError(merged.faults)
        return code


@dataclass(kw_only=True, slots=True)
class _Merged:
    cells: set[Cell] = field(default_factory=set)
    shards: set[tuple[str, str]] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)


def _merge(  # noqa: PLR0913 - what is merged, into what, and what is said of it
    files: Sequence[Path],
    paths: Paths,
    store: Store,
    merged: _Merged,
    console: Console,
    *,
    whole: bool,
) -> None:
    """Merge files together: all are read before the store is locked to write."""
    read: dict[Path, list[Observation]] = {}
    for path in files:
        try:
            read[path] = _read(path, paths, merged)
        except RunnerError as error:
            merged.faults.extend(error.faults)
    if whole and (lack := lacking(merged.shards)):
        problem = Problem("--whole", lack, "Name the files of all shards of one run.")
        merged.faults.append(problem)
    if whole and merged.faults:
        *others, last = merged.faults
        raise RunnerError([*others, more_to_do(last, "Nothing was merged.")])
    with store.together():
        taken = {path: store.take(rows) for path, rows in read.items()}
    for path, counts in taken.items():
        known = counts.rows - counts.new - counts.newer
        parts = {"new": counts.new, "newer than the row here": counts.newer, "already here": known}
        numbers = ", ".join(f"{number:,} {what}" for what, number in parts.items() if number)
        content = f"{plural(counts.rows, 'row')}: {numbers}" if counts.rows else "holds no cells"
        console.print(f"  {path}: {content}")


def _read(path: Path, paths: Paths, merged: _Merged) -> list[Observation]:
    if path.exists() and paths.store.exists() and path.samefile(paths.store):
        raise refuse(Problem(str(path), "this is the store that would be merged into"))
    with answers.evidence(path) as (every, shards):
        rows = list(every)
    merged.cells |= {row.cell for row in rows}
    merged.shards |= shards
    return rows


def _summary(paths: Paths, store: Store, merged: _Merged, console: Console) -> ExitCode:
    stored = store.rows({cell.case for cell in merged.cells})
    rows = [row for row in stored if row.cell in merged.cells]
    _, grid = site.judged_grid(project.load(paths, code=False), rows)
    mine = [judged for judged in grid if judged.seen.cell in merged.cells]
    known = {judged.seen.cell for judged in mine}
    if number := len(merged.cells - known):
        cells = plural(number, "cell")
        console.print(f"{cells} kept, of cases or environments that this checkout does not have.")
    if number := sum(judged.stale for judged in mine):
        cells = plural(number, "cell")
        console.print(f"{cells} kept, measured with another version of the case or of its lock.")
    unexpected = [judged for judged in mine if judged.verdict.is_unexpected and not judged.stale]
    if unexpected:
        console.print(f"{plural(len(unexpected), 'unexpected result')}:")
        print_unexpected(unexpected, console)
    # What machines say of an older state of a case is shown nowhere, and measured never again.
    contested = [row.seen for row in mine if row.seen.sides and not row.stale]
    if contested:
        console.print(
            f"{plural(len(contested), 'cell')} disputed between machines (unstable until"
            " `nox -s matrix` has run here):"
        )
    for row in contested[:LISTED]:
        console.print(printable(f"  disputed: {cell_name(row)}: {dispute(row)}"))
    print_rest(len(contested), console)
    return ExitCode.UNEXPECTED if unexpected or contested else ExitCode.AS_EXPECTED
