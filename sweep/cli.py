"""`sweep`: every architecture of a release through the probes, against the release before."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import math
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from repromatrix.runner import files, project
from repromatrix.runner.bisect.clone import Clone, open_clones
from repromatrix.runner.bisect.commit_search import find_commits
from repromatrix.runner.bisect.commits import commits_document, heard
from repromatrix.runner.cli import options as cli
from repromatrix.runner.cli.engine import engine_of, sandbox_of
from repromatrix.runner.cli.options import Console
from repromatrix.runner.cli.progress import ProgressDisplay
from repromatrix.runner.document import write
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.errors import ExitCode, InvalidValue, Problem, refuse
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.evidence.swept import published
from repromatrix.runner.evidence.swept.changes import Found
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import ProbeName
from repromatrix.runner.evidence.swept.records import counted_kinds
from repromatrix.runner.evidence.swept.triage import Triage, load_triage
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.execution.hardware import cores
from repromatrix.runner.execution.ray import connect as ray
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.budget import seconds as seconds_of
from repromatrix.runner.planning.selection import suggestion
from repromatrix.runner.planning.shards import shard
from repromatrix.runner.project import Project
from repromatrix.runner.text import plural
from repromatrix.sweep import making, publishing, render
from repromatrix.sweep.baseline import published_baseline
from repromatrix.sweep.between import lacking, new_probes, probes_between
from repromatrix.sweep.cells import cheap_probes, chosen_probes, probe_cases
from repromatrix.sweep.commits import inquiry_of
from repromatrix.sweep.confirm import confirmed
from repromatrix.sweep.findings import SweepFinding, bad, changes, findings
from repromatrix.sweep.measure import (
    MeasuredSides,
    SweepRunner,
    measure_sides,
    recipes_there,
    releases_of,
)
from repromatrix.sweep.recipe_files import ModelRecipe, load_recipes
from repromatrix.sweep.script import script_of

_LISTED = 20
_SHOWING = 3
"""Architectures of a published finding that are run to show it again."""
_ON_A_NODE = 200
"""Scripts of a release that a node of a cluster gets at once: about two minutes of one core."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepOptions:
    """The options of `sweep`."""

    release: Annotated[
        str,
        cli.checked(
            "The release to sweep, or main; the newest release where none is given.",
            metavar="RELEASE",
        ),
    ] = ""
    against: Annotated[
        str, cli.checked("The release to compare with; the one before.", metavar="RELEASE")
    ] = ""
    model: Annotated[
        Sequence[str], typer.Option(help="Only architectures of this name or glob.")
    ] = ()
    probe: Annotated[Sequence[str], typer.Option(help="Only probes of this name or glob.")] = ()
    classes: Annotated[
        bool,
        typer.Option(
            "--classes",
            help="Sweep the other classes of each architecture, with the cheapest probes.",
        ),
    ] = False
    fp16: Annotated[bool, typer.Option("--fp16", help="Run the probes in fp16, too.")] = False
    make: Annotated[
        bool,
        typer.Option(
            "--make", help="Make the missing recipes of the release instead: tiny models as data."
        ),
    ] = False
    script: Annotated[
        str,
        cli.checked(
            "Print a finding as a script that fails on one release and passes on the other.",
            metavar="FINDING",
        ),
    ] = ""
    commit: Annotated[
        str,
        cli.checked(
            "Find the commit behind a finding, in the clone given by --repo.", metavar="FINDING"
        ),
    ] = ""
    repo: Annotated[
        Path | None,
        typer.Option(help="A clone of transformers, accelerate or peft, for --commit."),
    ] = None
    shard: Annotated[
        str,
        cli.checked("Run every Nth architecture from the Ith on: a share of them.", metavar="I/N"),
    ] = ""
    budget: Annotated[
        str,
        cli.checked(
            "Begin nothing after this time; the same command goes on later.",
            metavar="90s|10m|2h",
        ),
    ] = ""
    between: Annotated[
        bool,
        typer.Option(
            "--between",
            help="Sweep the releases between swept ones, for the architectures on which those"
            " differ.",
        ),
    ] = False
    publish: Annotated[
        bool,
        typer.Option(
            "--publish", help="Write what was measured of the releases into the repository."
        ),
    ] = False
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Processes at once; 0 means all cores.")
    ] = 0
    ray: cli.OnRay = ""
    every: Annotated[bool, typer.Option("--all", help="Print every finding.")] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, and run nothing.")
    ] = False
    rerun: cli.Rerun = False
    sandbox: cli.Sandbox = None


@cli.command("sweep")
def sweep(paths: Paths, options: SweepOptions, console: Console) -> ExitCode:
    """Run every architecture through the probes, and tell what changed since the release before."""
    began = time.monotonic()
    _refuse_with_ray(options)
    loaded, scope = project.load(paths, []), _scope(paths, options)
    options = _narrowed(paths, scope, options)
    release, against = _releases(loaded, options)
    recipes, probes = scope.recipes, _probes(options)
    others = ((options.make, _make), (options.between, _between), (options.publish, _publish))
    for is_asked, task in others:
        if is_asked:
            return task(loaded, scope, options, console)
    names = _share(_models(options, recipes), options.shard)
    sides = {
        name: probe_cases(
            recipes_there({kind: recipes[kind] for kind in names}, name, loaded), probes
        )
        for name in (against, release)
    }
    _clones(paths, options)  # before anything is measured
    if not any(sides.values()):
        problem = Problem("--model", f"no architecture has a recipe on {release}")
        raise refuse(problem, ExitCode.NOTHING_SELECTED)
    if options.dry_run:
        _print_planned(sides, console)
        return ExitCode.AS_EXPECTED
    with _runner(loaded, options, console) as runner:
        swept = measure_sides(runner, sides, _baseline(loaded, scope, against, options))
        if swept.interrupted:
            return _interrupted(console)
        told = findings(changes(swept.older, swept.newer))
        live = bad(swept.newer, {probe.name: probe.dtype for probe in probes})
        if options.script:
            return _script((*told, *live), options, runner, recipes, (against, release))
        if options.commit:
            return _commit(told, options, runner, recipes, (against, release))
        told = confirmed(told, runner, recipes, (against, release))
        live = confirmed(live, runner, recipes, (release,))
    _print(swept, told, live, options, load_triage(paths.published / published.FOLDER))
    _print_counts(runner, time.monotonic() - began, console)
    return ExitCode.UNBUILDABLE if swept.unbuilt else ExitCode.AS_EXPECTED


def _refuse_with_ray(options: SweepOptions) -> None:
    if not options.ray:
        return
    alone = "a budget works on one machine only"
    pairs = (
        ("--budget", options.budget, "--ray", options.ray, alone),
        ("--sandbox", options.sandbox, "--ray", options.ray, "the nodes have no sandbox"),
    )
    cli.refuse_pairs(pairs)
    ray.check(options.ray)


def _scope(paths: Paths, options: SweepOptions) -> making.SweepScope:
    """Return what is swept; raises RunnerError."""
    recipes = load_recipes(paths.recipes)
    chosen = making.further_classes if options.classes else making.architectures
    return chosen(paths.recipes, recipes)


def _narrowed(paths: Paths, scope: making.SweepScope, options: SweepOptions) -> SweepOptions:
    """Return what shows a finding again: of a published one, its releases and a few of its cells.

    What was typed stays, and so does a finding that is not published.
    """
    name = options.script or options.commit
    if not name or options.model:
        return options
    known = published.read_findings(paths.published, scope.folder)
    wanted = [row for row in known if row.name == name and options.release in ("", row.release)]
    if options.against:
        wanted = [row for row in wanted if row.against in ("", options.against)]
    if not wanted:
        return options
    newest = wanted[-1]
    probes = {probe.name for probe in chosen_probes(fp16=True)} & {*newest.probes.split()}
    return dataclasses.replace(
        options,
        release=newest.release,
        against=options.against or newest.against,
        model=newest.architectures.split()[:_SHOWING],
        probe=options.probe or sorted(probes),
    )


def _baseline(
    loaded: Project, scope: making.SweepScope, against: str, options: SweepOptions
) -> Found:
    """Return what was published of the older release, if it stands; nothing with `--rerun`."""
    if options.rerun or against == MAIN:
        return {}
    line = published.read_history(loaded.paths.published, scope.folder)
    there = recipes_there(scope.recipes, against, loaded)
    return published_baseline(line, loaded.environments[against], there)


def _print_planned(by_release: Mapping[str, Mapping[str, Case]], console: Console) -> None:
    for name, cases in by_release.items():
        console.print(f"{name:>12}  {plural(len(cases), 'cell')}")


def _interrupted(console: Console) -> ExitCode:
    console.print("Interrupted. Results so far are kept; run the same command to continue.")
    return ExitCode.INTERRUPTED


def _print_counts(runner: SweepRunner, seconds: float, console: Console) -> None:
    measured = plural(runner.counts["measured"], "cell")
    console.print(f"{measured} measured in {seconds:.0f} s.")
    if not math.isinf(runner.until) and runner.counts["left"]:
        left = plural(runner.counts["left"], "cell")
        console.print(
            f"The budget ended with {left} to measure; what was not measured again is not told."
            " Run the same command to continue."
        )


def _clones(paths: Paths, options: SweepOptions) -> tuple[Clone, ...]:
    """Return the clone for `--commit`; raises RunnerError where it does not serve."""
    if options.commit and options.repo is None:
        fix = "Give the path of a clone of transformers, accelerate or peft."
        raise refuse(Problem("--commit", "needs --repo", fix))
    return open_clones([options.repo] if options.repo else [], paths.places)


def _named(told: Sequence[SweepFinding], option: str, name: str) -> SweepFinding:
    """Return the first finding of a name; raises RunnerError where none has it."""
    by_name = {finding.name: finding for finding in reversed(told)}
    if name not in by_name:
        near = suggestion(name, [*by_name]) or f"Run without {option} to list the findings."
        raise refuse(Problem(option, f"no finding is called {name!r}", near))
    return by_name[name]


def _script(
    told: Sequence[SweepFinding],
    options: SweepOptions,
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    sides: tuple[str, str],
) -> ExitCode:
    finding = _named(told, "--script", options.script)
    tell = cli.line_printer(cli.stderr_console(), "dim")
    cli.print_stdout(script_of(finding, recipes, runner, sides, tell))
    return ExitCode.AS_EXPECTED


def _commit(
    told: Sequence[SweepFinding],
    options: SweepOptions,
    runner: SweepRunner,
    recipes: Mapping[str, ModelRecipe],
    sides: tuple[str, str],
) -> ExitCode:
    change = _named(told, "--commit", options.commit).changes[0]
    loaded, console = runner.project, cli.stderr_console()
    (clone,) = _clones(loaded.paths, options)
    older, newer = (loaded.environments[name] for name in sides)
    (answer,) = find_commits(
        Home(paths=loaded.paths, matrix=loaded.matrix, locks=loaded.locks),
        clone,
        [inquiry_of(change, recipes[change.after.key.kind], older, newer)],
        Terms(limits=loaded.matrix.limits, device=Device.CPU, sandbox=runner.sandbox),
        lambda event: console.print(f"  {heard(event)}", markup=False),
    )
    typed = f"nox -s sweep -- {shlex.join(cli.portable(sys.argv[2:]))}"
    cli.print_stdout(write(commits_document(answer, typed), "text"))
    return answer.ending.code


def _print(
    swept: MeasuredSides,
    told: Sequence[SweepFinding],
    live: Sequence[SweepFinding],
    options: SweepOptions,
    triage: Triage,
) -> None:
    against, release = swept.names
    listed = 10**6 if options.every else _LISTED
    stands = plural(swept.as_published, "cell")
    known = f"; {stands} as published" if swept.as_published else ""
    lines = [
        f"{release} against {against}",
        f"  {against}: {render.counted(swept.older.values())}{known}",
        f"  {release}: {render.counted(swept.newer.values())}",
    ]
    lines += render.told(told, listed, triage)
    if not told:
        lines.append("Nothing changed.")
    kinds = {kind for finding in live for kind in finding.kinds}
    lines.append(
        f"In 16 bit on {release}: {plural(len(live), 'finding')} in {counted_kinds(kinds)}"
    )
    lines += list(render.told(live, listed, triage))[1:]
    cli.print_stdout("\n".join(lines) + "\n")


def _releases(loaded: Project, options: SweepOptions) -> tuple[str, str]:
    """Return the release to sweep and the one to compare with; raises RunnerError."""
    names = [*releases_of(loaded), MAIN]
    for option, typed in (("--release", options.release), ("--against", options.against)):
        if typed and typed not in names:
            near = suggestion(typed, names)
            raise refuse(InvalidValue(option, typed, f"{names[0]} … {names[-2]}, or main", near))
    release = options.release or names[-2]
    before = names[: names.index(release)]
    return release, options.against or (before[-1] if before else release)


def _probes(options: SweepOptions) -> tuple[ProbeName, ...]:
    every = {probe.name: probe for probe in chosen_probes(fp16=True)}
    if options.probe:
        return tuple(every[name] for name in _matching("--probe", options.probe, every))
    return cheap_probes() if options.classes else chosen_probes(fp16=options.fp16)


def _models(options: SweepOptions, recipes: Mapping[str, ModelRecipe]) -> list[str]:
    """Return the recipes that are asked for; the name of an architecture is all its classes."""
    if not options.classes or not options.model:
        return _matching("--model", options.model, recipes)
    types = dict.fromkeys(recipe.type for recipe in recipes.values())
    chosen = [name for name in recipes if making.is_named(name, options.model)]
    return chosen or _matching("--model", options.model, types)


def _matching(option: str, patterns: Sequence[str], known: Mapping[str, object]) -> list[str]:
    """Return the names that patterns match, without any all; raises RunnerError."""
    if not patterns:
        return [*known]
    chosen: dict[str, None] = {}
    for pattern in patterns:
        matches = fnmatch.filter(known, pattern)
        if not matches:
            near = suggestion(pattern, [*known])
            raise refuse(Problem(option, f"nothing is called {pattern!r}", near))
        chosen |= dict.fromkeys(matches)
    return [name for name in known if name in chosen]


def _share(names: list[str], text: str) -> list[str]:
    """Return the share of a shard; neighbours in the alphabet, which cost alike, are dealt out."""
    if not text:
        return names
    mine = shard(text)
    return names[mine.number - 1 :: mine.count]


@contextlib.contextmanager
def _runner(loaded: Project, options: SweepOptions, console: Console) -> Iterator[SweepRunner]:
    sandbox = sandbox_of(options.ray, options.sandbox, console)
    until = time.monotonic() + seconds_of(options.budget) if options.budget else math.inf
    store = Store(loaded.paths.sweep, cli.line_printer(console, "yellow"))
    with contextlib.closing(store), ProgressDisplay(console) as display:
        yield SweepRunner(
            project=loaded,
            store=store,
            jobs=options.jobs or (0 if options.ray else cores()),
            engine=lambda planned: engine_of(planned, options.ray, display),
            largest=_ON_A_NODE if options.ray else 0,
            sandbox=sandbox,
            listener=display,
            rerun=options.rerun,
            until=until,
        )


def _make(
    loaded: Project, scope: making.SweepScope, options: SweepOptions, console: Console
) -> ExitCode:
    release, _ = _releases(loaded, options)
    with _runner(loaded, options, console) as runner:
        made = making.make_recipes(runner, release, scope, options.model)
    cli.print_stdout(render.coverage(release, made) + "\n")
    return ExitCode.INTERRUPTED if made.interrupted else ExitCode.AS_EXPECTED


def _merging(
    runner: SweepRunner, scope: making.SweepScope, names: Sequence[str], console: Console
) -> dict[str, publishing.MeasuredRelease]:
    """Return what this machine measured, and say first what takes long."""
    console.print("Merging what this machine measured into what is published.")
    return publishing.measured(runner, scope, names)


def _between(
    loaded: Project, scope: making.SweepScope, options: SweepOptions, console: Console
) -> ExitCode:
    """Measure what lies between neighbours that differ, until none do or nothing is answered."""
    began, recipes = time.monotonic(), scope.recipes
    earlier = published.read_history(loaded.paths.published, scope.folder)
    before, names = -1, releases_of(loaded)
    with _runner(loaded, options, console) as runner:
        mine = _merging(runner, scope, names, console)
        while before < runner.counts["measured"]:
            line = publishing.merged(mine, names, recipes, earlier, gaps=True).history
            wanted = _wanted_between(line, names, recipes, options)
            if options.dry_run:
                _print_planned(wanted, console)
                return ExitCode.AS_EXPECTED
            before = runner.counts["measured"]
            if runner.measure(wanted).interrupted:
                return _interrupted(console)
            mine |= publishing.measured(runner, scope, wanted)
    _print_counts(runner, time.monotonic() - began, console)
    return ExitCode.AS_EXPECTED


def _wanted_between(
    line: SweepHistory,
    names: Sequence[str],
    recipes: Mapping[str, ModelRecipe],
    options: SweepOptions,
) -> dict[str, dict[str, Case]]:
    """Return the cells to measure next, by release: architectures that differ, and new probes."""
    models = {*_models(options, recipes)}
    typed = {probe.name for probe in _probes(options)} if options.probe else None

    def cases(kinds: Iterable[str], probes: frozenset[str]) -> dict[str, Case]:
        asked = probes if typed is None else probes & typed
        some = [probe for probe in chosen_probes(fp16=True) if probe.name in asked]
        return probe_cases([recipes[kind] for kind in kinds if kind in models], some)

    wanted = {
        name: cases(line.releases[name].chosen, probes)
        for name, probes in new_probes(line, names).items()
    }
    for name, kinds in lacking(line, names, first=True).items():
        wanted[name] = wanted.get(name, {}) | cases(kinds, probes_between(line, names, name))
    return {name: some for name, some in wanted.items() if some}


def _publish(
    loaded: Project, scope: making.SweepScope, options: SweepOptions, console: Console
) -> ExitCode:
    paths, recipes, folder = loaded.paths, scope.recipes, scope.folder
    earlier = published.read_history(paths.published, folder)
    with _runner(loaded, options, console) as runner:
        names = releases_of(loaded)
        mine = _merging(runner, scope, names, console)
        merged = publishing.merged(mine, names, recipes, earlier)
        refused = publishing.refused(
            runner, scope, merged, published.read_refused(paths.published, folder)
        )
        known = published.read_findings(paths.published, folder)
        told = publishing.told(runner, recipes, merged, known)
    for name, cells in merged.incomplete.items():
        console.print(f"{name}: {plural(cells, 'cell')} to measure; it is left as it was.")
    if not merged.fresh:
        problem = Problem("the sweep", "no release was measured on this machine")
        raise refuse(problem, ExitCode.NOTHING_SELECTED)
    texts = published.texts(paths.published, merged.history, refused, told, folder)
    files.write_all(texts)
    size = sum(len(text) for text in texts.values()) / 1e6
    number, where = plural(len(merged.history.releases), "release"), paths.published / folder
    console.print(f"{number}, {size:.1f} MB: {paths.shown(where)}")
    return ExitCode.AS_EXPECTED
