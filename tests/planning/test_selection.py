"""What was asked for: names, globs, specifiers, and what is refused."""

from __future__ import annotations

import pytest
from factories import case, case_text, cell
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.case import read_case
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.planning.selection import (
    SelectionRequest,
    environments_of,
    named_cases,
    select,
)

NAMES = (
    "4.49.0",
    "4.50.0",
    "4.50.3",
    "4.51.0",
    "5.0.0",
    "4.50.0+timm",
    "4.53.3+peft0.15.2",
    "main",
)
EAGER = "workarounds.eager = 'Choose eager.'"
TOYS = {
    one.name: one
    for one in (case(EAGER, name="toy_breaks"), case(name="toy_melts"), case(name="car_stops"))
}
RELEASES = st.sampled_from([*NAMES[:5], "4.50", "4.49.5", "4.52", "5"])
CLAUSES = st.builds(
    str.__add__, st.sampled_from([">=", "<=", ">", "<", "==", "!=", "~="]), RELEASES
)


@given(st.lists(CLAUSES.filter(lambda text: text != "~=5"), min_size=1, max_size=3))
def test_a_specifier_selects_what_packaging_does_of_releases_and_their_extras(
    clauses: list[str],
) -> None:
    text = ",".join(clauses)
    expected = list(SpecifierSet(text).filter(NAMES[:5]))
    expected += ["4.50.0+timm"] * ("4.50.0" in expected)

    assert expected == environments_of([text], NAMES)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], list(NAMES)),
        (["main"], ["main"]),
        (["main,4.49.0"], ["4.49.0", "main"]),
        (["4.50.3", "4.49.0", "4.49.0"], ["4.49.0", "4.50.3"]),
        ([">=5", "main"], ["5.0.0", "main"]),
        (["4.50.0+timm"], ["4.50.0+timm"]),
        (["4.53.3+peft0.15.2, main"], ["4.53.3+peft0.15.2", "main"]),
    ],
)
def test_names_are_selected_in_the_order_of_the_table(
    texts: list[str], expected: list[str]
) -> None:
    assert expected == environments_of(texts, NAMES)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((), {"toy_breaks", "toy_melts", "car_stops"}),
        (("toy*",), {"toy_breaks", "toy_melts"}),
        (("toy_melts,car_*",), {"toy_melts", "car_stops"}),
        (("toy_?elts", "none*"), {"toy_melts"}),
    ],
)
def test_cases_are_selected_by_name_and_glob(patterns: tuple[str, ...], expected: set[str]) -> None:
    assert expected == select(SelectionRequest(case=patterns), TOYS, NAMES).cases


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("toy_breaks", ["toy_breaks[one]", "toy_breaks[two]"]),
        ("toy_breaks[two]", ["toy_breaks[two]"]),
        ("toy_*", ["toy_breaks[one]", "toy_breaks[two]"]),
        ("*_breaks", ["toy_breaks[one]", "toy_breaks[two]"]),
    ],
)
def test_a_name_selects_its_variants_or_one_of_them(pattern: str, expected: list[str]) -> None:
    names = ["toy_breaks[one]", "toy_breaks[two]", "car_stops"]

    assert expected == named_cases([pattern], names)


def test_a_variant_that_no_case_has_is_unknown() -> None:
    with pytest.raises(RunnerError, match=r"unknown case 'toy_breaks\[tow\]'.*toy_breaks\[two\]"):
        named_cases(["toy_breaks[tow]"], ["toy_breaks[one]", "toy_breaks[two]"])


def test_an_area_selects_its_cases() -> None:
    text = (
        "# /// script\n# [tool.repromatrix]\n# title = 'x'\n# reports = ['https://example.org']\n"
        "# area = 'cars'\n# models = ['x']\n# ///\n"
    )
    cases = {**TOYS, "van_stops": read_case(text, "cases/van_stops.py")}

    assert select(SelectionRequest(area=["cars"]), cases, NAMES).cases == {"van_stops"}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (cell(), True),
        (cell("4.49.0"), False),
        (cell(precision=Precision.FP16), False),
        (cell(workaround="eager"), False),
        (cell(device=Device.CUDA), False),
        (cell(name="toy_melts"), False),
    ],
)
def test_a_cell_is_selected_when_all_its_parts_are(where: object, expected: bool) -> None:  # noqa: FBT001
    wish = SelectionRequest(
        case=["toy_breaks"], release=["4.50.0"], precision=["bf16"], workaround=["none"]
    )

    assert expected is select(wish, TOYS, NAMES)(where)  # type: ignore[arg-type]


def test_without_a_workaround_named_every_variant_is_selected() -> None:
    chosen = select(SelectionRequest(), TOYS, NAMES)

    assert (chosen(cell()), chosen(cell(workaround="eager"))) == (True, True)


def test_a_model_selects_its_cases_and_those_about_any_model() -> None:
    any_model = 'models = "any"\nshown-with = ["llama"]\nconcerns = "Every model."'
    text = case_text().replace('models = ["toy"]', any_model.replace("\n", "\n# "))
    cases = {"toy_breaks": case(), "adapter_stops": read_case(text, "cases/adapter_stops.py")}

    def chosen(model: str) -> set[str]:
        return set(select(SelectionRequest(model=(model,)), cases, NAMES).cases)

    assert chosen("toy") == {"toy_breaks", "adapter_stops"}
    assert chosen("llama") == {"adapter_stops"}
