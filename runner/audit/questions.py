"""The question of `audit` and `advise`, and the evidence that it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from packaging.version import Version

from repromatrix.runner import project
from repromatrix.runner.audit.levels import named
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.evidence.published import Keep
from repromatrix.runner.judging.verdicts import in_releases, only_in
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell, Environment, Source, belongs
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.model.packages import TRANSFORMERS
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, named_cases, select
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console

_STILL = frozenset({Source.RELEASE, Source.PAIR, Source.STACK})
"""`main` moves and an interpreter is its owner's: nobody else's versions equal theirs."""


@dataclass(frozen=True, kw_only=True)
class KnownEvidence:
    """Cases, the environments whose versions never change, and the rows of the one in the other."""

    cases: Mapping[str, Case]
    environments: Mapping[str, Environment]
    seen: Mapping[Cell, Observation]
    """The current row of each cell; contested cells have none."""
    contested: Mapping[Cell, Observation]
    """Cells about which the sources disagree: they answer nothing."""

    def of(self, case: Case) -> Iterator[Environment]:
        """Yield the environments that a case has cells in, in the order of the table."""
        return (held for held in self.environments.values() if belongs(case, held))

    def only_in(self, case: Case) -> tuple[Environment, ...]:
        """Return the stacks or pairs that have what a case needs and no release has."""
        return only_in(case, self.environments.values(), self._in_releases)

    @cached_property
    def _in_releases(self) -> frozenset[str]:
        return in_releases(self.environments.values())

    def releases(self) -> tuple[str, ...]:
        """Return the published releases, oldest first."""
        return tuple(
            environment.name
            for environment in self.environments.values()
            if environment.source is Source.RELEASE and not environment.extras
        )

    def ran_on(self, device: Device) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the builds of torch and the minor versions of Python that a device ran with."""
        ran = {
            (side.provenance.torch_build, side.provenance.python)
            for row in (*self.seen.values(), *self.contested.values())
            if row.cell.device is device and row.outcome.is_evidence
            for side in row.sides or (row,)
        }
        builds = {build for build, _ in ran if build}
        pythons = {".".join(python.split(".")[:2]) for _, python in ran if python}
        return tuple(sorted(builds)), tuple(sorted(pythons))

    def fails(self, cell: Cell) -> bool | None:
        """Return whether a cell fails; None where no result can be relied on."""
        row = self.seen.get(cell)
        return None if row is None else row.reading.fails

    def declines(self, cell: Cell) -> bool:
        """Return whether the case itself cannot judge there: no run would change that."""
        row = self.seen.get(cell)
        return row is not None and row.outcome is Outcome.DECLINES and not row.unstable

    def why_silent(self, cell: Cell) -> str:
        """Say why a cell has no answer; empty where it has one."""
        row = self.seen.get(cell)
        if row is None:
            return "has contradicting results" if cell in self.contested else "was not run"
        if row.reading.fails is not None:
            return ""
        if row.unstable:
            return "is unstable"
        if row.outcome.reading.fails is not None:
            return f"never computed in {cell.precision}"
        return row.outcome.verb


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditQuestion:
    """The chosen cells; no case means all of them."""

    cases: tuple[str, ...] = ()
    precisions: tuple[Precision, ...] = tuple(Precision)
    device: Device = Device.CPU
    ignored: frozenset[str] = frozenset()

    def chosen(self, cases: Mapping[str, Case]) -> tuple[Case, ...]:
        """Return the chosen cases without those that are ignored."""
        return tuple(cases[name] for name in self.cases or cases if name not in self.ignored)


def known(
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
    rows: Iterable[Observation],
) -> KnownEvidence:
    """Return what is known from evidence: only what is measured on today's cases and pins."""
    still = {
        name: environment
        for name, environment in environments.items()
        if environment.source in _STILL
    }
    seen, contested = current(rows, cases, still)
    return KnownEvidence(cases=cases, environments=still, seen=seen, contested=contested)


def asked(
    paths: Paths, request: SelectionRequest, ignore: Sequence[str] = ()
) -> tuple[Project, AuditQuestion]:
    """Return the checkout and the question; raises RunnerError for names that do not exist."""
    loaded = project.load(paths, code=False)
    selection = select(request, loaded.cases, loaded.names)
    ignored = named_cases(ignore, list(loaded.cases), "--ignore") if ignore else ()
    question = AuditQuestion(
        cases=tuple(name for name in loaded.cases if name in selection.cases),
        precisions=tuple(name for name in loaded.matrix.precisions if name in selection.precisions),
        device=request.device,
        ignored=frozenset(ignored),
    )
    if not question.chosen(loaded.cases):
        raise refuse(Problem("--ignore", "it leaves no case", "Ignore fewer cases."))
    return loaded, question


def known_of(
    loaded: Project,
    question: AuditQuestion,
    console: Callable[[], Console],
    installed: Installed | None = None,
) -> KnownEvidence:
    """Read the evidence of the chosen cases from the repository and from this machine.

    That is their plain cells, and where a set of packages is given workarounds near its version.
    """

    def warn(text: str) -> None:
        console().print(text, style="yellow")

    names = {case.name for case in question.chosen(loaded.cases)}
    keep = _wanted(loaded, question, installed)
    return known(loaded.cases, loaded.environments, answers.both(loaded.places, warn, names, keep))


def _wanted(loaded: Project, question: AuditQuestion, installed: Installed | None) -> Keep:
    near = _near(installed, loaded) if installed else frozenset()
    programs = {environment.program for environment in loaded.environments.values()}
    # Where several packages decide, the nearest version may be in any environment.
    by_several = {
        case.name
        for case in loaded.cases.values()
        if installed and (len(named(case)) > 1 or programs & case.packages)
    }

    def keep(
        case: str, workaround: str, precision: Precision, device: Device
    ) -> Collection[str] | None:
        if device is not question.device or precision not in question.precisions:
            return ()
        return None if workaround == PLAIN or case in by_several else near

    return keep


_NEIGHBOURS = 3


def _near(installed: Installed, loaded: Project) -> frozenset[str]:
    """Return the environments of the releases on both sides of a version."""
    if not installed.version(TRANSFORMERS):
        return frozenset()
    ours = Version(installed.version(TRANSFORMERS))
    releases = {release.name: Version(release.name) for release in loaded.matrix.releases}
    older = [name for name, version in releases.items() if version <= ours][-_NEIGHBOURS:]
    newer = [name for name, version in releases.items() if version >= ours][:_NEIGHBOURS]
    bases = {name for name, version in releases.items() if version == ours} or {*older, *newer}
    return frozenset(
        environment.name
        for environment in loaded.environments.values()
        if environment.source is Source.RELEASE and environment.column in bases
    )
