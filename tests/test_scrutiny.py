"""What makes a case a fair one: rules for its names, its source and its block."""

from __future__ import annotations

import pytest
from factories import BREAKS, CODE, case, case_text, environments

from runner.judging.scrutiny import scrutinise
from runner.model.case import Case, read_case
from runner.model.outcomes import Device, Precision

HELD = environments("4.49.0", "4.50.0", "4.50.3", "4.51.0")
EAGER = "workarounds.eager = 'Choose eager.'\n"


def _faults(toy: Case) -> list[str]:
    found = scrutinise(toy, HELD, tuple(Precision), [Device.CPU])
    return [str(fault).removeprefix("cases/toy_breaks.py: ") for fault in found]


def _with_code(*lines: str, toml: str = BREAKS) -> Case:
    return case(toml, CODE + "".join(f"{line}\n" for line in lines))


def test_a_fair_case_has_no_fault() -> None:
    assert _faults(case(EAGER + BREAKS)) == []


@pytest.mark.parametrize(
    ("toy", "expected"),
    [
        (
            case(name="toy"),
            (
                "cases/toy.py: file name: found 'toy'; allowed: <model or package>_<what>.py,"
                " words in lower case joined by _."
            ),
        ),
        (
            read_case(case_text().replace('"toys"', '"Big Toys"'), "cases/toy_breaks.py"),
            "area: found 'Big Toys'; allowed: lower-case words joined by -.",
        ),
        (
            read_case(case_text().replace('["toy"]', "[]"), "cases/toy_breaks.py"),
            "models: found an empty list; allowed: at least one model family.",
        ),
        (
            read_case(
                case_text('found-by = "measurement"').replace(
                    'title = "A toy breaks"\n# reports = ["https://example.org/1"]',
                    'title = ""\n# reports = []',
                ),
                "cases/toy_breaks.py",
            ),
            "title: found nothing; allowed: what fails, and on what, as the title of an issue.",
        ),
        (
            case("workarounds.Not_Kebab = 'x'"),
            "workarounds.Not_Kebab: found 'Not_Kebab'; allowed: lower-case words joined by -.",
        ),
        (
            case("needs = ['tpu']"),
            "needs: found 'tpu'; allowed: cuda.",
        ),
        (
            read_case(case_text().replace("https://", "http://"), "cases/toy_breaks.py"),
            "reports: found 'http://example.org/1'; allowed: https:// addresses.",
        ),
        (
            case(code="\nimport torch\n"),
            "docstring: found none; allowed: one sentence that says what must hold, then why.",
        ),
        (
            case(EAGER + BREAKS + "workarounds = ['egaer']"),
            "fails[0].workarounds: found 'egaer'; allowed: eager.",
        ),
        (
            case("[[tool.repromatrix.claims]]\nreport = 'somewhere'\nsays = 'x'"),
            "claims[0].report: found 'somewhere'; allowed: the https:// address of a report.",
        ),
        (
            case(BREAKS.replace("transformers>", "transfromers>")),
            (
                "fails[0].when: found 'transfromers', which no environment has;"
                " allowed: a package that some environment has."
            ),
        ),
    ],
)
def test_a_fault_of_the_block_is_told(toy: Case, expected: str) -> None:
    assert [expected] == _faults(toy)


def test_a_case_has_fewer_than_60_lines_of_code() -> None:
    fair, long = _with_code(*["x = 1"] * 57, "", ""), _with_code(*["x = 1"] * 58)
    expected = "length: found 60 lines of code; allowed: fewer than 60, blank ones not counted."

    assert ([], [expected]) == (_faults(fair), _faults(long))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch.__version__", "__version__"),
        ("__import__('sys').version_info", "version_info"),
        ("getattr(torch, '__version__')", "__version__"),
        ("from torch import __version__ as v", "__version__"),
        ("import importlib.metadata", "importlib.metadata"),
        ("from importlib import metadata", "metadata"),
        ("from importlib.metadata import version", "importlib.metadata"),
        ("import pkg_resources", "pkg_resources"),
        ("is_torch_version('>=', '2')", "is_torch_version"),
    ],
)
def test_a_case_that_reads_a_version_is_refused_at_its_line(line: str, found: str) -> None:
    toy = _with_code("x = 1", line)
    text = toy.script.block + toy.script.code
    number = text.splitlines().index(line) + 1
    allowed = "behaviour, not versions: expectations say which versions, the case does not"
    expected = f"line {number}: found it reads a version ({found}); allowed: {allowed}."

    assert [expected] == _faults(toy)


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("raise ValueError('it breaks')", True),
        ("raise ValueError(f'see, it breaks {1}')", True),
        ("raise ValueError('another one')", False),
        ("assert torch, 'it breaks'", False),
    ],
)
def test_a_case_that_raises_the_message_that_it_matches_is_refused(
    line: str,
    refused: bool,  # noqa: FBT001
) -> None:
    allowed = "an exception of the library, or an assert on something measured"
    toy = _with_code(line)
    number = (toy.script.block + toy.script.code).splitlines().index(line) + 1
    expected = f"line {number}: found it raises the message 'it breaks' itself; allowed: {allowed}."

    assert ([expected] if refused else []) == _faults(toy)


@pytest.mark.parametrize(
    ("lines", "isolation", "refused"),
    [
        (["os.environ['A'] = '1'", "import transformers"], "fork", True),
        (["os.environ.setdefault('A', '1')", "from transformers import x"], "fork", True),
        (["os.putenv('A', '1')", "import transformers.models"], "fork", True),
        (["os.environ['A'] = '1'", "import transformers"], "process", False),
        (["os.environ['A'] = '1'", "import json"], "fork", False),
        (["import transformers", "os.environ['A'] = '1'"], "fork", False),
        (["device = os.environ.get('A')", "import transformers"], "fork", False),
    ],
)
def test_settings_before_imports_demand_a_process(
    lines: list[str],
    isolation: str,
    refused: bool,  # noqa: FBT001
) -> None:
    toml, code = (
        f"isolation = '{isolation}'",
        "".join(f"{line}\n" for line in ["import os", *lines]),
    )
    toy = case(toml, code='"""A toy must not break."""\n' + code)
    number = (toy.script.block + toy.script.code).splitlines().index(lines[1]) + 1
    expected = (
        f"line {number}: found it sets environment variables before its imports;"
        ' allowed: `isolation = "process"` for such a case.'
    )

    assert ([expected] if refused else []) == _faults(toy)


def test_a_case_that_is_no_python_is_refused() -> None:
    toy = case(code='"""A toy must not break."""\nimport torch as\n')
    number = (toy.script.block + toy.script.code).splitlines().index("import torch as") + 1

    [fault] = _faults(toy)

    assert fault.startswith(f"line {number}: found ")
    assert fault.endswith("; allowed: Python that can be parsed.")


def test_overlapping_entries_are_refused_once_with_a_cell_of_theirs() -> None:
    toy = case(BREAKS + BREAKS.replace("4.50,<4.51", "4.49,<4.50") + BREAKS.replace(">=4.50,", ""))
    expected = [
        "fails[1] and fails[2]: found both hold for bf16 on 4.49.0; allowed: one entry per cell.",
        "fails[0] and fails[2]: found both hold for bf16 on 4.50.0; allowed: one entry per cell.",
    ]

    assert expected == _faults(toy)


def test_entries_that_overlap_only_where_there_is_no_environment_are_sound() -> None:
    toy = case(BREAKS + BREAKS.replace("4.50,<4.51", "4.50.1,<4.50.2"))

    assert _faults(toy) == []


def test_entries_of_different_variants_do_not_overlap() -> None:
    toy = case(EAGER + BREAKS + BREAKS + "workarounds = ['eager']")

    assert _faults(toy) == []
