"""Render the answer of `bisect --commits`: text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from repromatrix.runner import markdown
from repromatrix.runner.bisect.commit_search import Heard
from repromatrix.runner.bisect.commit_trials import CommitTrial
from repromatrix.runner.bisect.commits import CommitAnswer, CommitOutcome, Doubt, End, Searched
from repromatrix.runner.bisect.git_lines import CommitLine
from repromatrix.runner.bisect.repository import SHORT, Commit
from repromatrix.runner.bisect.search import Answer, Edge, halvings
from repromatrix.runner.text import plural, shorten

_ONCE_MORE = "run once more"
ANSWERS = {Answer.YES: "bad", Answer.NO: "good", Answer.UNKNOWN: "not judged"}


def sentence(answer: CommitAnswer) -> str:  # noqa: PLR0911 - a table: one per ending
    """Return the answer in one sentence."""
    what, older, newer = _what(answer), answer.older, answer.newer
    match answer.ending:
        case CommitOutcome.FOUND:
            return f"{what} {_verb(answer)} {named(answer.candidates[0])}"
        case CommitOutcome.CANDIDATES:
            return f"{what} {_undecided(answer)}"
        case CommitOutcome.ENVIRONMENT:
            return _by_environment(answer)
        case CommitOutcome.NEVER:
            return f"{what} does not fail at {older.mark.revision}, nor at {newer.mark.revision}."
        case CommitOutcome.ALWAYS:
            return f"{what} fails at {older.mark.revision} and at {newer.mark.revision}."
        case CommitOutcome.CONTRARY:
            return _contrary(answer)
        case CommitOutcome.MUTE if answer.doubt is Doubt.CONTRADICTION:
            return f"{what} is undecided: {_contradictions(answer)}, and no commit beyond decides."
        case CommitOutcome.MUTE:
            return f"{what} is undecided: an end and its neighbours could not be judged."


def _undecided(answer: CommitAnswer) -> str:
    """Say which commits are left, and why it is not one."""
    before, after = sides(answer)
    verb, left = _verb(answer), _left(answer)
    match answer.doubt:
        case Doubt.NONE:
            listed = _listed(answer.candidates)
            commits = plural(len(answer.candidates), "commit")
            return f"{verb} one of {commits}; the others could not be judged: {listed}"
        case Doubt.NEWER_END:
            return f"is undecided: the newer end could not be judged: if it is {after}, {left}"
        case Doubt.OLDER_END:
            return f"is undecided: the older end could not be judged: if it is {before}, {left}"
        case Doubt.ENVIRONMENTS:
            newer = answer.first_new.short if answer.first_new else after
            return (
                f"{verb} {_listed(answer.candidates)} or by the environment: the last {before} one"
                f" was judged with the packages of {_environment(answer, answer.last_old)}, with"
                f" which {newer} could not be judged"
            )
        case Doubt.CONTRADICTION:
            return f"is undecided: {_contradictions(answer)}; {left}"
        case Doubt.PARENT:
            return (
                f"is undecided: {_listed(answer.candidates)} is joined to the last {before} commit"
                f" by a merge, and its own parent is not {before}"
            )


def _left(answer: CommitAnswer) -> str:
    """Name the candidates, those that were run and those that were not."""
    if len(answer.candidates) == 1:
        return f"it {_verb(answer)} {_listed(answer.candidates)}"
    ran = _listed(commit for commit in answer.candidates if commit not in answer.not_asked)
    others = _listed(answer.not_asked)
    parts = (f"run {ran}" if ran else "", f"not run {others}" if others else "")
    commits = plural(len(answer.candidates), "commit")
    return f"it {_verb(answer)} one of {commits}: {'; '.join(filter(None, parts))}"


def _listed(commits: Iterable[Commit]) -> str:
    return ", ".join(commit.short for commit in commits)


def _environment(answer: CommitAnswer, commit: Commit | None) -> str:
    return answer.environments(commit)[0] if commit else answer.older.environment


def _contradictions(answer: CommitAnswer) -> str:
    return ", ".join(
        f"{first.commit[:SHORT]} is {ANSWERS[first.answer]} and, {_ONCE_MORE},"
        f" {ANSWERS[second.answer]}"
        for first, second in answer.contradictions
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
        f" The sources of {answer.older.mark.revision} are {after} with the packages of"
        f" {answer.newer.environment} and {before} with those of {answer.older.environment}."
        f" Find the package: `{command}`"
    )


def _between_environments(answer: CommitAnswer, commit: Commit) -> str:
    """Say that one commit is good in one environment and bad in the other."""
    before, after = sides(answer)
    newer, older = answer.environments(commit)[:2]
    return (
        f"{_what(answer)}: no commit of {answer.package} decides, the environment does."
        f" {commit.short} is {after} with the packages of {newer} and {before} with those of"
        f" {older}. Find the package: `{_blame(answer, older, newer)}`"
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
            return "is fixed by"


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


_REPOSITORY = "https://github.com/huggingface"
_WIDE = 160


def commits_text(answer: CommitAnswer, command: str) -> str:
    """Return a page for a terminal; `command` is what repeats the search."""
    facts = [f"  {name:<13} {fact}" for name, fact in _facts(answer)]
    unjudged = [
        f"  {trial.commit[:SHORT]} {shorten(trial.reason, _WIDE)}" for trial in answer.unjudged
    ]
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


def commits_markdown(answer: CommitAnswer, command: str) -> str:
    """Return the same to be pasted into an issue, with every trial."""
    facts = [f"- {name}: {markdown.plain(fact)}" for name, fact in _facts(answer)]
    head = ["| commit | answer | environment | claims | what it did |", "| --- " * 5 + "|"]
    rows = [_row(answer, trial) for trial in (*answer.trials, *answer.confirmations)]
    summary = f"{len(rows)} trials, each with the commit's own sources in front of an environment"
    details = [f"<details><summary>{summary}</summary>", "", *head, *rows, "", "</details>"]
    first = f"**{markdown.sentence(sentence(answer))}**"
    return "\n".join([first, "", *facts, "", *details, "", f"Repeat it: `{command}`", ""])


def commits_json(answer: CommitAnswer) -> dict[str, Any]:
    """Return everything as values that JSON has."""
    return {
        "ending": answer.ending,
        "exit_code": int(answer.code),
        "case": answer.cell.case,
        "workaround": answer.cell.workaround,
        "precision": answer.cell.precision,
        "device": answer.cell.device,
        "searched_for": sought(answer.edge),
        "package": answer.package,
        "older": _end(answer.older),
        "newer": _end(answer.newer),
        "line": _searched(answer.searched),
        "commit": _commit(answer.culprit),
        "candidates": [_commit(one) for one in answer.candidates],
        "not_asked": [one.sha for one in answer.not_asked],
        "doubt": answer.doubt,
        "last_old": _commit(answer.last_old),
        "first_new": _commit(answer.first_new),
        "twin": answer.twin
        and {**(_commit(answer.twin.commit) or {}), "line": answer.twin.line, "by": answer.twin.by},
        "runs": answer.ran,
        "known": answer.known,
        "trials": [_trial(one) for one in answer.trials],
        "confirmations": [_trial(one) for one in answer.confirmations],
        "uncommitted_changes": answer.is_dirty,
    }


def heard(event: Heard) -> str:
    """Return a line about what happens during a search."""
    match event:
        case CommitLine():
            width = len(event.commits) - 1
            trials = plural(halvings(width), "more trial")
            return f"{event.name}: {plural(width, 'commit')}, at most {trials}"
        case CommitTrial():
            known = ", known" if event.known else ""
            result = f"{ANSWERS[event.answer]}{f', {_ONCE_MORE}' if event.again else ''}"
            return f"{event.commit[:SHORT]} {result}{known}: {shorten(event.reason, _WIDE)}"


def _facts(answer: CommitAnswer) -> Iterator[tuple[str, str]]:
    """Yield the facts behind the answer, the most useful ones first."""
    culprit = answer.culprit
    if culprit is not None and culprit.pull_request is not None:
        yield "pull request", f"{_REPOSITORY}/{answer.package}/pull/{culprit.pull_request}"
    if answer.twin is not None:
        yield (
            "same change",
            f"{named(answer.twin.commit)} ({answer.twin.line}, {answer.twin.by})",
        )
    yield from _sides(answer)
    yield from _where(answer)
    yield "older end", _release(answer.older, answer.package)
    yield "newer end", _release(answer.newer, answer.package)
    yield "trials", _trials(answer)
    if answer.is_dirty:
        yield "left out", "changes in the clone that are not committed"


def _sides(answer: CommitAnswer) -> Iterator[tuple[str, str]]:
    """Yield the last commit like the older end and the first like the newer, and where they ran."""
    before, after = sides(answer)
    if answer.last_old is not None:
        yield f"last {before}", named(answer.last_old)
    if answer.first_new is not None and answer.culprit is None:
        yield f"first {after}", named(answer.first_new)
    if answer.apart and answer.last_old and answer.first_new:
        sides_ = (
            f"{side.short} with the packages of {' and of '.join(answer.environments(side))}"
            for side in (answer.last_old, answer.first_new)
        )
        yield "judged in", ", ".join(sides_)


def _trials(answer: CommitAnswer) -> str:
    trials = f"{len(answer.trials)}, {answer.known} of them known already"
    if not answer.confirmations:
        return trials
    known = " before" if all(trial.known for trial in answer.confirmations) else ""
    return f"{trials}, and both sides once more{known}"


def _where(answer: CommitAnswer) -> Iterator[tuple[str, str]]:
    searched = answer.searched
    if searched is None:
        return
    span = f"{searched.first.short} to {searched.last.short}"
    yield "searched", f"{searched.name}, {searched.count} commits by first parents, {span}"
    if searched.edge is not answer.edge:
        lacks = f"that {answer.newer.mark.revision} lacks"
        yield "reversed", f"it is a change on {searched.name} {lacks}"


def _release(end: End, package: str) -> str:
    mark = end.mark
    claims = f"claims {package} {mark.claims}" if mark.claims else "claims no version"
    tag = mark.revision if mark.agrees else f"{mark.revision} (no tag of its own name claims it)"
    return f"{tag} at {mark.commit[:SHORT]}, {claims}; packages of {end.environment}"


def _row(answer: CommitAnswer, trial: CommitTrial) -> str:
    address = f"{_REPOSITORY}/{answer.package}/commit/{trial.commit}"
    reason = markdown.plain(shorten(trial.reason, _WIDE))
    result = f"{ANSWERS[trial.answer]}{f', {_ONCE_MORE}' if trial.again else ''}"
    name = f"[`{trial.commit[:SHORT]}`]({address})"
    version = markdown.plain(trial.version)
    return f"| {name} | {result} | {trial.environment} | {version} | {reason} |"


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
        "found": sought(searched.edge),
    }


def _commit(commit: Commit | None) -> dict[str, Any] | None:
    if commit is None:
        return None
    return {
        "commit": commit.sha,
        "date": commit.date,
        "subject": commit.subject,
        "pull_request": commit.pull_request,
    }


def _trial(trial: CommitTrial) -> dict[str, Any]:
    return {
        "commit": trial.commit,
        "answer": trial.answer,
        "environment": trial.environment,
        "version": trial.version,
        "file": trial.file,
        "known": trial.known,
        "reason": trial.reason,
    }
