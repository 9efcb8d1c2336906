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
    if not seen.outcome.was_run:
        return False
    ran = seen.provenance
    return (
        ran.case_digest == case.digest
        and ran.environment_digest == environment.digest
        and ran.protocol == PROTOCOL
    )


def stands(measured_on: tuple[str, str, int], case: Case, environment: Environment) -> bool:
    """Say whether case digest, environment digest and protocol are still those of today."""
    return measured_on == (case.digest, environment.digest, PROTOCOL)


def contests(before: bool | None, after: bool | None, repeats: int) -> bool:  # noqa: FBT001
    """Say whether a later source contests what an earlier one saw fail, or pass.

    One that has repeated it does not contest it any more: it is right.
    """
    return repeats == 1 and before is not None and after is not None and before is not after
