"""The search over commits: from the boundary of two environments to a commit."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.attempt.plan import Asked, Plan, Side
from runner.commits.answers import CommitAnswer, End, Searched
from runner.commits.bisecting import TRIAL, Bisector, Heard
from runner.commits.route import Route
from runner.errors import Fault, refuse
from runner.history import lines, tags, worktree
from runner.history.repository import OPTION, open_repository
from runner.history.sources import find_sources, tip
from runner.history.twins import twin
from runner.model.cell import Cell
from runner.searching.transitions import Edge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runner.commits.route import Found
    from runner.history.lines import Routes
    from runner.history.repository import Repository
    from runner.history.sources import Sources
    from runner.history.tags import Mark
    from runner.history.twins import Twin
    from runner.model.matrix import Limits
    from runner.places import Places


@dataclass(frozen=True, kw_only=True, slots=True)
class Inquiry:
    """A boundary of two environments, both built, and what is asked of the commits between them.

    `good` and `bad` are revisions that take the place of the releases' tags.
    """

    asked: Asked
    edge: Edge
    older: Side
    newer: Side
    limits: Limits
    run: str
    good: str = ""
    bad: str = ""
    rerun: bool = False
    sandbox: bool = False


def search(
    places: Places,
    inquiry: Inquiry,
    repo: Path,
    hear: Callable[[Heard], None] = lambda _: None,
    command: Sequence[str] = TRIAL,
) -> CommitAnswer:
    """Return the commit between two environments that broke a case, or healed it.

    `hear` is told of every line before it is searched, and of every trial. Raises RunnerError for
    a repository that does not serve, and Interrupted; either way nothing stays of the checkouts,
    and what was run is stored.
    """
    repository = open_repository(repo)
    sources = find_sources(repository, tip(repository))
    older, newer = _ends(repository, sources, inquiry)
    routes = lines.between(repository, older, newer)
    plan = Plan(
        places=places,
        asked=inquiry.asked,
        sides=(inquiry.newer, inquiry.older),
        sources=sources,
        limits=inquiry.limits,
        run=inquiry.run,
        rerun=inquiry.rerun,
        sandbox=inquiry.sandbox,
    )
    with worktree.opened(places.checkouts, repository, sources) as held:
        bisector = Bisector(worktree=held, plan=plan, hear=hear, command=command)
        found = Route(bisector, routes, inquiry.edge, repository).find()
    answer = CommitAnswer(
        ending=found.ending,
        cell=_cell(inquiry),
        edge=inquiry.edge,
        package=sources.package,
        older=End(mark=older, environment=inquiry.older.environment.name),
        newer=End(mark=newer, environment=inquiry.newer.environment.name),
        doubt=found.doubt,
        trials=tuple(bisector.trials),
        confirmations=tuple(bisector.confirmations),
        is_dirty=repository.is_dirty(),
    )
    return _told(answer, found, routes, repository)


def _cell(inquiry: Inquiry) -> Cell:
    asked, environment = inquiry.asked, inquiry.newer.environment.name
    return Cell(asked.case.name, asked.workaround, environment, asked.precision, asked.device)


def _ends(repository: Repository, sources: Sources, inquiry: Inquiry) -> tuple[Mark, Mark]:
    """Return the older end and the newer one; a fix is searched from bad to good."""
    good, bad = ("--good", inquiry.good), ("--bad", inquiry.bad)
    options = (good, bad) if inquiry.edge is Edge.RISE else (bad, good)
    sides = (inquiry.older, inquiry.newer)
    if not (inquiry.good and inquiry.bad):
        _refuse_unmoved(sources.package, inquiry)
    older, newer = (
        tags.named(repository, sources, revision, option)
        if revision
        else tags.released(repository, sources, side.environment.version(sources.package))
        for (option, revision), side in zip(options, sides, strict=True)
    )
    return older, newer


def _refuse_unmoved(package: str, inquiry: Inquiry) -> None:
    """Refuse a boundary across which the package of the clone is the same."""
    names = [side.environment.name for side in (inquiry.older, inquiry.newer)]
    older, newer = (side.environment.version(package) for side in (inquiry.older, inquiry.newer))
    if older == newer or not (older and newer):
        found = (
            f"{package} {older or 'missing'} in {names[0]} and {newer or 'missing'} in {names[1]}"
        )
        allowed = "the package that they differ in"
        remedy = "`nox -s blame` says which one it is; --good and --bad name revisions."
        raise refuse(Fault(where=OPTION, found=found, allowed=allowed, remedy=remedy))


def _told(
    answer: CommitAnswer, found: Found, routes: Routes, repository: Repository
) -> CommitAnswer:
    """Complete an answer with what the commits say of themselves, and with the twin."""
    if found.line is None or found.span is None:
        return answer
    line, span = found.line, found.span
    searched = Searched(
        name=line.name,
        first=repository.commit(line.first),
        last=repository.commit(line.last),
        count=len(line.commits) - 1,
        edge=found.edge,
    )
    candidates = tuple(map(repository.commit, span.candidates))
    return dataclasses.replace(
        answer,
        searched=searched,
        last_old=repository.commit(span.last_old) if span.last_old else None,
        first_new=repository.commit(span.first_new) if span.first_new else None,
        candidates=candidates,
        twin=_twin(routes, repository, candidates[0].sha) if len(candidates) == 1 else None,
    )


def _twin(routes: Routes, repository: Repository, culprit: str) -> Twin | None:
    """Look for the same change on the other lines."""
    commit = repository.commit(culprit)
    start = routes.trunk.first
    places = [(routes.main, start)] if routes.main else []
    places += [(one.last, one.first) for one in (routes.older, routes.newer) if one]
    names = {routes.main: lines.short(routes.main)}
    names |= {one.last: one.name for one in (routes.older, routes.newer) if one}
    for until, since in places:
        if repository.ask("merge-base", "--is-ancestor", culprit, until) is None:
            found = twin(repository, commit, since, until, names[until])
            if found is not None:
                return found
    return None
