"""`bisect --commits`: from the boundary of two releases to a commit of a clone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.runner import project
from repromatrix.runner.bisect import git_lines
from repromatrix.runner.bisect import render_commits as telling
from repromatrix.runner.bisect.commit_search import Heard, Inquiry, search
from repromatrix.runner.bisect.commit_trials import TrialRequest, TrialSide
from repromatrix.runner.bisect.commits import CommitAnswer
from repromatrix.runner.bisect.releases import Finding
from repromatrix.runner.bisect.render_releases import Page, as_json
from repromatrix.runner.bisect.repository import find_sources, open_repository
from repromatrix.runner.cli.stdout import say
from repromatrix.runner.environments import building
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.errors import ExitCode, OldFault, refuse
from repromatrix.runner.execution.events import run_name
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console

OPTION = "--commits"


@dataclass(frozen=True, kw_only=True, slots=True)
class Clone:
    """Where the commits are, and the revisions that take the place of the releases' tags."""

    repo: Path
    good: str = ""
    bad: str = ""
    rerun: bool = False
    """Whether commits that were tried before are tried again."""
    sandbox: bool = False


def chosen(
    repo: Path | None, good: str, bad: str, *, commits: bool, rerun: bool = False
) -> Clone | None:
    """Return what was asked of commits, or None where nothing was; raises RunnerError."""
    if commits and repo is None:
        remedy = "Say `--repo PATH`, a clone of transformers, accelerate or peft."
        raise refuse(OldFault(where=OPTION, found="no --repo", allowed="a clone", fix=remedy))
    if not commits:
        named = {"--repo": repo, "--good": good, "--bad": bad}
        stray = [name for name, value in named.items() if value]
        if stray:
            raise refuse(OldFault(where=stray[0], found="no --commits", allowed="both, or neither"))
    if repo is None:
        return None
    return Clone(repo=repo.expanduser().resolve(), good=good, bad=bad, rerun=rerun)


def looked_at(clone: Clone | None) -> None:
    """Look at a clone before anything is run; raises RunnerError where it does not serve."""
    if clone is None:
        return
    repository = open_repository(clone.repo)
    sources = find_sources(repository, repository.tip())
    for option, revision in (("--good", clone.good), ("--bad", clone.bad)):
        if revision:
            git_lines.named(repository, sources, revision, option)


def search_commits(
    loaded: Project, page: Page, clone: Clone, form: str, console: Console
) -> ExitCode:
    """Search the commits of the one boundary that was found, print it; return its exit code.

    Raises RunnerError where there is no boundary.
    """
    finding = _one(page.findings)
    if finding.found is None:
        if form == "json":
            say(as_json(page))
        raise _without_boundary()
    inquiry = _inquiry(loaded, finding, clone)

    def hear(event: Heard) -> None:
        console.print(f"  {telling.heard(event)}", markup=False)

    answer = search(loaded.places, inquiry, clone.repo, hear)
    say(_told(answer, form, f"nox -s bisect -- {shlex.join(page.command)}"))
    return answer.code


def _without_boundary() -> Exception:
    remedy = (
        "--release names other releases, --all asks every one of them, and --any-failure takes any"
        " failure for bad."
    )
    fault = OldFault(
        where=OPTION,
        found="no boundary of two releases, hence no commits to search",
        allowed="a case that one release passes and another fails",
        fix=remedy,
    )
    return refuse(fault, ExitCode.UNDECIDED)


def _one(findings: Sequence[Finding]) -> Finding:
    own = [one for one in findings if one.search.runs]
    if len(own) == 1:
        return own[0]
    found = ", ".join(f"{one.search.case.name} {one.search.wanted.precision}" for one in own)
    allowed, remedy = "one case in one precision", "Name it with --precision."
    raise refuse(OldFault(where=OPTION, found=found or "nothing", allowed=allowed, fix=remedy))


def _inquiry(loaded: Project, finding: Finding, clone: Clone) -> Inquiry:
    assert finding.found is not None  # noqa: S101 - the caller has looked
    own, wanted = finding.search, finding.search.wanted
    older, newer = (own.names[place] for place in (finding.found.before, finding.found.at))
    return Inquiry(
        asked=TrialRequest(
            case=own.case,
            workaround=wanted.workaround,
            precision=wanted.precision,
            device=wanted.device,
            any_failure=wanted.any_failure,
            signature=own.signature,
        ),
        edge=wanted.edge,
        older=_side(loaded, older),
        newer=_side(loaded, newer),
        limits=loaded.matrix.limits,
        run=run_name(),
        good=clone.good,
        bad=clone.bad,
        rerun=clone.rerun,
        sandbox=clone.sandbox,
    )


def _side(loaded: Project, name: str) -> TrialSide:
    try:
        built = building.build(loaded.places, project.recipe(loaded, name))
    except UnbuildableError as error:
        fault = OldFault(where=name, found=str(error), allowed="an environment that can be built")
        raise refuse(fault, ExitCode.UNBUILDABLE) from error
    return TrialSide(environment=loaded.environments[name], built=built)


def _told(answer: CommitAnswer, form: str, command: str) -> str:
    match form:
        case "markdown":
            return telling.commits_markdown(answer, command)
        case "json":
            return json.dumps(telling.commits_json(answer), indent=1, ensure_ascii=False) + "\n"
        case _:
            return telling.commits_text(answer, command)


def portable(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command to paste: the clone of whoever reads it is somewhere else."""
    words = list(command)
    for number, word in enumerate(words):
        if word.startswith("--repo="):
            words[number] = f"--repo={_named(word.removeprefix('--repo='))}"
        elif number and words[number - 1] == "--repo":
            words[number] = _named(word)
    return tuple(words)


def _named(clone: str) -> str:
    """Return what the folder of a clone is called, also where it was named by a dot."""
    return Path(clone).expanduser().resolve().name
