"""What is unexpected on `main`, in the words of an issue: its title, and its body in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from repromatrix.runner import markdown
from repromatrix.runner.bisect.pinning import key_of
from repromatrix.runner.bisect.repository import SHORT
from repromatrix.runner.bisect.search import Edge
from repromatrix.runner.bisect.unexpected import UnexpectedCell, UnexpectedResult
from repromatrix.runner.evidence.commits import REPOSITORIES, ChangeKey, PinnedCommit
from repromatrix.runner.model.case import PLAIN, Failure
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Outcome, Verdict
from repromatrix.runner.model.packages import DECIDING, TRANSFORMERS
from repromatrix.runner.text import join, printable_lines, shorten

_TITLE, _MESSAGE, _ERROR = 200, 2000, 160
"""Characters; GitHub takes 256 of a title."""
_COMMENT = "<!--"


@dataclass(frozen=True, kw_only=True, slots=True)
class MainCommit:
    """What was measured as `main`; the commit is empty where its version names none."""

    version: str
    """What it declares."""
    commit: str
    date: str = ""
    """Empty where no clone tells the day."""
    address: str = f"{REPOSITORIES}/{TRANSFORMERS}"
    """Of its repository."""

    @property
    def requirement(self) -> str:
        """What installs it."""
        return f"git+{self.address}@{self.commit}"


@dataclass(frozen=True, kw_only=True, slots=True)
class IssueFacts:
    """What an issue says beside the result."""

    main: MainCommit
    commits: Mapping[ChangeKey, PinnedCommit]
    """What is known of the changes."""
    page: str = ""
    """The address of the page of the case; empty where no site is known."""


def marker(result: UnexpectedResult) -> str:
    """Return the line by which an issue about a result is found again; a reader does not see it."""
    return f"{_COMMENT} repromatrix: {result.name} -->"


def title(result: UnexpectedResult) -> str:
    """Return the title of an issue: the case, the precisions, and how it fails."""
    precisions = join(list(dict.fromkeys(cell.judged.seen.cell.precision for cell in result.cells)))
    variants = {cell.judged.seen.cell.workaround for cell in result.cells}
    with_ = f" with {variants.pop()}" if len(variants) == 1 and PLAIN not in variants else ""
    verb = {Verdict.FIXED: "no longer fails", Verdict.CHANGED: "fails in another way"}
    what = f"{result.case.name}{with_} {verb.get(result.verdict, 'fails')} on main in {precisions}"
    seen = result.cells[0].judged.seen
    return _unmarked(
        shorten(f"{what}: {seen.headline}" if seen.outcome.is_failure else what, _TITLE)
    )


def issue(result: UnexpectedResult, facts: IssueFacts) -> str:
    """Return the title as a heading, the marker, and the body."""
    body = _unmarked("\n".join(_body(result, facts)))
    return "\n".join([f"# {title(result)}", "", marker(result), body])


def _unmarked(text: str) -> str:
    """Return a text of which nothing is taken for a marker, whatever a message holds."""
    return text.replace(_COMMENT, "<\u200b!--")


def _body(result: UnexpectedResult, facts: IssueFacts) -> Iterator[str]:
    case = result.case
    about = markdown.plain(case.block.title)
    yield f"**{f'[{about}]({facts.page})' if facts.page else about}** (`{case.where}`)"
    yield from (
        "",
        "| | expected | on `main` | last release that differs |",
        "| --- | --- | --- | --- |",
    )
    yield from map(_row, result.cells)
    yield from _message(result)
    yield ""
    yield from _answers(result, facts)
    yield f"- {_main(facts.main)}"
    yield f"- measured with {_packages(result)}"
    yield from ("", "Run it:", "", "```sh", *_commands(result, facts.main), "```", "")


def _row(cell: UnexpectedCell) -> str:
    seen, entry, before = cell.judged.seen, cell.judged.entry, cell.before
    earlier = f"{before.cell.environment} {before.outcome.verb}" if before else "no release"
    shown = (_variant(cell), _expected(entry), seen.outcome.verb, earlier)
    return f"| {' | '.join(shown)} |"


def _variant(cell: UnexpectedCell) -> str:
    at = cell.judged.seen.cell
    workaround = f" with {markdown.code(at.workaround)}" if at.workaround else ""
    return f"{at.precision}{workaround}"


def _expected(entry: Failure | None) -> str:
    if entry is None:
        return Outcome.PASSES.verb
    error = shorten(f"{' or '.join(entry.raises)}: {' or '.join(entry.match)}", _ERROR)
    return f"{entry.outcome.verb}: {markdown.code(error)}" if entry.raises else entry.outcome.verb


def _message(result: UnexpectedResult) -> Iterator[str]:
    failed = result.cells[0].judged.seen.failed
    if failed is not None:
        text = printable_lines(
            f"{failed.error_class}: {failed.message}".strip()[:_MESSAGE].expandtabs()
        )
        yield from ("", markdown.fenced(text, "text"))


def _answers(result: UnexpectedResult, facts: IssueFacts) -> Iterator[str]:
    """Yield what is known of the commit, once for the cells of which it is the same."""
    groups: dict[str, list[str]] = {}
    for cell in result.cells:
        groups.setdefault(_answer(cell, facts), []).append(_variant(cell))
    for answer, variants in groups.items():
        yield f"- {answer}" if len(groups) == 1 else f"- {join(variants)}: {answer}"


def _answer(cell: UnexpectedCell, facts: IssueFacts) -> str:
    if cell.inquiry is None:
        return "no commit: no measured release differs"
    verb = "broken by" if cell.inquiry.edge is Edge.RISE else "fixed by"
    older, newer = cell.inquiry.names
    row = facts.commits.get(key_of(cell.inquiry))
    if row is None:
        return f"no commit was searched between {older} and {newer}"
    if not row.commit:
        return f"no commit: {markdown.sentence(row.reason)}"
    pull = f", [pull request {row.pull_request}]({row.url})" if row.pull_request else ""
    parent, before = row.parent[:SHORT], markdown.code(shorten(row.outcome_before, _ERROR))
    at = markdown.code(shorten(row.outcome_at, _ERROR))
    return (
        f"{verb} {row.package} [`{row.commit[:SHORT]}`]({row.commit_url}) of {row.date}{pull}:"
        f" {markdown.code(row.title)} ({at}; its parent `{parent}`: {before})"
    )


def _main(main: MainCommit) -> str:
    said = f"`{MAIN}` is {TRANSFORMERS} {markdown.plain(main.version)}"
    if not main.commit:
        return said
    day = f" of {main.date}" if main.date else ""
    link = f"[`{main.commit[:SHORT]}`]({main.address}/commit/{main.commit})"
    return f"{said}, commit {link}{day} in {main.address}"


def _packages(result: UnexpectedResult) -> str:
    ran = result.cells[0].judged.seen.provenance
    held = {**ran.packages, "torch": ran.torch_build}
    names = [f"{name} {held[name]}" for name in DECIDING if name in held and name != TRANSFORMERS]
    return markdown.plain(", ".join([f"Python {ran.python}", *names, ran.hardware]))


def _commands(result: UnexpectedResult, main: MainCommit) -> Iterator[str]:
    case, at = result.case, result.cells[0].judged.seen.cell
    words = " ".join(filter(None, [case.where, at.precision, at.workaround]))
    if main.commit:
        yield f"uv run --with '{TRANSFORMERS} @ {main.requirement}' {words}"
    origin = f"REPROMATRIX_MAIN={main.requirement} " if main.commit else ""
    yield f"{origin}nox -s matrix -- --case {case.name} --release {MAIN}"
    yield f"nox -s issues -- work/issues --case {case.name} --repo ../{TRANSFORMERS}"
