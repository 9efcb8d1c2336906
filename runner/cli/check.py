"""`check`: faults in case files and environment files; installs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from repromatrix.commands import CHECKED
from repromatrix.runner import project, site
from repromatrix.runner.audit.torches import torch_requirements
from repromatrix.runner.cli.options import Console, command
from repromatrix.runner.errors import ExitCode, Fault, Problem, RunnerError
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import answering_rows
from repromatrix.runner.evidence.bounds import hidden
from repromatrix.runner.evidence.commits import NAME as COMMITS
from repromatrix.runner.evidence.commits import published_commits
from repromatrix.runner.evidence.fixes import measured_fixes
from repromatrix.runner.evidence.margins import MarginRow, read_margins
from repromatrix.runner.evidence.swept.published import CLASSES, FOLDER, read_findings
from repromatrix.runner.evidence.swept.records import architecture_of
from repromatrix.runner.evidence.swept.triage import contradictions, read_triage, unknown_names
from repromatrix.runner.judging.lint import crosses, lacking, missing, scrutinise, undecided
from repromatrix.runner.judging.margins import LEAST, thresholds
from repromatrix.runner.judging.places import apart, by_place, never_seen
from repromatrix.runner.judging.verdicts import Judged, by_case, described, judge_all
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.environment_name import under_torch
from repromatrix.runner.model.impact import Impact
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import Project
from repromatrix.runner.text import join, plural


@command("check", collect=False)
def examine(
    paths: Paths,
    console: Console,
    files: Annotated[
        Sequence[Path],
        typer.Argument(
            metavar="FILE", help="Case files, or names of cases; all of `cases/` by default."
        ),
    ] = (),
    explain: Annotated[  # noqa: FBT002 - an option
        bool,
        typer.Option("--explain", help="Print what each case still lacks, and what gives it."),
    ] = False,
    margins: Annotated[  # noqa: FBT002 - an option
        bool,
        typer.Option("--margins", help="Print how far off their thresholds cases stand."),
    ] = False,
) -> ExitCode:
    """Check case files and environment files, without installing anything.

    Prints every case that is not proven, and every fix on record that measurement contradicts;
    raises RunnerError with every fault.
    """
    named = [(typed, paths.cases / f"{typed}.py") for typed in files]
    files = [path if path.exists() and not typed.exists() else typed for typed, path in named]
    loaded, faults = project.read(paths, files or None)
    torches, under = site.judged_under_torches(loaded, answers.under_torches(paths, loaded.cases))
    under = tuple(row for row in under if not row.stale)
    for case in {case.where: case for case in loaded.cases.values()}.values():
        held = torches if torch_requirements(case) else loaded
        faults += scrutinise(case, held.environments, loaded.matrix.precisions, Device)
        faults += undecided(case, held.environments)
    if not files:
        faults += _beside_the_cases(paths, loaded)
    if faults:
        raise RunnerError(faults)
    judged, others = _judged(loaded), by_case(under)
    # Those under other torches are too few to stand alone.
    every = {
        name: [*rows, *(others.get(name, ()) if rows else ())] for name, rows in judged.items()
    }
    if wrong := [*_contradicted(paths, judged), *_never_there(loaded, every)]:
        raise RunnerError(wrong)
    lacks = {name: lacking(rows) for name, rows in judged.items()}
    for line in chain(
        (
            f"{loaded.cases[name].label}: not proven: {'; '.join(lack)}."
            for name, lack in lacks.items()
            if lack
        ),
        _explained(loaded, judged) if explain else (),
        *(_other_places(loaded, judged), _other_fixes(loaded), _hidden(loaded)),
        *(_without_impact(loaded, judged), _unexpected_under_torches(loaded, under)),
        _margins(loaded, every=margins),
        _summed_up(loaded, under, {name: judged[name] for name in lacks if not lacks[name]}),
    ):
        console.print(line)
    return ExitCode.AS_EXPECTED


def _summed_up(
    loaded: Project, under: Sequence[Judged], proven: Mapping[str, Sequence[Judged]]
) -> Iterator[str]:
    """Yield how many changes are pinned to a commit, how many cases there are and are proven."""
    if rows := published_commits(loaded.paths).values():
        commits, beyond = sum(bool(row.commit) for row in rows), sum(row.is_beyond for row in rows)
        yield (
            f"{plural(len(rows), 'change')} searched: {commits} pinned to a commit, {beyond} beyond"
            f" the clones, {len(rows) - commits - beyond} undecided"
            f" ({commits / max(1, len(rows) - beyond):.0%} of those in reach pinned)."
        )
    if under:
        names = [(under_torch(row.seen.cell.environment) or ("", ""))[1] for row in under]
        unexpected = sum(row.verdict.is_unexpected for row in under)
        cells, torches = plural(len(under), "cell"), join([*dict.fromkeys(names)])
        yield f"{cells} under torch {torches}: {unexpected} unexpected."
    scripts = len({case.stem for case in loaded.cases.values()})
    varied = f" ({len(loaded.cases)} with their variants)" if scripts < len(loaded.cases) else ""
    across = sum(map(crosses, proven.values()))
    newest = sum(crosses(rows, since="5.0") for rows in proven.values())
    placed = sum(any(entry.where for entry in case.block.fails) for case in loaded.cases.values())
    yield (
        f"{plural(scripts, 'case')}{varied} and {plural(len(loaded.locks), 'lock')} have no"
        f" faults. Published or local results prove {plural(len(proven), 'case')}:"
        f" {across} across releases, {newest} within 5.x."
        f" {plural(placed, 'case says', 'cases say')} where it happens."
    )


def _beside_the_cases(paths: Paths, loaded: Project) -> Iterator[Fault]:
    """Yield locks that no case needs, and what is wrong with decisions about findings."""
    derived = project.derived(loaded.matrix, loaded.cases.values())
    for path in sorted(paths.locks.glob("*+*.txt")):
        if path.stem not in derived:
            what = "no case names this pair, or depends on this extra"
            yield Problem(paths.shown(path), what, "Remove the file.")
    triage, faults = read_triage(paths.published / FOLDER)
    findings: dict[str, set[str]] = {}
    for folder in (FOLDER, CLASSES):
        for finding in read_findings(paths.published, folder):
            named = map(architecture_of, finding.architectures.split())
            findings.setdefault(finding.name, set()).update(named)
    kinds = {case.stem: case.block.kind.value for case in loaded.cases.values()}
    yield from chain.from_iterable(import_module(name).faults(paths) for name in CHECKED)
    yield from faults
    yield from unknown_names(triage, findings, kinds)
    yield from contradictions(paths.published / FOLDER, triage, kinds)


def _unexpected_under_torches(loaded: Project, under: Sequence[Judged]) -> Iterator[str]:
    """Yield the cases that end unexpectedly under another torch: they say nothing of it yet."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in under:
        base, torch = under_torch(row.seen.cell.environment) or ("", "")
        if row.verdict.is_unexpected:
            groups.setdefault((row.seen.cell.case, torch), []).append(base)
    for (name, torch), bases in groups.items():
        yield (
            f"{loaded.cases[name].label}: note: {plural(len(bases), 'cell')} under torch {torch}"
            f" on {join([*dict.fromkeys(bases)])} unexpected: an entry of `fails` may name torch."
        )


def _explained(loaded: Project, judged: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    margins = _known_margins(loaded)
    for name, case in loaded.cases.items():
        lacks = [*missing(case, judged[name], _unmeasured(case, margins[name]))]
        yield f"{case.label}: {'lacks nothing' if not lacks else 'lacks'}"
        yield from (f"  {lack}" for lack in lacks)


def _contradicted(paths: Paths, judged: Mapping[str, Sequence[Judged]]) -> Iterator[Fault]:
    """Yield the commits of changes that the results of releases do not show (any more)."""
    for row in published_commits(paths).values():
        variant = (row.workaround, row.precision, row.device)
        cells = {each.seen.cell: each.seen.reading.fails for each in judged.get(row.case, ())}
        fails = {
            cell.environment: failing
            for cell, failing in cells.items()
            if (cell.workaround, cell.precision, cell.device) == variant
        }
        is_break = row.change == "break"
        shown = (fails.get(row.before, not is_break), fails.get(row.at, is_break))
        if row.case in judged and shown != (not is_break, is_break):
            how = f" with {row.workaround}" if row.workaround else ""
            what = (
                f"{row.case}{how} {row.precision}: results do not show a {row.change} between"
                f" {row.before} and {row.at}"
            )
            fix = "Search it again with `nox -s bisect -- --commits`, or remove the line."
            yield Problem(f"reports/published/{COMMITS}", what, fix)


def _never_there(loaded: Project, judged: Mapping[str, Sequence[Judged]]) -> Iterator[Fault]:
    for name, rows in judged.items():
        case = loaded.cases[name]
        for number, places in never_seen(case, rows).items():
            seen = join([*by_place(case.block.fails[number], rows)])
            what = f"no result fails in {join(places, 'or')}, but in {seen}"
            fix = f"Correct it, or run `nox -s accept -- {name}`."
            yield Problem(f"{case.where}: fails[{number}].where", what, fix)


def _other_places(loaded: Project, judged: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    """Yield the entries whose function changes: their words may be those of two bugs."""
    for name, rows in judged.items():
        case = loaded.cases[name]
        for number, entry in enumerate(case.block.fails, 1):
            groups = apart(entry, rows)
            if len(groups) > 1:
                places = "; ".join(_place(group, loaded.names) for group in groups)
                yield (
                    f"{case.label}: note: entry {number} of `fails` fails in several functions:"
                    f" {places}. `nox -s accept -- {name}` splits it."
                )


def _place(rows: Sequence[Judged], order: Sequence[str]) -> str:
    """Return where cells fail, how many, and from which environment to which."""
    places = dict.fromkeys(row.seen.failed.place for row in rows if row.seen.failed)
    names = sorted({row.seen.cell.environment for row in rows}, key=order.index)
    along = dict.fromkeys([names[0], names[-1]])
    return f"{join([*places])} ({plural(len(rows), 'cell')}, {' to '.join(along)})"


def _other_fixes(loaded: Project) -> Iterator[str]:
    """Yield the fixes that were measured against those on record: notes, for a person to decide."""
    commits = published_commits(loaded.paths).values()
    for case in loaded.cases.values():
        for fix in measured_fixes(case, commits, loaded.environments):
            if fix.is_contradicted or fix.is_unrecorded:
                measured = " and ".join(commit.label for commit in fix.commits)
                yield (
                    f"{case.label}: note: entry {fix.number} of `fails` has"
                    f" {fix.on_record or 'nothing'} on record (`fixed-by`); measured: {measured}."
                )


def _hidden(loaded: Project) -> Iterator[str]:
    """Yield the requirements that hide the failure that their case describes."""
    for case in loaded.cases.values():
        found = hidden(loaded.paths, case)
        if found:
            where = join([f"{row.precision} on {row.environment}" for row in found])
            yield (
                f"{case.label}: note: it fails as described in {where}, which `dependencies`"
                " leaves out: lower the bound."
            )


def _without_impact(loaded: Project, judged: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    """Yield the cases that give wrong numbers or train nothing, and do not measure the cost."""
    for name, rows in judged.items():
        case = loaded.cases[name]
        told = {label for row in rows for label in row.seen.measured}
        failing = any(row.entry is not None and described(row.entry, row.seen) for row in rows)
        if (
            failing
            and told.isdisjoint(Impact)
            and any(one.has_impact for one in case.block.symptom)
        ):
            yield (
                f"{case.label}: note: it fails silently, and `measured` does not say what that"
                f" costs ({join([*Impact], 'or')})."
            )


def _margins(loaded: Project, *, every: bool) -> Iterator[str]:
    """Yield the thresholds that what was measured comes near to, or all of them."""
    for name, rows in _known_margins(loaded).items():
        case = loaded.cases[name]
        if unmeasured := _unmeasured(case, rows):
            yield (
                f"{case.label}: note: {join(unmeasured)}: not measured over several"
                " seeds. Run `nox -s checks -- chance`."
            )
        for row in rows:
            if row.is_narrow or every:
                note = f" note: nearer than {LEAST:g} times to what was measured:"
                yield f"{case.label}:{note if row.is_narrow else ''} {row.words}"


def _known_margins(loaded: Project) -> dict[str, list[MarginRow]]:
    """Return the margins of each case; those of an older version of it are none."""
    known: dict[str, list[MarginRow]] = {name: [] for name in loaded.cases}
    for row in read_margins(loaded.paths):
        if row.case in known and row.case_digest == loaded.cases[row.case].digest:
            known[row.case].append(row)
    return known


def _unmeasured(case: Case, rows: Sequence[MarginRow]) -> list[str]:
    return [] if rows else [*map(str, thresholds(case.script.code))]


def _judged(loaded: Project) -> dict[str, list[Judged]]:
    """Return the judged rows of each case: local ones only where the published do not prove it.

    So local results prove what nobody has published, and contradict nothing that is published.
    """

    def judged(rows: Sequence[Observation]) -> dict[str, list[Judged]]:
        evidence = [row for row in rows if row.outcome.is_evidence]
        informed = project.informed(loaded, evidence)
        cases, environments = informed.cases, informed.environments
        answering = answering_rows(evidence, cases, environments).values()
        found = by_case(judge_all(answering, cases, environments))
        return {name: found.get(name, []) for name in cases}

    published = judged(answers.published_rows(loaded.paths))
    unproven = {name for name, rows in published.items() if lacking(rows)}
    if not unproven:
        return published
    local = judged(answers.both(loaded.paths, lambda _: None, unproven))
    return published | {name: local[name] for name in unproven}
