"""Answers under the torch of somebody's packages, where a cell was measured under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from factories import BREAKS, case, cell, environment, installed, provenance, seen

from repromatrix.runner.audit.hits import Audit, audit
from repromatrix.runner.audit.known import KnownEvidence, known
from repromatrix.runner.audit.questions import AuditQuestion, Level
from repromatrix.runner.audit.render import document
from repromatrix.runner.document import write
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.outcomes import Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.runner.model.case import Case

FAILS, PASSES = Outcome.FAILS, Outcome.PASSES
BF16 = AuditQuestion(precisions=(Precision.BF16,))
LINE = {"4.49.0": PASSES, "4.50.0": FAILS, "4.51.0": PASSES}
UNDER = "4.50.0+torch2.6.0"
WARNING = "torch 2.13.0 for your 2.6.0"


def text(found: Audit) -> str:
    return write(document(found), "text")


def under(
    outcomes: Mapping[str, Outcome], of: Case | None = None, torch: str = "2.6.0"
) -> KnownEvidence:
    """Return what is known to somebody with a torch."""
    of = of or case(BREAKS)
    held = {name: _environment(name) for name in outcomes}
    rows = [
        seen(outcome, cell(name), ran=provenance(of, held[name]))
        for name, outcome in outcomes.items()
    ]
    return known({of.name: of}, held, rows, torch=torch)


def _environment(name: str) -> Environment:
    base, _, torch = name.partition("+torch")
    if torch:
        return environment(name, source=Source.TORCH, transformers=base, torch=torch)
    return environment(name)


def test_where_a_cell_was_measured_under_the_torch_of_somebody_that_is_the_answer() -> None:
    plain = audit(installed("4.50.0"), under(LINE), BF16)
    found = audit(installed("4.50.0"), under({**LINE, UNDER: PASSES}), BF16)

    assert [hit.case.name for hit in plain.hits] == ["toy_breaks"]
    assert WARNING in text(plain)
    assert not found.hits
    assert [(one.level, one.rests_on[0].cell.environment) for one in found.clear] == [
        (Level.MEASURED, UNDER)
    ]
    assert WARNING not in text(found)


def test_a_failure_under_it_says_where_it_was_measured_and_keeps_what_avoids_it() -> None:
    told = text(audit(installed("4.50.0"), under({**LINE, UNDER: FAILS}), BF16))

    assert f"  measured in {UNDER}: with your torch\n" in told
    assert "avoided by newer: transformers 4.51.0; older: transformers 4.49.0" in told
    assert WARNING not in told


def test_where_it_was_measured_for_another_release_or_torch_all_is_as_without_it() -> None:
    plain = text(audit(installed("4.50.0"), under(LINE), BF16))

    for name in ("4.49.0+torch2.6.0", "4.50.0+torch2.8.0"):
        assert text(audit(installed("4.50.0"), under({**LINE, name: PASSES}), BF16)) == plain


def test_of_a_case_that_depends_on_torch_the_evidence_of_its_side_answers() -> None:
    decides = case(BREAKS.replace("when = [", 'when = ["torch<2.8", '))
    line = {"4.50.0": PASSES, UNDER: FAILS, "4.50.0+torch2.8.0": PASSES}

    def told(torch: str) -> tuple[int, int, int]:
        found = audit(installed("4.50.0", torch=torch), under(line, decides, torch), BF16)
        return len(found.hits), len(found.clear), len(found.unknown)

    assert "torch<2.8" in str(decides.block.fails[0].when[0])
    assert told("2.6.0") == (1, 0, 0)
    assert told("2.8.0") == (0, 1, 0)
    assert told("2.13.0") == (0, 1, 0)
    assert told("2.9.0") == (0, 1, 0)  # between 2.8.0 and 2.13.0, on which nothing depends
    assert told("2.7.0") == (0, 0, 1)
