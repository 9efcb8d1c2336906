"""The question as it was typed, and the evidence that its answer needs, read from files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from repromatrix.runner.audit import index
from repromatrix.runner.audit.index import EvidenceIndex
from repromatrix.runner.audit.known import KnownEvidence
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import AuditQuestion, named
from repromatrix.runner.audit.settings import (
    AuditTerms,
    UsedSettings,
    find_settings,
    readdressed,
)
from repromatrix.runner.audit.torches import release_of
from repromatrix.runner.errors import Problem, RunnerError, refuse
from repromatrix.runner.evidence.published import Keep
from repromatrix.runner.evidence.snapshot import newest, today
from repromatrix.runner.model.case import PLAIN
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.environment_name import with_torch
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import TORCH, TRANSFORMERS
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import (
    SelectionRequest,
    asked_features,
    asked_models,
    named_cases,
    select,
    split,
)

_NEIGHBOURS = 3
_IGNORE = "--ignore"


class Asked(NamedTuple):
    """What is asked of which evidence, by the caller and by the settings of the project."""

    loaded: EvidenceIndex
    question: AuditQuestion
    models: Sequence[str]
    """As they were named, and as cases and transformers name them."""
    terms: AuditTerms


def asked(
    paths: Paths,
    typed: SelectionRequest,
    *,
    beside: Path | None = None,
    ignore: Sequence[str] = (),
    but: Sequence[str] = (),
) -> Asked:
    """Return what is asked; raises RunnerError for names that do not exist.

    Where something was not typed, the settings hold of the project of `beside`, else of the working
    directory, `but` for some keys.
    """
    used = find_settings(beside, today())
    used = used.without(*but) if used else None
    request = used.filled(typed) if used else typed
    loaded = index.load(paths)
    try:
        question = _question(loaded, request, ignore, used)
    except RunnerError as error:
        raise readdressed(error, used.addresses(typed) if used else {}) from error
    terms = AuditTerms(
        fail_on=used.settings.fail_on if used else (),
        used=used,
        taken=used.taken(typed) if used else {},
    )
    models = [*split(request.model), *sorted(question.models)]
    return Asked(loaded, question, models, terms)


def _question(
    loaded: EvidenceIndex,
    request: SelectionRequest,
    ignore: Sequence[str],
    used: UsedSettings | None,
) -> AuditQuestion:
    selection = select(request, loaded.cases, loaded.names)
    question = AuditQuestion(
        cases=tuple(name for name in loaded.cases if name in selection.cases),
        precisions=tuple(name for name in loaded.matrix.precisions if name in selection.precisions),
        device=request.device,
        ignored=_ignored(ignore, used, list(loaded.cases)),
        models=asked_models(request, loaded.cases),
        packages=frozenset(split(request.package)),
        features=asked_features(request),
    )
    if not question.chosen(loaded.cases):
        where = used.key("ignore") if used and not ignore else _IGNORE
        raise refuse(Problem(where, "it leaves no case", "Ignore fewer cases."))
    return question


def _ignored(ignore: Sequence[str], used: UsedSettings | None, names: list[str]) -> frozenset[str]:
    """Return the cases that options and settings leave out; raises RunnerError."""
    found = {*(named_cases(ignore, names, _IGNORE) if ignore else ())}
    for key, one in used.ignored.items() if used else ():
        try:
            found.update(named_cases([one.case], names, _IGNORE))
        except RunnerError as error:
            raise readdressed(error, {_IGNORE: f"{key}.case"}) from error
    return frozenset(found)


def known_of(
    loaded: EvidenceIndex,
    question: AuditQuestion,
    warn: Callable[[str], None],
    installed: Installed | None = None,
    *,
    workarounds: bool = False,
) -> KnownEvidence:
    """Read the evidence of the chosen cases from the repository and from this machine.

    That is their plain cells, and where a set of packages is given workarounds near its version,
    or all `workarounds`. `warn` is told what is wrong with the store of this machine.
    """
    names = {case.name for case in question.chosen(loaded.cases)}
    torch, keep = _torch(installed), _wanted(loaded, question, installed, workarounds=workarounds)
    local: list[Observation] = []
    if loaded.paths.store.exists():
        from repromatrix.runner.evidence import answers  # noqa: PLC0415 - mostly there is no store

        local = answers.stored(loaded.paths, warn, names, keep)
    found = loaded.known(names, keep, torch, local)
    return dataclasses.replace(found, snapshot=newest(loaded.paths.published, question.device))


def _torch(installed: Installed | None) -> str:
    """Return the version of torch, whatever its build; empty where it is not known."""
    version = installed.version(TORCH) if installed else ""
    return str(release_of(TORCH, version)) if version else ""


def _wanted(
    loaded: EvidenceIndex,
    question: AuditQuestion,
    installed: Installed | None,
    *,
    workarounds: bool,
) -> Keep:
    near = _near(installed, loaded) if installed else frozenset()
    torches = [_torch(installed), *(torch.version for torch in loaded.matrix.torch.others)]
    near |= {with_torch(name, torch) for name in near for torch in torches}
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
        is_whole = workarounds or workaround == PLAIN or case in by_several
        return None if is_whole else near

    return keep


def _near(installed: Installed, loaded: EvidenceIndex) -> frozenset[str]:
    """Return the environments of the releases on both sides of a version, or in a range."""
    releases = {release.name: Version(release.name) for release in loaded.matrix.releases}
    if TRANSFORMERS in installed.ranges:
        bases = {*SpecifierSet(installed.ranges[TRANSFORMERS]).filter(releases)}
    elif not installed.version(TRANSFORMERS):
        return frozenset()
    else:
        ours = Version(installed.version(TRANSFORMERS))
        older = [name for name, version in releases.items() if version <= ours][-_NEIGHBOURS:]
        newer = [name for name, version in releases.items() if version >= ours][:_NEIGHBOURS]
        bases = {name for name, version in releases.items() if version == ours} or {*older, *newer}
    return frozenset(
        environment.name
        for environment in loaded.environments.values()
        if environment.source is Source.RELEASE and environment.column in bases
    )
