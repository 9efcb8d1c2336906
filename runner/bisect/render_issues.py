"""What is unexpected on `main`, in the words of an issue: its title, and its body in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from repromatrix.runner.bisect.pinning import key_of
from repromatrix.runner.bisect.repository import SHORT
from repromatrix.runner.bisect.search import Edge
from repromatrix.runner.bisect.unexpected import UnexpectedCell, UnexpectedResult
from repromatrix.runner.document import (
    Code,
    Document,
    Hyperlink,
    Line,
    Listing,
    Paragraph,
    Part,
    Reference,
    Table,
    Verbatim,
    Words,
    write,
)
from repromatrix.runner.evidence.commits import REPOSITORIES, ChangeKey, PinnedCommit
from repromatrix.runner.model.case import PLAIN
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Outcome, Verdict
from repromatrix.runner.model.packages import DECIDING, TRANSFORMERS
from repromatrix.runner.text import join, shorten

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
    body = _unmarked(write(_document(result, facts), "markdown"))
    return "\n".join([f"# {title(result)}", "", marker(result), body])


def _unmarked(text: str) -> str:
    """Return a text of which nothing is taken for a marker, whatever a message holds."""
    return text.replace(_COMMENT, "<\u200b!--")


def _document(result: UnexpectedResult, facts: IssueFacts) -> Document:
    case, ran = result.case, result.cells[0].judged.seen
    held = {**ran.provenance.packages, "torch": ran.provenance.torch_build}
    names = [f"{name} {held[name]}" for name in DECIDING if name in held and name != TRANSFORMERS]
    packages = [f"Python {ran.provenance.python}", *names, ran.provenance.hardware]
    parts: list[Part] = [
        Paragraph([(Hyperlink(case.block.title, facts.page), " (", Code(case.where), ")")]),
        Table(
            ("", "expected", f"on `{MAIN}`", "last release that differs"),
            [*map(_row, result.cells)],
        ),
    ]
    if ran.failed is not None:
        message = f"{ran.failed.error_class}: {ran.failed.message}".strip()[:_MESSAGE]
        parts.append(Verbatim(message.expandtabs(), "text"))
    about = [*_answers(result, facts), _main(facts.main), f"measured with {', '.join(packages)}"]
    commands = "\n".join(_commands(result, facts.main))
    parts += [Listing("", about), Paragraph(["Run it:"]), Verbatim(commands, "sh")]
    return Document(parts=parts, data=None)


def _row(cell: UnexpectedCell) -> tuple[Line, ...]:
    seen, entry, before = cell.judged.seen, cell.judged.entry, cell.before
    expected: Line = entry.outcome.verb if entry else Outcome.PASSES.verb
    if entry and entry.raises:
        error = shorten(f"{' or '.join(entry.raises)}: {' or '.join(entry.match)}", _ERROR)
        expected = (f"{entry.outcome.verb}: ", Code(error))
    earlier = f"{before.cell.environment} {before.outcome.verb}" if before else "no release"
    return _variant(cell), expected, seen.outcome.verb, earlier


def _variant(cell: UnexpectedCell) -> str:
    at = cell.judged.seen.cell
    return f"{at.precision} with {at.workaround}" if at.workaround else str(at.precision)


def _answers(result: UnexpectedResult, facts: IssueFacts) -> Iterator[Line]:
    """Yield what is known of the commit, once for the cells of which it is the same."""
    groups: dict[tuple[Words, ...], list[str]] = {}
    for cell in result.cells:
        groups.setdefault(_answer(cell, facts), []).append(_variant(cell))
    for answer, variants in groups.items():
        yield answer if len(groups) == 1 else (f"{join(variants)}: ", *answer)


def _answer(cell: UnexpectedCell, facts: IssueFacts) -> tuple[Words, ...]:
    if cell.inquiry is None:
        return ("no commit: no measured release differs",)
    row = facts.commits.get(key_of(cell.inquiry))
    if row is None:
        older, newer = cell.inquiry.names
        return (f"no commit was searched between {older} and {newer}",)
    if not row.commit:
        return (f"no commit: {row.reason}",)
    verb = "broken by" if cell.inquiry.edge is Edge.RISE else "fixed by"
    pull = (
        (", ", Hyperlink(f"pull request {row.pull_request}", row.url)) if row.pull_request else ()
    )
    return (
        *(f"{verb} {row.package} ", Reference(row.commit[:SHORT], row.commit_url)),
        *(f" of {row.date}", *pull, ": ", Code(row.title)),
        *(" (", Code(shorten(row.outcome_at, _ERROR)), "; its parent ", Code(row.parent[:SHORT])),
        *(": ", Code(shorten(row.outcome_before, _ERROR)), ")"),
    )


def _main(main: MainCommit) -> Line:
    said = f" is {TRANSFORMERS} {main.version}"
    if not main.commit:
        return Code(MAIN), said
    link = Reference(main.commit[:SHORT], f"{main.address}/commit/{main.commit}")
    day = f" of {main.date}" if main.date else ""
    return Code(MAIN), f"{said}, commit ", link, f"{day} in {main.address}"


def _commands(result: UnexpectedResult, main: MainCommit) -> Iterator[str]:
    case, at = result.case, result.cells[0].judged.seen.cell
    words = " ".join(filter(None, [case.where, at.precision, at.workaround]))
    if main.commit:
        yield f"uv run --with '{TRANSFORMERS} @ {main.requirement}' {words}"
    origin = f"REPROMATRIX_MAIN={main.requirement} " if main.commit else ""
    yield f"{origin}nox -s matrix -- --case {case.name} --release {MAIN}"
    yield f"nox -s issues -- work/issues --case {case.name} --repo ../{TRANSFORMERS}"
