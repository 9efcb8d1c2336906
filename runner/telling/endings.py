"""What a search over commits came to, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.commits.answers import Doubt, Ending
from runner.history.commit import SHORT
from runner.searching.oracle import Answer
from runner.searching.transitions import Edge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.commits.answers import CommitAnswer
    from runner.history.commit import Commit

ANSWERS = {Answer.YES: "bad", Answer.NO: "good", Answer.UNKNOWN: "not judged"}


def sentence(answer: CommitAnswer) -> str:  # noqa: PLR0911 - a table: one per ending
    """Return the answer in one sentence."""
    what, older, newer = _what(answer), answer.older, answer.newer
    match answer.ending:
        case Ending.FOUND:
            return f"{what} {_verb(answer)} {named(answer.candidates[0])}"
        case Ending.CANDIDATES:
            return f"{what} {_undecided(answer)}"
        case Ending.ENVIRONMENT:
            return _by_environment(answer)
        case Ending.NEVER:
            return f"{what} does not fail at {older.mark.revision}, nor at {newer.mark.revision}."
        case Ending.ALWAYS:
            return f"{what} fails at {older.mark.revision} and at {newer.mark.revision}."
        case Ending.CONTRARY:
            return _contrary(answer)
        case Ending.MUTE if answer.doubt is Doubt.CONTRADICTION:
            return f"{what} is undecided: {_contradictions(answer)}, and nothing stands beyond it."
        case Ending.MUTE:
            return f"{what} is undecided: an end and its neighbours could not be judged."


def _undecided(answer: CommitAnswer) -> str:
    """Say which commits are left, and why it is not one."""
    before, after = sides(answer)
    verb, left = _verb(answer), _left(answer)
    match answer.doubt:
        case Doubt.NONE:
            listed = _listed(answer.candidates)
            count = len(answer.candidates)
            return f"{verb} one of {count} commits; the others could not be judged: {listed}"
        case Doubt.NEWER_END:
            return f"is undecided: the newer end could not be judged: if it is {after}, {left}"
        case Doubt.OLDER_END:
            return f"is undecided: the older end could not be judged: if it is {before}, {left}"
        case Doubt.ENVIRONMENTS:
            return (
                f"{verb} {_listed(answer.candidates)} or by the environment: what is {before} was"
                f" judged with the packages of {_environment(answer, answer.last_old)}, with which"
                f" {answer.first_new.short if answer.first_new else after} could not be judged"
            )
        case Doubt.CONTRADICTION:
            return f"is undecided: {_contradictions(answer)}; {left}"
        case Doubt.PARENT:
            return (
                f"is undecided: {_listed(answer.candidates)} follows what is {before} by a merge"
                f" alone, and its own parent is not {before}"
            )


def _left(answer: CommitAnswer) -> str:
    """Name the candidates, what was asked and what was not apart."""
    silent = set(answer.not_asked)
    asked = [one for one in answer.candidates if one not in silent]
    if len(answer.candidates) == 1:
        return f"it {_verb(answer)} {_listed(answer.candidates)}"
    told = [f"asked {_listed(asked)}"] if asked else []
    told += [f"not asked {_listed(answer.not_asked)}"] if silent else []
    return f"it {_verb(answer)} one of {len(answer.candidates)} commits: {'; '.join(told)}"


def _listed(commits: Iterable[Commit]) -> str:
    return ", ".join(one.short for one in commits)


def _environment(answer: CommitAnswer, commit: Commit | None) -> str:
    return answer.environments(commit)[0] if commit else answer.older.environment


def _contradictions(answer: CommitAnswer) -> str:
    return ", ".join(
        f"{one.commit[:SHORT]} is {ANSWERS[one.answer]} and, run once more, {ANSWERS[other.answer]}"
        for one, other in answer.contradictions
    )


def sides(answer: CommitAnswer) -> tuple[str, str]:
    """Return what the older side of the line that was searched is called, and the newer."""
    before, after = (answer.searched.edge if answer.searched else answer.edge).sides
    return ANSWERS[before], ANSWERS[after]


def _by_environment(answer: CommitAnswer) -> str:
    if answer.first_new is not None and answer.apart:
        return _between_environments(answer, answer.first_new)
    before, after = (ANSWERS[one] for one in answer.edge.sides)
    command = _blame(answer, answer.older.environment, answer.newer.environment)
    return (
        f"{_what(answer)}: no commit of {answer.package} decides, the environment does."
        f" Sources of {answer.older.mark.revision}'s side are {after} with the packages of"
        f" {answer.newer.environment} and {before} with those of {answer.older.environment}."
        f" Which package it is: `{command}`"
    )


def _between_environments(answer: CommitAnswer, commit: Commit) -> str:
    """Say that one commit answers as both sides do, each in its own environment."""
    before, after = sides(answer)
    newer, older = answer.environments(commit)[:2]
    return (
        f"{_what(answer)}: no commit of {answer.package} decides, the environment does."
        f" {commit.short} is {after} with the packages of {newer} and {before} with those of"
        f" {older}. Which package it is: `{_blame(answer, older, newer)}`"
    )


def _blame(answer: CommitAnswer, older: str, newer: str) -> str:
    cell, edge = answer.cell, answer.searched.edge if answer.searched else answer.edge
    good, bad = (older, newer) if edge is Edge.RISE else (newer, older)
    variant = f" --workaround {cell.workaround}" if cell.workaround else ""
    what = f"{cell.case} --precision {cell.precision}{variant}"
    return f"nox -s blame -- {what} --good {good} --bad {bad}"


def _contrary(answer: CommitAnswer) -> str:
    before, after = (ANSWERS[one] for one in answer.edge.sides)
    other = "without --fix" if answer.edge is Edge.FALL else "with --fix"
    return (
        f"{_what(answer)} is {after} at {answer.older.mark.revision} and {before} at"
        f" {answer.newer.mark.revision}: search {other}."
    )


def _what(answer: CommitAnswer) -> str:
    cell = answer.cell
    variant = f" with {cell.workaround}" if cell.workaround else ""
    return f"{cell.case}{variant} in {cell.precision}"


def _verb(answer: CommitAnswer) -> str:
    edge = answer.searched.edge if answer.searched else answer.edge
    match edge:
        case Edge.RISE:
            return "is broken by"
        case Edge.FALL:
            return "is healed by"


def sought(edge: Edge) -> str:
    """Return what an edge is called."""
    match edge:
        case Edge.RISE:
            return "break"
        case Edge.FALL:
            return "fix"


def named(commit: Commit) -> str:
    """Return a commit with its day and its subject."""
    return f"{commit.short} of {commit.date[:10]}: {commit.subject}"
