"""What was published of the sweep, for models that somebody asks about."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from repromatrix.runner.audit.swept import SweptAnswer
    from repromatrix.runner.evidence.swept.history import SweepHistory


class SweptModels:
    """The architectures that were swept, for models that are asked for.

    The code of the sweep is imported where there are any: most ask without.
    """

    def __init__(self, paths: Paths) -> None:
        """Read nothing yet: without models the sweep is not asked."""
        self._paths = paths

    @cached_property
    def _histories(self) -> tuple[SweepHistory, SweepHistory]:
        """What was swept of architectures, and of their further classes."""
        from repromatrix.runner.evidence.swept.published import CLASSES, read_history  # noqa: PLC0415

        published = self._paths.published
        return read_history(published), read_history(published, CLASSES)

    def answers(
        self, models: Sequence[str], version: str, precisions: Collection[Precision]
    ) -> tuple[SweptAnswer, ...]:
        """Return what is known of models at a version of transformers."""
        if not models:
            return ()
        from repromatrix.runner.audit import swept as answers  # noqa: PLC0415
        from repromatrix.runner.evidence.swept.published import FOLDER  # noqa: PLC0415
        from repromatrix.runner.evidence.swept.triage import load_triage  # noqa: PLC0415

        history, classes = self._histories
        kinds = answers.named(history, models)
        triage = load_triage(self._paths.published / FOLDER) if kinds else {}
        swept = answers.swept(history, kinds, version, precisions, classes)
        return tuple(dataclasses.replace(answer, triage=triage) for answer in swept)
