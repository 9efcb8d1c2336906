"""Whether stored evidence still answers for its cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.model.cell import PROTOCOL

if TYPE_CHECKING:
    from runner.model.case import Case
    from runner.model.cell import Environment
    from runner.model.observation import Observation


def is_current(seen: Observation, case: Case, environment: Environment) -> bool:
    """Say whether an observation was measured on this case, these pins and this way of running."""
    provenance = seen.provenance
    return (
        seen.outcome.was_run
        and provenance.case_digest == case.digest
        and provenance.environment_digest == environment.digest
        and provenance.protocol == PROTOCOL
    )
