"""What a case still lacks is told with what gives it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from factories import BREAKS, case, cell, environments, failed, seen

from repromatrix.runner.judging.lint import missing
from repromatrix.runner.judging.verdicts import Judged, judge_all
from repromatrix.runner.model.outcomes import Outcome

if TYPE_CHECKING:
    from repromatrix.runner.model.observation import Observation

TOY = case('workarounds = { eager = "Choose eager.", idle = "Hope.", new = "Wait." }\n' + BREAKS)
HELD = environments("4.49.0", "4.50.0")


def _row(outcome: Outcome, release: str, workaround: str = "") -> Observation:
    row = seen(outcome, cell(release, workaround=workaround))
    if outcome is Outcome.FAILS:
        row = dataclasses.replace(row, failed=failed())
    ran = dataclasses.replace(
        row.provenance, case_digest=TOY.digest, environment_digest=HELD[release].digest
    )
    return dataclasses.replace(row, provenance=ran)


def _judged(*rows: Observation) -> tuple[Judged, ...]:
    return judge_all(rows, {TOY.name: TOY}, HELD)


def test_a_workaround_that_never_passes_where_the_case_fails_is_named() -> None:
    rows = _judged(
        _row(Outcome.FAILS, "4.50.0"),
        _row(Outcome.PASSES, "4.49.0"),
        _row(Outcome.PASSES, "4.50.0", "eager"),
        _row(Outcome.PASSES, "4.49.0", "idle"),
        _row(Outcome.FAILS, "4.50.0", "idle"),
    )

    found = [*missing(TOY, rows, ["error < 0.1"])]

    assert "The workaround idle passes in no cell in which the plain case fails." in found
    assert not any("eager" in line or "new" in line for line in found)
    assert any(line.startswith("Not measured over several seeds: error < 0.1.") for line in found)
