"""What a search over commits came to, as text, as Markdown to paste, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.attempt.plan import Trial
from runner.commits.answers import Ending
from runner.history.lines import Line
from runner.searching.oracle import Answer
from runner.searching.transitions import Edge, halvings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.commits.answers import CommitAnswer, End, Searched
    from runner.commits.bisecting import Heard
    from runner.history.commit import Commit

_REPOSITORY = "https://github.com/huggingface"
_TOLD = 160


def text(answer: CommitAnswer, command: str) -> str:
    """Return a page for a terminal; `command` is what repeats the search."""
    facts = [f"  {name:<13} {fact}" for name, fact in _facts(answer)]
    unjudged = [f"  {one.commit[:12]} {_short(one.reason)}" for one in answer.unjudged]
    return "\n".join(
        [
            sentence(answer),
            "",
            *facts,
            *(["", "Could not be judged:", *unjudged] if unjudged else []),
            "",
            f"Repeat it with `{command}`.",
            "",
        ]
    )


def markdown(answer: CommitAnswer, command: str) -> str:
    """Return the same to be pasted into an issue, with every trial."""
    facts = [f"- {name}: {_escaped(fact)}" for name, fact in _facts(answer)]
    head = ["| commit | answer | environment | claims | what it did |", "| --- " * 5 + "|"]
    rows = [_row(answer, trial) for trial in answer.trials]
    summary = f"{len(rows)} trials, each with the commit's own sources in front of an environment"
    details = [f"<details><summary>{summary}</summary>", "", *head, *rows, "", "</details>"]
    first = f"**{_escaped(sentence(answer))}**"
    return "\n".join([first, "", *facts, "", *details, "", f"Repeat it: `{command}`", ""])


def as_json(answer: CommitAnswer) -> dict[str, Any]:
    """Return everything as values that JSON has."""
    return {
        "ending": answer.ending,
        "exit_code": int(answer.code),
        "case": answer.cell.case,
        "workaround": answer.cell.workaround,
        "precision": answer.cell.precision,
        "device": answer.cell.device,
        "searched_for": _sought(answer.edge),
        "package": answer.package,
        "older": _end(answer.older),
        "newer": _end(answer.newer),
        "line": _searched(answer.searched),
        "commit": _commit(answer.culprit),
        "candidates": [_commit(one) for one in answer.candidates],
        "last_old": _commit(answer.last_old),
        "first_new": _commit(answer.first_new),
        "twin": answer.twin
        and {**_known(answer.twin.commit), "line": answer.twin.line, "by": answer.twin.by},
        "runs": answer.ran,
        "known": answer.known,
        "trials": [_trial(one) for one in answer.trials],
        "uncommitted_changes": answer.is_dirty,
    }


def heard(event: Heard) -> str:
    """Return what is said while a search goes on."""
    match event:
        case Line():
            width = len(event.commits) - 1
            return f"{event.name}: {width} commits, at most {halvings(width)} more trials"
        case Trial():
            known = ", known" if event.known else ""
            said = _ANSWERS[event.answer]
            return f"{event.commit[:12]} {said}{known}: {_short(event.reason)}"


_ANSWERS = {Answer.YES: "bad", Answer.NO: "good", Answer.UNKNOWN: "not judged"}


def sentence(answer: CommitAnswer) -> str:  # noqa: PLR0911 - a table: one per ending
    """Return the answer in one sentence."""
    what, older, newer = _what(answer), answer.older, answer.newer
    match answer.ending:
        case Ending.FOUND:
            return f"{what} {_verb(answer)} {_named(answer.candidates[0])}"
        case Ending.CANDIDATES:
            count = len(answer.candidates)
            return (
                f"{what} {_verb(answer)} one of {count} commits; the others could not be judged:"
                f" {', '.join(one.short for one in answer.candidates)}"
            )
        case Ending.ENVIRONMENT:
            return _by_environment(answer)
        case Ending.NEVER:
            return f"{what} does not fail at {older.mark.revision}, nor at {newer.mark.revision}."
        case Ending.ALWAYS:
            return f"{what} fails at {older.mark.revision} and at {newer.mark.revision}."
        case Ending.CONTRARY:
            return _contrary(answer)
        case Ending.MUTE:
            return f"{what} is undecided: an end and its neighbours could not be judged."


def _by_environment(answer: CommitAnswer) -> str:
    before, after = (_ANSWERS[one] for one in answer.edge.sides)
    return (
        f"{_what(answer)}: no commit of {answer.package} decides, the environment does."
        f" Sources of {answer.older.mark.revision}'s side are {after} with the packages of"
        f" {answer.newer.environment} and {before} with those of {answer.older.environment}."
        f" Which package it is: `{_blame(answer)}`"
    )


def _blame(answer: CommitAnswer) -> str:
    cell, ends = answer.cell, (answer.older.environment, answer.newer.environment)
    good, bad = ends if answer.edge is Edge.RISE else ends[::-1]
    variant = f" --workaround {cell.workaround}" if cell.workaround else ""
    what = f"{cell.case} --precision {cell.precision}{variant}"
    return f"nox -s blame -- {what} --good {good} --bad {bad}"


def _contrary(answer: CommitAnswer) -> str:
    before, after = (_ANSWERS[one] for one in answer.edge.sides)
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


def _sought(edge: Edge) -> str:
    match edge:
        case Edge.RISE:
            return "break"
        case Edge.FALL:
            return "fix"


def _named(commit: Commit) -> str:
    return f"{commit.short} of {commit.date[:10]}: {commit.subject}"


def _facts(answer: CommitAnswer) -> Iterator[tuple[str, str]]:
    """Yield what is known beside the answer, most wanted first."""
    culprit = answer.culprit
    if culprit is not None and culprit.pull_request is not None:
        yield "pull request", f"{_REPOSITORY}/{answer.package}/pull/{culprit.pull_request}"
    if answer.twin is not None:
        yield (
            "same change",
            f"{_named(answer.twin.commit)} ({answer.twin.line}, {answer.twin.by})",
        )
    if answer.last_old is not None and answer.first_new is not None:
        before, after = (answer.searched.edge if answer.searched else answer.edge).sides
        yield f"last {_ANSWERS[before]}", _named(answer.last_old)
        if culprit is None:
            yield f"first {_ANSWERS[after]}", _named(answer.first_new)
    yield from _where(answer)
    yield "older end", _release(answer.older, answer.package)
    yield "newer end", _release(answer.newer, answer.package)
    yield "trials", f"{len(answer.trials)}, {answer.known} of them known already"
    if answer.is_dirty:
        yield "not looked at", "changes in the clone that are not committed"


def _where(answer: CommitAnswer) -> Iterator[tuple[str, str]]:
    searched = answer.searched
    if searched is None:
        return
    span = f"{searched.first.short} to {searched.last.short}"
    yield "searched", f"{searched.name}, {searched.count} commits by first parents, {span}"
    if searched.edge is not answer.edge:
        turned = (
            f"{answer.older.mark.revision} differs from the line that it left, by a change on"
            f" {searched.name} that {answer.newer.mark.revision} lacks"
        )
        yield "turned round", turned


def _release(end: End, package: str) -> str:
    mark = end.mark
    claims = f"claims {package} {mark.claims}" if mark.claims else "claims no version"
    tag = mark.revision if mark.agrees else f"{mark.revision} (no tag of its own name claims it)"
    return f"{tag} at {mark.commit[:12]}, {claims}; packages of {end.environment}"


def _row(answer: CommitAnswer, trial: Trial) -> str:
    address = f"{_REPOSITORY}/{answer.package}/commit/{trial.commit}"
    told = _escaped(_short(trial.reason))
    said = _ANSWERS[trial.answer]
    name = f"[`{trial.commit[:12]}`]({address})"
    return f"| {name} | {said} | {trial.environment} | {_escaped(trial.version)} | {told} |"


def _short(reason: str) -> str:
    return reason if len(reason) <= _TOLD else f"{reason[:_TOLD]}…"


def _escaped(told: str) -> str:
    """Return a text that Markdown shows as it is: a subject or a message may hold anything."""
    for sign in "\\`*_[]|":
        told = told.replace(sign, f"\\{sign}")
    return told.replace("&", "&amp;").replace("<", "&lt;").replace("@", "@\u200b")


def _end(end: End) -> dict[str, Any]:
    return {
        "release": end.mark.wanted,
        "revision": end.mark.revision,
        "commit": end.mark.commit,
        "claims": end.mark.claims,
        "environment": end.environment,
    }


def _searched(searched: Searched | None) -> dict[str, Any] | None:
    if searched is None:
        return None
    return {
        "name": searched.name,
        "first": searched.first.sha,
        "last": searched.last.sha,
        "commits": searched.count,
        "found": _sought(searched.edge),
    }


def _commit(commit: Commit | None) -> dict[str, Any] | None:
    return None if commit is None else _known(commit)


def _known(commit: Commit) -> dict[str, Any]:
    return {
        "commit": commit.sha,
        "date": commit.date,
        "subject": commit.subject,
        "pull_request": commit.pull_request,
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "commit": trial.commit,
        "answer": trial.answer,
        "environment": trial.environment,
        "version": trial.version,
        "file": trial.file,
        "known": trial.known,
        "reason": trial.reason,
    }
