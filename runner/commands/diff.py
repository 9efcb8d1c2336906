"""`diff`: two environments, a release and a checkout, or two sets of evidence.

What broke, is fixed, changed, is new, is gone: cell by cell.
"""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner import campaign, project
from runner.commands.diff_sets import compare_evidence
from runner.commands.formats import check_format
from runner.commands.own import own_files
from runner.commands.sandboxing import walled
from runner.comparing import both
from runner.comparing.asked import Asked, of_pairs
from runner.comparing.checkout import Bench
from runner.comparing.evidence import is_evidence
from runner.engine.hardware import cores, demand
from runner.environments.checkout import read_checkout
from runner.errors import ExitCode, Fault, Interrupted, refuse
from runner.evidence import reading
from runner.evidence.store import Store
from runner.judging.difference import Change, compare
from runner.model.matrix import MAIN
from runner.model.naming import asked as taken
from runner.planning.selection import select
from runner.telling import difference, pasted
from runner.telling.difference import Answer
from runner.terminal.progress import Display
from runner.terminal.speaking import say

if TYPE_CHECKING:
    from rich.console import Console

    from runner.comparing.both import Sides
    from runner.environments.checkout import Checkout
    from runner.places import Places
    from runner.planning.selection import Wish
    from runner.project import Project


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparing:
    """The arguments of `diff` as they were typed."""

    before: str
    after: str
    wish: Wish
    format: str
    jobs: int
    rerun: bool
    sandbox: bool | None = None
    every_device: bool = False
    """Whether no device was named: two sets of evidence are compared on all that they hold."""


def compare_sides(places: Places, options: Comparing, console: Console) -> ExitCode:
    """Print what differs between two sides; whatever has to be run for it is kept."""
    check_format(options.format)
    places, files = own_files(places, options.wish.case, "--case")
    loaded = project.load(places, files, _derived(options))
    if any(is_evidence(text, loaded) for text in (options.before, options.after)):
        return compare_evidence(loaded, options)
    demand(options.wish.device)
    wish = (
        options.wish
        if files is None
        else dataclasses.replace(options.wish, case=tuple(loaded.cases))
    )
    before = _environment(options.before, loaded, "the first side")
    checkout = None if options.after in loaded.names else _checkout(options.after, before, loaded)
    asked = _asked(
        loaded, wish, options, [before] if checkout else [before, options.after], console
    )
    try:
        sides = _sides(asked, options, checkout, console)
    except Interrupted:
        console.print("What was measured is kept; the same command goes on from there.")
        raise
    return _tell(asked, options, checkout, sides)


def _derived(options: Comparing) -> list[str]:
    """Return the named environments that no case may have asked for; raises RunnerError."""
    names = [name for name in (options.before, options.after) if _is_derived(name)]
    return [name for name in names if taken(name, "diff").base != MAIN]


def _is_derived(text: str) -> bool:
    return "+" in text and not _is_path(text)


def _is_path(text: str) -> bool:
    return "/" in text or text.startswith((".", "~")) or Path(text).exists()


def _environment(text: str, loaded: Project, where: str) -> str:
    if text in loaded.names:
        return text
    nearest = difflib.get_close_matches(text, loaded.names, n=1, cutoff=0.3)
    remedy = f"Did you mean {nearest[0]!r}?" if nearest else ""
    if _is_path(text):
        remedy = "Name the release first, then the checkout: `nox -s diff -- RELEASE PATH`."
    first, newest = loaded.matrix.releases[0].name, loaded.matrix.releases[-1].name
    allowed = f"a release from {first} to {newest}, main, a pair, or evidence on both sides"
    raise refuse(Fault(where=where, found=repr(text), allowed=allowed, remedy=remedy))


def _checkout(text: str, base: str, loaded: Project) -> Checkout:
    if not _is_path(text):
        _environment(text, loaded, "the second side")
    if not loaded.environments[base].source.has_lock:
        newest = loaded.matrix.releases[-1].name
        allowed, remedy = "a release or a pair beside a checkout", f"Say {newest}."
        raise refuse(Fault(where="the first side", found=base, allowed=allowed, remedy=remedy))
    return read_checkout(Path(text))


def _asked(
    loaded: Project, wish: Wish, options: Comparing, names: list[str], console: Console
) -> Asked:
    selection = of_pairs(select(wish, loaded.cases, loaded.names), loaded, names)
    asked = Asked(
        project=loaded,
        selection=selection,
        terms=campaign.local_terms(
            loaded.matrix.limits,
            wish.device,
            options.jobs or cores(),
            sandbox=walled(options.sandbox, lambda text: console.print(text, style="dim")),
        ),
        rerun=options.rerun,
        watched=lambda: Display(console),
    )
    environments = frozenset(one for name in names for one in asked.environments(name))
    return dataclasses.replace(
        asked, selection=dataclasses.replace(selection, environments=environments)
    )


def _sides(asked: Asked, options: Comparing, checkout: Checkout | None, console: Console) -> Sides:
    def told(text: str) -> None:
        console.print(text, style="yellow")

    places = asked.project.places
    with reading.opened(places, told) as store:
        cases = asked.selection.cases
        rows = [*reading.published_rows(places, cases), *store.rows(cases)]
        if checkout is None:
            return both.of_environments(asked, (options.before, options.after), rows, store)
        trials = Store(places.trials, told)
        try:
            bench = Bench(asked, checkout, trials)
            return both.with_checkout(asked, options.before, bench, rows, store)
        finally:
            trials.close()


def _tell(asked: Asked, options: Comparing, checkout: Checkout | None, sides: Sides) -> ExitCode:
    answer = Answer(
        before=options.before,
        after=_named(checkout, options) if checkout else options.after,
        pairs=compare(*sides, asked.project.cases),
        cases=asked.project.cases,
        run=asked.terms.run,
        sides=(options.before, options.after),
        files=_files(asked, options),
    )
    if not answer.pairs:
        fault = Fault(where="diff", found="no cell on either side", allowed="an applicable case")
        raise refuse(fault, ExitCode.NOTHING_SELECTED)
    match options.format:
        case "markdown":
            say(pasted.markdown(_for_strangers(answer, checkout)))
        case "json":
            say(pasted.as_json(_for_strangers(answer, checkout)))
        case _:
            say(difference.text(answer))
    return _code(answer)


def _files(asked: Asked, options: Comparing) -> dict[str, str]:
    return {Path(text).stem: text for text in options.wish.case} if asked.project.places.own else {}


def _for_strangers(answer: Answer, checkout: Checkout | None) -> Answer:
    """Take the places of this machine out of the commands."""
    after = f"path/to/{checkout.package}" if checkout else answer.sides[1]
    return dataclasses.replace(
        answer,
        sides=(answer.sides[0], after),
        files={name: f"path/to/{name}.py" for name in answer.files},
    )


def _named(checkout: Checkout, options: Comparing) -> str:
    how = checkout.standing
    facts = [
        f"commit {how.commit[:12]}" if how.commit else "no repository",
        *([f"branch {how.branch}"] if how.branch else []),
        *([f"{'edited, ' if how.commit else ''}content {how.content}"] if how.content else []),
    ]
    said = f"a checkout of {checkout.package} that claims {checkout.claims}"
    return f"{said} ({', '.join(facts)}), in the environment of {options.before}"


def _code(answer: Answer) -> ExitCode:
    if any(pair.change.differs for pair in answer.pairs):
        return ExitCode.UNEXPECTED
    # Nothing is known to differ; where nothing at all is known, that says nothing.
    unknown = answer.counts[Change.UNKNOWN] == len(answer.pairs)
    return ExitCode.UNDECIDED if unknown else ExitCode.AS_EXPECTED
