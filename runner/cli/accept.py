"""`accept`: rewrite what cases expect from evidence, as a diff to review."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from repromatrix.runner import files, project, site
from repromatrix.runner.cli.options import Console, command, line_printer
from repromatrix.runner.errors import ExitCode, Fault, Problem, RunnerError, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.fixes import measured_fixes
from repromatrix.runner.judging.acceptance import ProposedEntry, propose
from repromatrix.runner.judging.lint import scrutinise
from repromatrix.runner.judging.verdicts import Judged, by_case
from repromatrix.runner.model.case import PLAIN, Case, decode, read_case, variant_of
from repromatrix.runner.model.case_edit import KEYS, Written, rewritten
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.observation import UNPUBLISHED
from repromatrix.runner.model.outcomes import Device, Outcome, Precision, Verdict
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import CASE, SelectionRequest, select
from repromatrix.runner.project import Project
from repromatrix.runner.text import plural

_SHOWN = 5
"""How many cells of a refusal are named."""
_TELLING = 8
"""Letters of a message that tell one bug from another, at least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptOptions:
    """The options of `accept`."""

    cases: Annotated[
        Sequence[str], typer.Argument(metavar=CASE, help="Cases by name or glob; all by default.")
    ] = ()
    allow_regressions: Annotated[bool, "Allow an expected pass to become an expected failure."] = (
        False
    )
    dry_run: Annotated[bool, "Print the diff, and write nothing."] = False


@command("accept")
def rewrite(paths: Paths, options: AcceptOptions, console: Console) -> ExitCode:
    """Rewrite what cases expect (`fails`) from evidence, and print the diff.

    Where one case is refused, none is rewritten. A fix that was measured and is not on record is
    only proposed: `fixed-by` is a person's key. Raises RunnerError with every refusal.
    """
    loaded = project.load(paths)
    informed, judged, published = _evidence(loaded, console)
    request = SelectionRequest(case=options.cases)
    selection = select(request, loaded.cases, loaded.names, CASE)
    drafts: dict[Path, tuple[str, str]] = {}
    faults: list[Fault] = []
    open_ends: list[str] = []
    for path in dict.fromkeys(loaded.cases[name].path for name in sorted(selection.cases)):
        # An entry may be about several variants: all of a file are rewritten together.
        case, *others = (case for case in loaded.cases.values() if case.path == path)
        mine = [row for each in (case, *others) for row in judged.get(each.name, [])]
        try:
            before = decode(Path(path).read_bytes(), case.where)
            if not options.allow_regressions:
                _refuse_regressions(case, [row for row in mine if row.seen.cell.case in published])
            after = _accepted(informed, case, mine, before)
            if after != before:
                _refuse_faults(informed, after, case)
            drafts[Path(path)] = before, after
            open_ends += [
                *_open(informed, case, mine),
                *_missing_fixes(informed, after, case),
            ]
        except RunnerError as error:
            faults += error.faults
    if faults:
        raise RunnerError(faults)
    _write(paths, drafts, console, dry_run=options.dry_run)
    for line in open_ends:
        console.print(line, highlight=False)
    return ExitCode.AS_EXPECTED


def _evidence(
    loaded: Project, console: Console
) -> tuple[Project, dict[str, list[Judged]], set[str]]:
    """Return the project with what is known of `main`, rows by case, and the published cases."""
    every = answers.both(loaded.paths, line_printer(console, "yellow"))
    informed = project.informed(loaded, every)
    answering = answering_rows(every, informed.cases, informed.environments).values()
    # Neither a gap nor a device comes of what the machine decided.
    rows = [row for row in answering if row.outcome.is_evidence]
    informed, grid = site.judged_grid(loaded, rows)
    # Nobody else can repeat what an interpreter of this machine does.
    judged = by_case(
        each
        for each in grid
        if informed.environments[each.seen.cell.environment].source is not Source.INTERPRETER
    )
    # A published row may agree with one of this machine, which then answers.
    published = {
        row.cell.case for row in every if row.outcome.is_evidence and row.source not in UNPUBLISHED
    }
    return informed, judged, published


def _write(
    paths: Paths, drafts: Mapping[Path, tuple[str, str]], console: Console, *, dry_run: bool
) -> None:
    changed = {path: texts for path, texts in drafts.items() if texts[0] != texts[1]}
    for path, (before, after) in changed.items():
        shown = paths.shown(path)
        lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
        diff = difflib.unified_diff(*lines, shown, shown)
        console.print("".join(diff), end="")
        if not dry_run:
            files.write(path, after)
    done = "would change" if dry_run else "rewritten"
    cases = plural(len(drafts), "case")
    console.print(f"{len(changed)} of {cases} {done}; review the diff.")


def _current(case: Case, mine: Sequence[Judged]) -> list[Judged]:
    """Return the current results of a case; raises RunnerError for none and for stale ones."""
    current = [each for each in mine if each.seen.outcome.is_evidence and not each.stale]
    fix = f"Run `nox -s matrix -- --case {case.stem}` first."
    stale = [each for each in mine if each.stale]
    if not current:
        what = "all results are of another version of the case" if stale else "there are no results"
        raise _problem(case, "evidence", what, fix)
    if stale:
        what = f"{_listed(stale)} were measured with another version of the case"
        raise _problem(case, "evidence", what, fix)
    return current


def _open(loaded: Project, case: Case, mine: Sequence[Judged]) -> Iterator[str]:
    """Yield a line where some cells have no result, over which the entries may reach."""
    if gaps := [
        each
        for each in mine
        if each.seen.outcome is Outcome.NOT_RUN
        and loaded.environments[each.seen.cell.environment].source is not Source.MAIN
    ]:
        yield (
            f"{case.where}: not measured: {_listed(gaps)}."
            " A range that reaches over them counts them as failing;"
            f" `nox -s matrix -- --case {case.stem}` measures them."
        )


def _accepted(loaded: Project, case: Case, mine: Sequence[Judged], text: str) -> str:
    """Return the case's text with the entries that its evidence asks for; raises RunnerError."""
    current = _current(case, mine)
    if unstable := [each for each in current if each.seen.unstable]:
        what = f"repeats of {_listed(unstable)} disagree"
        raise _problem(case, "evidence", what, "Make the case decide the same way each time.")
    proposal = propose(case, current, loaded.environments)
    if proposal.unexplained:
        what = (
            "no range of versions of transformers, or of a package of the pairs, describes these"
            f" failures: {'; '.join(proposal.unexplained)}"
        )
        fix = "Write these entries by hand, or name pairs that tell the versions apart."
        raise _problem(case, "fails", what, fix)
    texts = [text for entry in proposal.derived for text in entry.how.match]
    if vague := [text for text in texts if len(text) < _TELLING]:
        what = f"{vague[0]!r} is too short to recognize the error (under {_TELLING} characters)"
        fix = "Give the assert a message, or write the entry by hand."
        raise _problem(case, "match", what, fix)
    if not proposal.derived and len(proposal.kept) == len(case.block.fails):
        return text
    devices = {each.seen.cell.device for each in current}
    written = [
        Written(keys=_keys(entry, case, devices), replaces=entry.replaces)
        for entry in proposal.derived
    ]
    stated = case.script.table["tool"]["repromatrix"].get("fails", ())
    for number, places in proposal.placed.items():  # as its author wrote it, with the places
        kept = {key: value for key, value in stated[number].items() if key in KEYS}
        keys = kept | {"where": _one_or_all(places)}
        written.append(Written(keys=keys, replaces=number))
    return rewritten(text, case.where, proposal.kept, written)


def _keys(entry: ProposedEntry, case: Case, measured: set[Device]) -> dict[str, Any]:
    """Return the keys of a derived entry, those alone that say more than their default."""
    how, replaced = entry.how, entry.replaces
    stated = set(Device if replaced is None else case.block.fails[replaced].devices)
    keys: dict[str, Any] = {"when": list(entry.when)}
    if set(entry.precisions) < set(Precision):
        keys["precisions"] = [precision.value for precision in entry.precisions]
    if measured - set(entry.devices) or stated < set(Device):
        keys["devices"] = [device.value for device in entry.devices]
    if entry.variants and set(entry.variants) < set(case.block.variants):
        keys["variants"] = list(entry.variants)
    if set(entry.workarounds) == set(case.branches) and len(case.branches) > 1:
        keys["workarounds"] = ["*"]
    elif entry.workarounds != (PLAIN,):
        keys["workarounds"] = list(entry.workarounds)
    if how.outcome is not Outcome.FAILS:
        keys["outcome"] = how.outcome.value
    else:
        keys["raises"] = _one_or_all(how.raises)
        keys["match"] = _one_or_all(how.match)
    if how.where:
        keys["where"] = _one_or_all(how.where)
    return keys


def _one_or_all(texts: Sequence[str]) -> str | list[str]:
    return texts[0] if len(texts) == 1 else [*texts]


def _problem(case: Case, key: str, what: str, fix: str) -> RunnerError:
    return refuse(Problem(f"{case.where}: {key}", what, fix))


def _missing_fixes(loaded: Project, text: str, case: Case) -> Iterator[str]:
    """Yield the lines that would put a measured fix on record, where nobody is."""
    fresh = read_case(text, case.where, case.path, loaded.matrix.extras)
    commits = known_commits(loaded.paths).values()
    for fix in measured_fixes(fresh, commits, loaded.environments):
        for commit in () if fix.on_record else fix.commits:
            yield (
                f"{case.where}: entry {fix.number} of `fails` names no fix; measured:"
                f' {commit.label}. To put it on record, add\n# fixed-by = "{commit.url}"'
            )


def _refuse_faults(loaded: Project, text: str, case: Case) -> None:
    fresh = read_case(text, case.where, case.path, loaded.matrix.extras)
    faults = scrutinise(fresh, loaded.environments, loaded.matrix.precisions, Device)
    known = scrutinise(case, loaded.environments, loaded.matrix.precisions, Device)
    if [fault for fault in faults if fault not in known]:
        raise RunnerError(faults)


def _refuse_regressions(case: Case, mine: Sequence[Judged]) -> None:
    """Keep a pass that was expected; of a case that was never published nothing is yet."""
    worse = [each for each in mine if each.verdict is Verdict.REGRESSED and not each.stale]
    if worse:
        what = f"an expected pass would become an expected failure in {_listed(worse)}"
        fix = "If the failure is not a mistake of the case, add `--allow-regressions`."
        raise _problem(case, "fails", what, fix)


def _listed(judged: Sequence[Judged]) -> str:
    names = [
        " ".join(filter(None, (variant_of(each.seen.cell.case), *each.seen.cell[1:4])))
        for each in judged[:_SHOWN]
    ]
    more = f" and {len(judged) - _SHOWN} more" if len(judged) > _SHOWN else ""
    return f"{plural(len(judged), 'cell')} ({', '.join(names)}{more})"
