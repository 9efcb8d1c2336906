"""What was published of the sweep, for models that somebody asks about."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from repromatrix.runner.audit.swept import SweptAnswer


def swept_models(
    paths: Paths, models: Sequence[str], version: str, precisions: Collection[Precision]
) -> tuple[SweptAnswer, ...]:
    """Return what the sweep found of models at a version of transformers.

    Its code is imported, and its tables read, where there are models: most ask without.
    """
    if not models:
        return ()
    from repromatrix.runner.audit.swept import named, swept  # noqa: PLC0415
    from repromatrix.runner.evidence.swept.published import (  # noqa: PLC0415
        CLASSES,
        FOLDER,
        read_history,
    )
    from repromatrix.runner.evidence.swept.triage import load_triage  # noqa: PLC0415

    history, classes = read_history(paths.published), read_history(paths.published, CLASSES)
    kinds = named(history, models)
    triage = load_triage(paths.published / FOLDER) if kinds else {}
    answers = swept(history, kinds, version, precisions, classes)
    return tuple(dataclasses.replace(answer, triage=triage) for answer in answers)
