"""repromatrix: reported dtype bugs, measured on every release of transformers.

`docs/api.md` describes the names below; they are imported when they are first used, so that to
import this package costs nothing. `repromatrix.runner` and `repromatrix.reports` are its inside. In
a checkout these are symbolic links to the top-level folders, in a distribution the folders.
`repromatrix.sweep` and `repromatrix.tools` measure, and are in a checkout alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repromatrix.api import (
        Advice,
        Audit,
        Case,
        CellAnswer,
        Diagnosis,
        Hit,
        Level,
        ModelFacts,
        Observation,
        Precision,
        RunnerError,
        Snapshot,
        advise,
        audit,
        cases,
        doctor,
        evidence,
    )

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


def __getattr__(name: str) -> object:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from repromatrix import api  # noqa: PLC0415 - it takes a quarter of a second

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
