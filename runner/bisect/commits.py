"""The result of a search over commits, in words and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from repromatrix.runner.bisect.commit_trials import CommitTrial
from repromatrix.runner.bisect.git_lines import CommitLine, End
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.repository import SHORT, Commit
from repromatrix.runner.bisect.search import Answer, Edge, agreed, halvings
from repromatrix.runner.document import Document, Fact, Line, Listing, Reference, Table
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence.commits import APART, REPOSITORIES, PinnedCommit
from repromatrix.runner.text import join, plural, shorten

_WIDE = 160
_ONCE_MORE = "run once more"
_WORDS = {Answer.YES: "bad", Answer.NO: "good", Answer.UNKNOWN: "not judged"}

Heard = CommitTrial | CommitLine
"""What happens during a search: a line begins to be searched, or a commit was tried."""


class CommitOutcome(StrEnum):
    """How a search over commits ends."""

    FOUND = "found"
    CANDIDATES = "candidates"
    """Only commits are left that could not be judged."""
    ENVIRONMENT = "environment"
    """The same commit answers differently in the two environments: no commit decides."""
    NEVER = "never"
    """No end is bad."""
    ALWAYS = "always"
    """Both ends are bad."""
    CONTRARY = "contrary"
    """The older end answers as the newer one should, and the other way round."""
    MUTE = "mute"
    """Neither an end nor its neighbours could be judged."""

    @property
    def code(self) -> ExitCode:
        """The exit code that says so."""
        match self:
            case CommitOutcome.FOUND:
                return ExitCode.AS_EXPECTED
            case CommitOutcome.NEVER | CommitOutcome.CONTRARY:
                return ExitCode.NOT_REPRODUCED
            case CommitOutcome.ALWAYS:
                return ExitCode.FAILS_ON_BOTH_SIDES
            case CommitOutcome.CANDIDATES | CommitOutcome.ENVIRONMENT | CommitOutcome.MUTE:
                return ExitCode.UNDECIDED


class Doubt(StrEnum):
    """Why a search names no commit although it came to its end."""

    NONE = ""
    OLDER_END = "older-end"
    """The older end could not be judged; all that was tried after it is like the newer end."""
    NEWER_END = "newer-end"
    """The newer end could not be judged; all that was tried before it is like the older end."""
    ENVIRONMENTS = "environments"
    """The two sides were judged in two environments, and the newer not in that of the older."""
    CONTRADICTION = "contradiction"
    """A side answered differently when it was run once more."""
    SILENCE = "silence"
    """So many commits between the two sides could not be judged that the others were not tried."""
    PARENT = "parent"
    """The commit is no child of the last one like the older end, and its own parent is not like
    that end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitAnswer:
    """The commit that made the difference, or what is known instead."""

    ending: CommitOutcome
    question: CaseQuestion
    edge: Edge
    package: str
    older: End
    newer: End
    searched: CommitLine | None = None
    """The line on which the answer lies."""
    is_reversed: bool = False
    """Whether that is the branch of the older end, on which the opposite change was searched."""
    last_old: Commit | None = None
    first_new: Commit | None = None
    candidates: tuple[Commit, ...] = ()
    """Oldest first; one where the commit was found."""
    doubt: Doubt = Doubt.NONE
    trials: tuple[CommitTrial, ...] = ()
    confirmations: tuple[CommitTrial, ...] = ()
    """Both sides of what was found, run once more."""
    is_dirty: bool = False
    """Whether the repository holds changes that are not committed: they were not looked at."""

    @property
    def culprit(self) -> Commit | None:
        """The commit that made the difference, if it was found."""
        return self.candidates[0] if self.ending is CommitOutcome.FOUND else None

    @property
    def known(self) -> int:
        """How many of the trials had been run before."""
        return sum(trial.known for trial in self.trials)

    @property
    def ran(self) -> int:
        """How many trials were run for this answer."""
        return len(self.trials) - self.known

    def environments(self, commit: Commit) -> tuple[str, ...]:
        """Return in whose environments a commit was tried, in their order."""
        return tuple(trial.environment for trial in self.trials if trial.commit == commit.sha)

    @property
    def searched_edge(self) -> Edge:
        """The change that was searched, in the end."""
        return self.edge.other if self.is_reversed else self.edge

    @property
    def words(self) -> tuple[str, str]:
        """What the older side of the line that was searched is called, and the newer."""
        before, after = self.searched_edge.sides
        return _WORDS[before], _WORDS[after]

    @property
    def apart(self) -> bool:
        """Whether the two sides answered in two environments."""
        if self.last_old is None or self.first_new is None:
            return False
        old, new = self.environments(self.last_old)[:1], self.environments(self.first_new)[:1]
        return bool(old and new) and old != new

    @property
    def not_asked(self) -> tuple[Commit, ...]:
        """The candidates that were not tried."""
        tried = {trial.commit for trial in self.trials}
        return tuple(commit for commit in self.candidates if commit.sha not in tried)

    @property
    def unjudged(self) -> tuple[CommitTrial, ...]:
        """The commits that could not be judged, with the reason."""
        return tuple(trial for trial in self.trials if trial.answer is Answer.UNKNOWN)


def sentence(answer: CommitAnswer) -> str:  # noqa: PLR0911 - a table: one per ending
    """Return the answer in one sentence."""
    what, older, newer = _what(answer), answer.older.revision, answer.newer.revision
    match answer.ending:
        case CommitOutcome.FOUND:
            return f"{what} {_verb(answer)} {named(answer.candidates[0])}"
        case CommitOutcome.CANDIDATES:
            return f"{what} {_undecided(answer)}"
        case CommitOutcome.ENVIRONMENT:
            return _by_environment(answer)
        case CommitOutcome.NEVER:
            return f"{what} does not fail at {older}, nor at {newer}."
        case CommitOutcome.ALWAYS:
            return f"{what} fails at {older} and at {newer}."
        case CommitOutcome.CONTRARY:
            before, after = answer.words
            other = "without --fix" if answer.edge is Edge.FALL else "with --fix"
            return f"{what} is {after} at {older} and {before} at {newer}: search {other}."
        case CommitOutcome.MUTE if answer.doubt is Doubt.CONTRADICTION:
            return f"{what} is undecided: {_contradictions(answer)}, and no commit beyond decides."
        case CommitOutcome.MUTE:
            return f"{what} is undecided: an end and its neighbours could not be judged."


def _undecided(answer: CommitAnswer) -> str:  # noqa: PLR0911 - a table: one per doubt
    before, after = answer.words
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
            old, newer = answer.last_old, answer.first_new.short if answer.first_new else after
            judged_in = answer.environments(old)[0] if old else answer.older.environment
            return (
                f"{verb} {_listed(answer.candidates)} or by the environment: the last {before} one"
                f" was judged with the packages of {judged_in}, with"
                f" which {newer} could not be judged"
            )
        case Doubt.CONTRADICTION:
            return f"is undecided: {_contradictions(answer)}; {left}"
        case Doubt.SILENCE:
            first, last = answer.candidates[0], answer.candidates[-1]
            tried = len(answer.candidates) - len(answer.not_asked) - 1
            why = next(trial.reason for trial in reversed(answer.unjudged))
            return (
                f"{verb} one of {plural(len(answer.candidates), 'commit')}, {first.short} to"
                f" {last.short}; {tried} between them were tried and could not be judged ({why})"
            )
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


def _contradictions(answer: CommitAnswer) -> str:
    """Name the commits that answered the opposite when they were run once more."""
    firsts = {trial.commit: trial.answer for trial in reversed(answer.trials)}
    return ", ".join(
        f"{trial.commit[:SHORT]} is {_WORDS[firsts[trial.commit]]} and, {_ONCE_MORE},"
        f" {_WORDS[trial.answer]}"
        for trial in answer.confirmations
        if agreed(firsts, trial.commit, trial.answer) is Answer.UNKNOWN
    )


def _by_environment(answer: CommitAnswer) -> str:
    """Say that the packages beside the sources decide, and how to find the one."""
    before, after = answer.words
    ends = (answer.older.environment, answer.newer.environment)
    good, bad = ends if answer.edge is Edge.RISE else ends[::-1]
    if answer.first_new is not None and answer.apart:
        newer, older = answer.environments(answer.first_new)[:2]
        what = (
            f"{answer.first_new.short} is {after} with the packages of {newer} and {before} with"
            f" those of {older}."
        )
    else:
        sources = f"The sources of {answer.older.revision} and {answer.newer.revision}"
        what = f"{sources} behave alike with the packages of their days."
        if notes := [end.note for end in (answer.older, answer.newer) if end.note]:
            # A release of a branch, or one that is not there yet, may be what differs.
            return (
                f"{_what(answer)} is undecided: {what[:-1]}, and the releases themselves are"
                f" {APART}: {'; '.join(notes)}"
            )
    said = f"{_what(answer)}: no commit of {answer.package} decides, the environment does. {what}"
    if not all(ends):  # a revision is no environment
        return said
    return f"{said} Find the package: `{answer.question.blame(good, bad)}`"


def _what(answer: CommitAnswer) -> str:
    question = answer.question
    variant = f" with {question.workaround}" if question.workaround else ""
    return f"{question.case.name}{variant} in {question.precision}"


def _verb(answer: CommitAnswer) -> str:
    return "is broken by" if answer.searched_edge is Edge.RISE else "is fixed by"


def named(commit: Commit) -> str:
    """Return a commit with its day and its subject."""
    return f"{commit.short} of {commit.date[:10]}: {commit.subject}"


def commits_document(answer: CommitAnswer, command: str) -> Document:
    """Return the answer as a document; `command` is what repeats the search."""
    rows = [_row(answer, trial) for trial in (*answer.trials, *answer.confirmations)]
    summary = f"{len(rows)} trials, each with the commit's own sources in front of an environment"
    columns = ("commit", "answer", "environment", "claims", "what it did")
    unjudged = [
        Fact(trial.commit[:SHORT], shorten(trial.reason, _WIDE)) for trial in answer.unjudged
    ]
    return Document(
        headline=sentence(answer),
        parts=[
            Listing("", [Fact(name, fact) for name, fact in _facts(answer)]),
            Listing("Could not be judged:", unjudged),
            Table(columns, rows, fold=summary),
        ],
        data=_data(answer),
        repeat=command,
    )


def _data(answer: CommitAnswer) -> dict[str, Any]:
    question, searched = answer.question, answer.searched
    return {
        "ending": answer.ending,
        "exit_code": int(answer.ending.code),
        "case": question.case.name,
        "workaround": question.workaround,
        "precision": question.precision,
        "device": question.device,
        "searched_for": answer.edge.word,
        "package": answer.package,
        "older": asdict(answer.older),
        "newer": asdict(answer.newer),
        "line": searched
        and {
            "name": searched.name,
            "first": searched.first,
            "last": searched.last,
            "commits": searched.count,
            "found": answer.searched_edge.word,
        },
        "commit": answer.culprit and _commit(answer.culprit),
        "candidates": list(map(_commit, answer.candidates)),
        "not_asked": [commit.sha for commit in answer.not_asked],
        "doubt": answer.doubt,
        "last_old": answer.last_old and _commit(answer.last_old),
        "first_new": answer.first_new and _commit(answer.first_new),
        "runs": answer.ran,
        "known": answer.known,
        "trials": list(map(_trial, answer.trials)),
        "confirmations": list(map(_trial, answer.confirmations)),
        "uncommitted_changes": answer.is_dirty,
    }


def heard(event: Heard) -> str:
    """Return a line about what happens during a search."""
    match event:
        case CommitLine():
            trials = plural(halvings(event.count), "more trial")
            return f"{event.name}: {plural(event.count, 'commit')}, at most {trials}"
        case CommitTrial():
            known = ", known" if event.known else ""
            reason = shorten(event.reason, _WIDE)
            return f"{event.commit[:SHORT]} {_result(event)}{known}: {reason}"


def _facts(answer: CommitAnswer) -> Iterator[tuple[str, str]]:
    """Yield the facts behind the answer, the most useful ones first."""
    culprit, searched = answer.culprit, answer.searched
    if culprit is not None and culprit.pull_request is not None:
        yield "pull request", f"{REPOSITORIES}/{answer.package}/pull/{culprit.pull_request}"
    yield from _sides(answer)
    if searched is not None:
        span = f"{searched.first[:SHORT]} to {searched.last[:SHORT]}"
        yield "searched", f"{searched.name}, {searched.count} commits by first parents, {span}"
        if answer.is_reversed:
            lacks = f"that {answer.newer.revision} lacks"
            yield "reversed", f"it is a change on {searched.name} {lacks}"
    yield "older end", _release(answer.older, answer.package)
    yield "newer end", _release(answer.newer, answer.package)
    for end in (answer.older, answer.newer):
        if end.note:
            yield "stands in", end.note
    trials = f"{len(answer.trials)}, {answer.known} of them known already"
    if answer.confirmations:
        known = " before" if all(trial.known for trial in answer.confirmations) else ""
        trials += f", and both sides once more{known}"
    yield "trials", trials
    environments = dict.fromkeys(trial.environment for trial in answer.trials)
    if packages := [name for name in environments if name]:
        yield "packages", f"those of {join(packages)}"
    if answer.is_dirty:
        yield "left out", "changes in the clone that are not committed"


def _sides(answer: CommitAnswer) -> Iterator[tuple[str, str]]:
    """Yield the last commit like the older end and the first like the newer, and where they ran."""
    before, after = answer.words
    old, new = answer.last_old, answer.first_new
    if old is not None:
        yield f"last {before}", named(old)
    if new is not None and answer.culprit is None:
        yield f"first {after}", named(new)
    if answer.apart and old and new:
        judged = (
            f"{side.short} with the packages of {' and of '.join(answer.environments(side))}"
            for side in (old, new)
        )
        yield "judged in", ", ".join(judged)


def _result(trial: CommitTrial) -> str:
    return f"{_WORDS[trial.answer]}{f', {_ONCE_MORE}' if trial.again else ''}"


def _release(end: End, package: str) -> str:
    claims = f"claims {package} {end.claims}" if end.claims else "claims no version"
    tag = end.revision if end.agrees else f"{end.revision} (no tag of its own name claims it)"
    return f"{tag} at {end.commit[:SHORT]}, {claims}"


def _row(answer: CommitAnswer, trial: CommitTrial) -> tuple[Line, ...]:
    address = f"{REPOSITORIES}/{answer.package}/commit/{trial.commit}"
    name, reason = Reference(trial.commit[:SHORT], address), shorten(trial.reason, _WIDE)
    return name, _result(trial), trial.environment, trial.version, reason


def _commit(commit: Commit) -> dict[str, Any]:
    return {
        "commit": commit.sha,
        "date": commit.date,
        "subject": commit.subject,
        "pull_request": commit.pull_request,
    }


def _trial(trial: CommitTrial) -> dict[str, Any]:
    return {key: value for key, value in asdict(trial).items() if key != "again"}


def pinned_line(row: PinnedCommit) -> str:
    """Return a change with the commit that made it, or why none is named."""
    variant = f" with {row.workaround}" if row.workaround else ""
    verb = "broken" if row.change == Edge.RISE.word else "fixed"
    what = f"{row.case}{variant} {row.precision} {verb} in {row.at}"
    if not row.commit:
        return f"{what}: no commit: {row.reason}"
    return f"{what}: {row.package} {row.commit[:SHORT]} of {row.date}: {row.title}"


def pinned_document(rows: Sequence[PinnedCommit]) -> Document:
    """Return the changes as a document, those without a commit last."""
    lines: list[tuple[Line, ...]] = []
    for row in sorted(rows, key=lambda row: (not row.commit, row)):
        case = f"{row.case} with {row.workaround}" if row.workaround else row.case
        commit: Line = "none"
        if row.commit:
            commit = (f"{row.package} ", Reference(row.commit[:SHORT], row.url))
        lines.append((case, row.precision, row.change, row.at, commit, row.title or row.reason))
    found = sum(bool(row.commit) for row in rows)
    columns = ("case", "precision", "change", "release", "commit", "title")
    return Document(
        headline=f"{found} of {plural(len(rows), 'change')} pinned to one commit.",
        parts=[Table(columns, lines)],
        data=[row._asdict() for row in rows],
    )
