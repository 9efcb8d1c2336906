"""`diff`: two environments, a release and a checkout, or two sets of evidence.

What broke, is fixed, changed, is new, is gone: cell by cell.
"""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli.diff_evidence import compare_evidence
from repromatrix.runner.cli.options import (
    Areas,
    Cases,
    Format,
    Precisions,
    Rerun,
    Walls,
    Workarounds,
    command,
    told,
)
from repromatrix.runner.cli.output_formats import check_format
from repromatrix.runner.cli.progress import ProgressDisplay
from repromatrix.runner.cli.sandbox_option import walled
from repromatrix.runner.cli.stdout import say
from repromatrix.runner.cli.user_files import own_files
from repromatrix.runner.compare import render, sides
from repromatrix.runner.compare.checkout import CheckoutRuns
from repromatrix.runner.compare.diff import compare
from repromatrix.runner.compare.render import DiffReport
from repromatrix.runner.compare.sides import DiffRequest, Sides, is_evidence, of_pairs
from repromatrix.runner.environments.checkouts import Checkout, read_checkout
from repromatrix.runner.errors import ExitCode, Interrupted, OldFault, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import cores, demand
from repromatrix.runner.model.environment_name import asked as taken
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffOptions(SelectionRequest):
    """The options of `diff`."""

    before: Annotated[
        str,
        typer.Argument(
            help="An environment: 5.23.0. Or evidence: a store, a folder of published evidence,"
            " or a publication by its name."
        ),
    ]
    after: Annotated[
        str,
        typer.Argument(
            help="An environment, or the path of a checkout: ./transformers. Beside evidence,"
            " evidence."
        ),
    ]
    case: Cases = ()
    area: Areas = ()
    precision: Precisions = ()
    workaround: Workarounds = ()
    only_device: Annotated[
        Device | None,
        typer.Option(
            "--device", help="The device to compute on: cpu by default, all for evidence."
        ),
    ] = None
    format: Format = "text"
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Cells to run at once; 0 means all cores.")
    ] = 0
    rerun: Rerun = False
    sandbox: Walls = None


@command("diff")
def diff(options: DiffOptions) -> ExitCode:
    """Print what differs: two environments, a release and a checkout, or two sets of evidence."""
    return compare_sides(Paths(), options, told())


def compare_sides(places: Paths, options: DiffOptions, console: Console) -> ExitCode:
    """Print what differs between two sides; whatever has to be run for it is kept."""
    check_format(options.format)
    options = dataclasses.replace(options, device=options.only_device or Device.CPU)
    places, files = own_files(places, options.case, "--case")
    loaded = project.load(places, files, _derived(options))
    if any(is_evidence(text, loaded) for text in (options.before, options.after)):
        return compare_evidence(loaded, options)
    demand(options.device)
    wish = options if files is None else dataclasses.replace(options, case=tuple(loaded.cases))
    before = _environment(options.before, loaded, "the first side")
    checkout = None if options.after in loaded.names else _checkout(options.after, before, loaded)
    asked = _asked(
        loaded, wish, options, [before] if checkout else [before, options.after], console
    )
    try:
        sides = _sides(asked, options, checkout, console)
    except Interrupted:
        console.print("What was measured is kept; the same command goes on from there.")
        raise
    return _tell(asked, options, checkout, sides)


def _derived(options: DiffOptions) -> list[str]:
    """Return the named environments that no case may have asked for; raises RunnerError."""
    names = [name for name in (options.before, options.after) if _is_derived(name)]
    return [name for name in names if taken(name, "diff").base != MAIN]


def _is_derived(text: str) -> bool:
    return "+" in text and not _is_path(text)


def _is_path(text: str) -> bool:
    return "/" in text or text.startswith((".", "~")) or Path(text).exists()


def _environment(text: str, loaded: Project, where: str) -> str:
    if text in loaded.names:
        return text
    nearest = difflib.get_close_matches(text, loaded.names, n=1, cutoff=0.3)
    remedy = f"Did you mean {nearest[0]!r}?" if nearest else ""
    if _is_path(text):
        remedy = "Name the release first, then the checkout: `nox -s diff -- RELEASE PATH`."
    first, newest = loaded.matrix.releases[0].name, loaded.matrix.releases[-1].name
    allowed = f"a release from {first} to {newest}, main, a pair, or evidence on both sides"
    raise refuse(OldFault(where=where, found=repr(text), allowed=allowed, fix=remedy))


def _checkout(text: str, base: str, loaded: Project) -> Checkout:
    if not _is_path(text):
        _environment(text, loaded, "the second side")
    if not loaded.environments[base].source.has_lock:
        newest = loaded.matrix.releases[-1].name
        allowed, remedy = "a release or a pair beside a checkout", f"Say {newest}."
        raise refuse(OldFault(where="the first side", found=base, allowed=allowed, fix=remedy))
    return read_checkout(Path(text))


def _asked(
    loaded: Project,
    wish: SelectionRequest,
    options: DiffOptions,
    names: list[str],
    console: Console,
) -> DiffRequest:
    selection = of_pairs(select(wish, loaded.cases, loaded.names), loaded, names)
    asked = DiffRequest(
        project=loaded,
        selection=selection,
        terms=Terms(
            limits=loaded.matrix.limits,
            device=wish.device,
            jobs=options.jobs or cores(),
            sandbox=walled(options.sandbox, lambda text: console.print(text, style="dim")),
        ),
        rerun=options.rerun,
        watched=lambda: ProgressDisplay(console),
    )
    environments = frozenset(one for name in names for one in asked.environments(name))
    return dataclasses.replace(
        asked, selection=dataclasses.replace(selection, environments=environments)
    )


def _sides(
    asked: DiffRequest, options: DiffOptions, checkout: Checkout | None, console: Console
) -> Sides:
    def warn(text: str) -> None:
        console.print(text, style="yellow")

    places = asked.project.places
    with answers.opened(places, warn) as store:
        cases = asked.selection.cases
        rows = [*answers.published_rows(places, cases), *store.rows(cases)]
        if checkout is None:
            return sides.of_environments(asked, (options.before, options.after), rows, store)
        trials = Store(places.trials, warn)
        try:
            bench = CheckoutRuns(asked, checkout, trials)
            return sides.with_checkout(asked, options.before, bench, rows, store)
        finally:
            trials.close()


def _tell(
    asked: DiffRequest, options: DiffOptions, checkout: Checkout | None, sides: Sides
) -> ExitCode:
    answer = DiffReport(
        before=options.before,
        after=_named(checkout, options) if checkout else options.after,
        differences=compare(*sides, asked.project.cases),
        cases=asked.project.cases,
        run=asked.terms.run,
        sides=(options.before, options.after),
        files=_files(asked, options),
    )
    if not answer.differences:
        fault = OldFault(where="diff", found="no cell on either side", allowed="an applicable case")
        raise refuse(fault, ExitCode.NOTHING_SELECTED)
    shown = answer if options.format == "text" else _for_strangers(answer, options, checkout)
    say(render.render(shown, options.format))
    return answer.exit_code


def _files(asked: DiffRequest, options: DiffOptions) -> dict[str, str]:
    return {Path(text).stem: text for text in options.case} if asked.project.places.own else {}


def _for_strangers(
    answer: DiffReport, options: DiffOptions, checkout: Checkout | None
) -> DiffReport:
    """Take the places of this machine out of the commands."""
    after = f"path/to/{checkout.package}" if checkout else options.after
    return dataclasses.replace(
        answer,
        sides=(options.before, after),
        files={name: f"path/to/{name}.py" for name in answer.files},
    )


def _named(checkout: Checkout, options: DiffOptions) -> str:
    how = checkout.standing
    facts = [
        f"commit {how.commit[:12]}" if how.commit else "no repository",
        *([f"branch {how.branch}"] if how.branch else []),
        *([f"{'edited, ' if how.commit else ''}content {how.content}"] if how.content else []),
    ]
    said = f"a checkout of {checkout.package} that claims {checkout.claims}"
    return f"{said} ({', '.join(facts)}), in the environment of {options.before}"
