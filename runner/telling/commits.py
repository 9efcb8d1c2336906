"""What a search over commits came to, as text, as Markdown to paste, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.attempt.plan import Trial
from runner.history.lines import Line
from runner.searching.transitions import halvings
from runner.telling import escaping
from runner.telling.endings import ANSWERS, named, sentence, sides, sought

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.commits.answers import CommitAnswer, End, Searched
    from runner.commits.bisecting import Heard
    from runner.history.commit import Commit

_REPOSITORY = "https://github.com/huggingface"
_TOLD = 160
_ONCE_MORE = ", run once more"


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
    facts = [f"- {name}: {escaping.plain(fact)}" for name, fact in _facts(answer)]
    head = ["| commit | answer | environment | claims | what it did |", "| --- " * 5 + "|"]
    rows = [_row(answer, trial) for trial in (*answer.trials, *answer.confirmations)]
    summary = f"{len(rows)} trials, each with the commit's own sources in front of an environment"
    details = [f"<details><summary>{summary}</summary>", "", *head, *rows, "", "</details>"]
    first = f"**{escaping.sentence(sentence(answer))}**"
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
        and {**_known(answer.twin.commit), "line": answer.twin.line, "by": answer.twin.by},
        "runs": answer.ran,
        "known": answer.known,
        "trials": [_trial(one) for one in answer.trials],
        "confirmations": [_trial(one) for one in answer.confirmations],
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
            said = f"{ANSWERS[event.answer]}{_ONCE_MORE if event.again else ''}"
            return f"{event.commit[:12]} {said}{known}: {_short(event.reason)}"


def _facts(answer: CommitAnswer) -> Iterator[tuple[str, str]]:
    """Yield what is known beside the answer, most wanted first."""
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
        yield "not looked at", "changes in the clone that are not committed"


def _sides(answer: CommitAnswer) -> Iterator[tuple[str, str]]:
    """Yield what was judged to be of the older kind last and of the newer first, and where."""
    before, after = sides(answer)
    if answer.last_old is not None:
        yield f"last {before}", named(answer.last_old)
    if answer.first_new is not None and answer.culprit is None:
        yield f"first {after}", named(answer.first_new)
    if answer.apart and answer.last_old and answer.first_new:
        told = (
            f"{one.short} with the packages of {' and of '.join(answer.environments(one))}"
            for one in (answer.last_old, answer.first_new)
        )
        yield "judged in", ", ".join(told)


def _trials(answer: CommitAnswer) -> str:
    told = f"{len(answer.trials)}, {answer.known} of them known already"
    if not answer.confirmations:
        return told
    known = " before" if all(one.known for one in answer.confirmations) else ""
    return f"{told}, and both sides once more{known}"


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
    told = escaping.plain(_short(trial.reason))
    said = f"{ANSWERS[trial.answer]}{_ONCE_MORE if trial.again else ''}"
    name = f"[`{trial.commit[:12]}`]({address})"
    return f"| {name} | {said} | {trial.environment} | {escaping.plain(trial.version)} | {told} |"


def _short(reason: str) -> str:
    return reason if len(reason) <= _TOLD else f"{reason[:_TOLD]}…"


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
