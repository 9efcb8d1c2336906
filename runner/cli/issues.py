"""`issues`: what is unexpected on `main`, an issue for each case and failure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from repromatrix.runner import files, project, site
from repromatrix.runner.bisect import pinning, unexpected
from repromatrix.runner.bisect import render_issues as render
from repromatrix.runner.bisect.clone import Clone, commit_of, open_clones
from repromatrix.runner.bisect.render_issues import IssueFacts, MainCommit
from repromatrix.runner.bisect.unexpected import UnexpectedResult
from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.bisect import trial_printer
from repromatrix.runner.cli.options import Console
from repromatrix.runner.cli.report import site_address
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.environments.development import repository_of
from repromatrix.runner.errors import ExitCode, Problem, RunnerError, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.commits import ChangeKey, PinnedCommit, is_pinned, known_commits
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.model.packages import TRANSFORMERS
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.project import Project
from repromatrix.runner.text import plural


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuesOptions:
    """The options of `issues`."""

    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to write the issues, a file for each.")
    ]
    case: cli.Cases = ()
    repo: Annotated[
        Sequence[Path],
        "A clone of transformers, accelerate or peft to find the commit in; may be repeated.",
    ] = ()
    known: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The text of issues that exist; write only what is not in it."
        ),
    ] = None
    base_url: Annotated[
        str,
        typer.Option(metavar="URL", help="The address of the published site, to link to cases."),
    ] = ""
    sandbox: cli.Sandbox = None


@cli.command("issues", collect=False)
def write_issues(paths: Paths, options: IssuesOptions, console: Console) -> ExitCode:
    """Write an issue for each unexpected result of `main`, with the commit if a clone is given.

    Raises RunnerError; that a commit cannot be found is said in the issue.
    """
    clones = open_clones(options.repo, paths.places)
    address = site_address(options.base_url)
    rows = answers.both(paths, cli.line_printer(console, "yellow"))
    loaded, grid = site.judged_grid(project.load(paths), rows)
    selection = select(SelectionRequest(case=options.case), loaded.cases, loaded.names)
    known = ""
    if options.known:
        try:
            known = options.known.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            what = f"{options.known} cannot be read ({error.strerror})"
            raise refuse(Problem("--known", what)) from error
    chosen = (judged for judged in grid if selection(judged.seen.cell))
    fresh = []
    for result in unexpected.unexpected_results(chosen, loaded.cases, loaded.environments):
        if render.marker(result) in known:
            console.print(f"Known: {render.title(result)}")
        else:
            fresh.append(result)
    commits = _commits(loaded, fresh, clones, options, console)
    written = {}
    for result in fresh:
        page = site.case_page(address, result.case.name) if address else ""
        main = _main(result.environment, clones)
        path = options.folder / f"{result.name.replace(' ', '-')}.md"
        written[path] = render.issue(result, IssueFacts(main=main, commits=commits, page=page))
        console.print(f"{path}: {render.title(result)}")
    files.write_all(written)
    console.print(f"{plural(len(written), 'issue')} written.")
    return ExitCode.AS_EXPECTED


def _commits(
    loaded: Project,
    results: Iterable[UnexpectedResult],
    clones: Sequence[Clone],
    options: IssuesOptions,
    console: Console,
) -> dict[ChangeKey, PinnedCommit]:
    """Return what is known of the changes, searched where it is not.

    It is not kept: `main` is another commit tomorrow. Raises RunnerError without a sandbox that is
    asked for, and Interrupted; what was tried is stored.
    """
    known = known_commits(loaded.paths)
    cells = [cell for result in results for cell in result.cells]
    changes = [cell.inquiry for cell in cells if cell.inquiry is not None]
    due = [change for change in changes if not is_pinned(known, pinning.key_of(change))]
    if not (due and clones):
        return known
    console.print(f"{plural(len(changes), 'change')}, {len(due)} to search.")
    sandbox = cli.decide_sandbox(options.sandbox, cli.line_printer(console, "dim"))
    search = pinning.Pinning(
        home=Home(paths=loaded.paths, matrix=loaded.matrix, locks=loaded.locks),
        clones=clones,
        terms=Terms(limits=loaded.matrix.limits, device=Device.CPU, sandbox=sandbox),
        keep=lambda row: known.update({row.key: row}),
        tried=trial_printer(console),
    )
    try:
        search.pin(due)
    except RunnerError as error:
        cli.line_printer(console, "yellow")(str(error))
        for key in map(pinning.key_of, due):
            nothing = PinnedCommit(*key, package="", reason=error.faults[0].what)
            known.setdefault(key, nothing)
    return known


def _main(environment: Environment, clones: Sequence[Clone]) -> MainCommit:
    """Return what `main` was, with its day and its repository where a clone tells them."""
    version = environment.version(TRANSFORMERS)
    declared = version.partition("+")[0]
    commit = commit_of(version)
    for clone in clones:
        repository = clone.repository
        if clone.sources.package == TRANSFORMERS and (sha := repository.resolve(commit)):
            told = repository.commit(sha)
            main = MainCommit(version=declared, commit=sha, date=told.date[:10])
            slug = repository_of(repository.folder)
            return dataclasses.replace(main, address=f"https://github.com/{slug}") if slug else main
    return MainCommit(version=declared, commit=commit)
