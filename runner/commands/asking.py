"""What commands that answer have in common: the question as it was typed, and what to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from runner import project
from runner.answering.known import Known, Question, standing_still
from runner.answering.levels import TRANSFORMERS, named
from runner.errors import Fault, refuse
from runner.evidence.glances import of_places
from runner.model.case import PLAIN
from runner.model.cell import Source
from runner.model.naming import taken_apart
from runner.planning.selection import named_cases, select

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rich.console import Console

    from runner.evidence.published import Keep
    from runner.installed.packages import Installed
    from runner.model.outcomes import Device, Precision
    from runner.places import Places
    from runner.planning.selection import Wish
    from runner.project import Project


def asked(places: Places, wish: Wish, ignore: Sequence[str] = ()) -> tuple[Project, Question]:
    """Return the checkout and the question as values; raises RunnerError for what is not there."""
    loaded = project.load(places, code=False)
    selection = select(wish, loaded.cases, loaded.names)
    ignored = named_cases(ignore, list(loaded.cases), "ignore") if ignore else ()
    question = Question(
        cases=tuple(name for name in loaded.cases if name in selection.cases),
        precisions=tuple(one for one in loaded.matrix.precisions if one in selection.precisions),
        device=wish.device,
        ignored=frozenset(ignored),
    )
    if not question.chosen(loaded.cases):
        found, allowed = "every chosen case", "cases that are left"
        raise refuse(Fault(where="--ignore", found=found, allowed=allowed))
    return loaded, question


def known_of(
    loaded: Project, question: Question, told: Callable[[], Console], wanted: Keep
) -> Known:
    """Read the wanted evidence of the chosen cases from the repository and from this machine."""
    names = {case.name for case in question.chosen(loaded.cases)}
    still = standing_still(loaded.environments)
    about = (loaded.cases, still)
    seen = of_places(
        loaded.places, lambda text: told().print(text, style="yellow"), about, names, wanted
    )
    return Known(cases=loaded.cases, environments=still, seen=seen)


def plain(question: Question) -> Keep:
    """Return what wants the plain cells of a question, and nothing else."""

    def keep(
        _: str, workaround: str, precision: Precision, device: Device
    ) -> frozenset[str] | None:
        asked = device is question.device and precision in question.precisions
        return None if asked and workaround == PLAIN else frozenset()

    return keep


def around(installed: Installed, loaded: Project, question: Question) -> Keep:
    """Return what wants the plain cells, and of workarounds those near a version."""
    near = _near(installed, loaded)
    programs = {one.program for one in loaded.environments.values()}
    others = {
        case.name
        for case in loaded.cases.values()
        if len(named(case)) > 1 or programs & case.packages
    }
    plainly = plain(question)

    def keep(
        case: str, workaround: str, precision: Precision, device: Device
    ) -> Collection[str] | None:
        wanted = plainly(case, PLAIN, precision, device)
        if wanted is not None or workaround == PLAIN or case in others:
            return wanted
        return near

    return keep


_NEIGHBOURS = 3


def _near(installed: Installed, loaded: Project) -> frozenset[str]:
    """Return the environments of the releases on both sides of a version."""
    if not installed.version(TRANSFORMERS):
        return frozenset()
    ours = Version(installed.version(TRANSFORMERS))
    names = [one.name for one in loaded.matrix.releases]
    exact = [name for name in names if Version(name) == ours]
    older = [name for name in names if Version(name) <= ours][-_NEIGHBOURS:]
    newer = [name for name in names if Version(name) >= ours][:_NEIGHBOURS]
    bases = set(exact or [*older, *newer])
    return frozenset(
        one.name
        for one in loaded.environments.values()
        if one.source is Source.RELEASE and taken_apart(one.name).base in bases
    )
