"""Which releases a case is kept out of, and what it means that it fails there."""

from __future__ import annotations

from types import SimpleNamespace

import factories

from checks.bounds import judged, kept_out, unbound
from repromatrix.runner.evidence.bounds import BoundRow
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

RELEASES = ("4.49.0", "4.50.0", "4.51.0", "4.52.0", "4.53.0")
BOUND = factories.case(factories.BREAKS, dependencies=("torch", "transformers>=4.51,!=4.52.0"))


def loaded(case: object) -> SimpleNamespace:
    environments = {name: factories.environment(name) for name in RELEASES}
    return SimpleNamespace(environments=environments, cases={BOUND.name: case})


def test_a_case_is_run_once_below_its_bound_and_where_it_is_left_out() -> None:
    free = factories.case(dependencies=("torch", "transformers"))
    other = factories.case(dependencies=("torch", "transformers>=4.51", "scipy"))

    assert kept_out(loaded(BOUND), BOUND) == ["4.50.0", "4.52.0"]  # type: ignore[arg-type]
    assert kept_out(loaded(free), free) == []  # type: ignore[arg-type]
    assert kept_out(loaded(other), other) == []  # type: ignore[arg-type]
    assert [str(one) for one in unbound(BOUND).head.dependencies] == ["torch", "transformers"]


def test_a_failure_that_the_case_describes_is_hidden_and_no_other() -> None:
    cells = [Cell(BOUND.name, "", "4.50.0", precision, Device.CPU) for precision in Precision]
    fails = factories.failed()
    other = factories.failed("ImportError", "cannot import name")
    rows = [
        factories.seen(Outcome.FAILS, cell, how=how)
        for cell, how in zip(cells, (fails, fails, other), strict=True)
    ]

    found = judged(loaded(BOUND), rows)  # type: ignore[arg-type]

    base = BoundRow(BOUND.name, BOUND.digest, "4.50.0", "", "fails", "ValueError: it breaks", "")
    assert found == (
        base._replace(precision="fp32"),  # it is described in bf16 alone
        base._replace(precision="bf16", hides="yes"),
        base._replace(precision="fp16", error="ImportError: cannot import name"),
    )
