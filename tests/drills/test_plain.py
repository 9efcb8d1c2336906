"""Which plain scripts are run, and what it means that one ends as its cell does."""

from __future__ import annotations

import factories

from drills.plain import is_same, plain_cases, units_of
from repromatrix.runner.model.case import by_variant
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

CODE = """\
import sys


def main(precision: str, workaround: str = "") -> None:
    if precision == "fp32":
        sys.exit(125)
    go(precision, workaround)


if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def test_a_case_is_run_as_its_plain_script_where_it_does_not_decline() -> None:
    case = factories.case("", CODE)
    found = {
        precision: [one.script.text for one in plain_cases({"toy": case}, precision).values()]
        for precision in Precision
    }

    assert found == {
        Precision.FP32: [],
        Precision.BF16: ['go("bf16", "")\n'],
        Precision.FP16: ['go("fp16", "")\n'],
    }


def test_each_variant_has_a_script_of_its_own() -> None:
    toml = 'variants = ["small", "big"]\n'
    chosen = 'go(os.environ.get("REPRO_VARIANT", "small"))'
    code = CODE.replace("go(precision, workaround)", chosen)
    cases = by_variant(factories.case(toml, code.replace("import sys", "import os\nimport sys")))
    plain = plain_cases({case.name: case for case in cases}, Precision.BF16)

    assert {case.path: case.script.text for case in plain.values()} == {
        "toy_breaks[small].py": 'go("small")\n',
        "toy_breaks[big].py": 'go("big")\n',
    }


def test_only_cells_of_these_cases_that_apply_are_run() -> None:
    cells = [Cell(name, "", "4.50.0", Precision.BF16, Device.CPU) for name in ("b", "a", "other")]
    known = {cell: factories.seen(Outcome.PASSES, cell) for cell in cells}
    left_out = cells[0]._replace(environment="4.49.0")
    known[left_out] = factories.seen(Outcome.NOT_APPLICABLE, left_out)

    assert [(unit.environment, unit.cells) for unit in units_of(known, {"a", "b"})] == [
        ("4.50.0", (cells[1], cells[0]))
    ]


def test_the_same_outcome_with_another_exception_is_another_end() -> None:
    cell = Cell("a", "", "4.50.0", Precision.BF16, Device.CPU)
    fails, other, words = (
        factories.seen(Outcome.FAILS, cell, how=factories.failed(*how))
        for how in (("ValueError", "it"), ("KeyError", "it"), ("ValueError", "that"))
    )
    passes = factories.seen(Outcome.PASSES, cell)

    assert [is_same(fails, one) for one in (fails, words, other, passes)] == [
        True,
        True,
        False,
        False,
    ]
    assert is_same(passes, passes)
