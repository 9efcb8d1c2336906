"""The same change on another line: a cherry-pick, told by what it says or by what it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.history.commit import Commit
    from runner.history.repository import Repository

_PICTURE = ("--no-color", "--no-ext-diff", "--no-textconv", "--full-index", "--binary")


@dataclass(frozen=True, kw_only=True, slots=True)
class Twin:
    """The same change as a commit of another line."""

    commit: Commit
    line: str
    by: str
    """How it is known."""


def twin(repository: Repository, commit: Commit, since: str, until: str, line: str) -> Twin | None:
    """Return the twin of a commit among those that one end has and another has not.

    What takes the commit back, or is taken back by it, is its opposite, also where both subjects
    end with one number.
    """
    between = repository.commits(since, until)
    others = [one for one in between if one.sha != commit.sha and not _opposite(one, commit)]
    for by, found in (
        ("cherry picked from commit", _said(commit, others)),
        ("the same pull request", _numbered(commit, others)),
        ("the same patch", _alike(repository, commit, since, until)),
    ):
        if found is not None:
            return Twin(commit=found, line=line, by=by)
    return None


def _opposite(one: Commit, other: Commit) -> bool:
    return one.reverts(other) or other.reverts(one)


def _said(commit: Commit, others: Iterable[Commit]) -> Commit | None:
    return next((one for one in others if _names(one, commit) or _names(commit, one)), None)


def _names(one: Commit, other: Commit) -> bool:
    return any(other.sha.startswith(sha) for sha in one.picked_from)


def _numbered(commit: Commit, others: Iterable[Commit]) -> Commit | None:
    if commit.pull_request is None:
        return None
    return next((one for one in others if one.pull_request == commit.pull_request), None)


def _alike(repository: Repository, commit: Commit, since: str, until: str) -> Commit | None:
    """Return the commit that changes the same files in the same way, wherever in them that is."""
    changed = repository.ask("diff-tree", "-r", "--name-only", "--no-commit-id", "-z", commit.sha)
    paths = [path for path in (changed or "").split("\x00") if path]
    own = _patches(repository, ["show", "--format=commit %H", *_PICTURE, commit.sha])
    if not (paths and own):
        return None
    history = ["log", "-p", "--format=commit %H", "--full-diff", "--no-merges", *_PICTURE]
    theirs = _patches(repository, [*history, until, f"^{since}", "--", *map(_from_the_top, paths)])
    patch = next(iter(own))
    found = theirs.get(patch)
    return repository.commit(found) if found and found != commit.sha else None


def _from_the_top(path: str) -> str:
    """Return a path as git takes it in any folder of a clone, whatever signs it holds."""
    return f":(top,literal){path}"


def _patches(repository: Repository, command: list[str]) -> dict[str, str]:
    """Return commits by what identifies their patch."""
    text = repository.ask(*command)
    listed = repository.ask("patch-id", "--stable", given=text) if text else ""
    return dict(line.split(" ", 1) for line in (listed or "").splitlines())
