"""The answers of `audit`, `advise` and `doctor`, the cases and the evidence, for programs.

What is public stands in `__all__` of the package, and in `docs/api.md`.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable, Mapping

from repromatrix.runner.audit import asking
from repromatrix.runner.audit.advice import Advice
from repromatrix.runner.audit.advice import advise as _advise
from repromatrix.runner.audit.doctor import Diagnosis, ModelFacts, diagnose, facts
from repromatrix.runner.audit.hits import Audit, Hit
from repromatrix.runner.audit.hits import audit as _audit
from repromatrix.runner.audit.inputs import read, running
from repromatrix.runner.audit.lines import file_of
from repromatrix.runner.audit.questions import CellAnswer, Level
from repromatrix.runner.audit.render import expired
from repromatrix.runner.audit.settings import AuditTerms
from repromatrix.runner.audit.swept_models import swept_models
from repromatrix.runner.cases import case_files, load_corpus
from repromatrix.runner.environments.locks import load_matrix
from repromatrix.runner.errors import InvalidValue, RunnerError, refuse
from repromatrix.runner.evidence.answers import published_rows
from repromatrix.runner.evidence.snapshot import Snapshot
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import TRANSFORMERS
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, one_of

__all__ = [
    "Advice",
    "Audit",
    "Case",
    "CellAnswer",
    "Diagnosis",
    "Hit",
    "Level",
    "ModelFacts",
    "Observation",
    "Precision",
    "RunnerError",
    "Snapshot",
    "advise",
    "audit",
    "cases",
    "doctor",
    "evidence",
]

_Names = str | Iterable[str]


def audit(  # noqa: PLR0913 - the options of the command
    path: str | os.PathLike[str] = "",
    *,
    cases: _Names = (),
    models: _Names = (),
    precisions: _Names = (),
    ignore: _Names = (),
    device: str = "cpu",
) -> Audit:
    """Return the known bugs of a set of packages, and what avoids them.

    `path` is whatever the command reads; without it, as there, the working directory, else the
    active interpreter. The other arguments select cells as its options do: one name or several,
    cases and models also by glob; none means all. Raises RunnerError for a file that cannot be read
    and for a name that does not exist.
    """
    installed = read(os.fspath(path))
    request = _request(cases, models, precisions, device)
    asked = asking.asked(Paths(), request, beside=file_of(installed), ignore=_listed(ignore))
    _tell_expired(asked.terms)
    known = asking.known_of(asked.loaded, asked.question, _warn, installed)
    return _audit(installed, known, asked.question)


def advise(
    *,
    cases: _Names = (),
    models: _Names = (),
    precisions: _Names = (),
    device: str = "cpu",
    have: str | os.PathLike[str] = "",
) -> Advice:
    """Return the release with the fewest known bugs, and a specifier.

    `have` is whatever `audit` reads: only what is in it counts. Raises RunnerError for a file that
    cannot be read and for a name that does not exist.
    """
    installed = read(os.fspath(have)) if have else None
    asked = asking.asked(Paths(), _request(cases, models, precisions, device))
    _tell_expired(asked.terms)
    known = asking.known_of(asked.loaded, asked.question, _warn, installed, workarounds=True)
    return _advise(known, asked.question, installed)


def doctor(model: object = None) -> Diagnosis:
    """Return which known bugs can hit this process: what is installed in it, and its model.

    Of a model its config, the dtypes and device of its weights, and its generation config are read;
    what it does not say leaves nothing out, and what the sweep found of its architectures is added.
    Nothing is imported for it. Raises RunnerError where transformers is not installed.
    """
    looked_at, paths = None if model is None else facts(model), Paths()
    found = diagnose(running(), looked_at, paths, _warn)
    kinds = looked_at.types if looked_at else ()
    version = found.audit.installed.version(TRANSFORMERS)
    swept = swept_models(paths, kinds, version, found.audit.question.precisions)
    if not swept:
        return found
    from repromatrix.runner.audit.swept import lines  # noqa: PLC0415 - most ask without models

    return dataclasses.replace(found, swept=tuple(lines(swept)))


def cases() -> Mapping[str, Case]:
    """Return the cases by name, each variant as a case of its own."""
    paths = Paths()
    extras = load_matrix(paths).extras
    found, faults = load_corpus(paths, case_files(paths.cases), extras, code=False)
    if faults:
        raise RunnerError(faults)
    return found


def evidence() -> tuple[Observation, ...]:
    """Return every published result of the grid."""
    return tuple(published_rows(Paths()))


def _request(cases: _Names, models: _Names, precisions: _Names, device: str) -> SelectionRequest:
    if device not in {*Device}:
        raise refuse(InvalidValue("device", device, one_of([*Device])))
    return SelectionRequest(
        case=_listed(cases),
        model=_listed(models),
        precision=_listed(precisions),
        device=Device(device),
    )


def _listed(names: _Names) -> list[str]:
    """Return names as a list; a text is one name, not its letters."""
    return [names] if isinstance(names, str) else list(names)


def _tell_expired(terms: AuditTerms) -> None:
    for line in expired(terms):
        _warn(line)


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)
