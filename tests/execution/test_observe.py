"""What a worker answers is stored without where on this machine things lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories import case, cell
from one_case import ready_in

from repromatrix.runner.execution.pool import observe, ordered
from repromatrix.runner.execution.worker_client import placeless
from repromatrix.runner.model.observation import MemoryUse, Provenance
from repromatrix.runner.paths import ROOT

FOLDER = Path("/home/me/a clone/.nox/environments/4.50.0-01234567")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"({FOLDER}/lib/python3.11/site-packages/torch/x.py)", "(site-packages/torch/x.py)"),
        ("/usr/lib/python3.11/site-packages/peft/y.py", "site-packages/peft/y.py"),
        (
            'File "/opt/python/lib/python3.11/runpy.py", line 3',
            'File "python3.11/runpy.py", line 3',
        ),
        (f'File "{ROOT}/cases/toy_breaks.py", line 3', 'File "cases/toy_breaks.py", line 3'),
        (f"{ROOT}/there/torch/site-packages/torch/x.py", "site-packages/torch/x.py"),
        ("no /tmp/repromatrix-x1/cells/cell-ab_c/out here", "no <cell>/out here"),
        ("mat1 and mat2: float != c10::BFloat16", "mat1 and mat2: float != c10::BFloat16"),
    ],
)
def test_places_are_taken_out(text: str, expected: str) -> None:
    assert expected == placeless(text, FOLDER)


def test_a_set_of_dtypes_is_told_in_one_order() -> None:
    one, other = "got {torch.float32, torch.float16}", "got {torch.float16, torch.float32}"

    assert ordered(one) == ordered(other) == other
    assert (
        ordered("got {'b': 1, 'a': 2} and {torch.int8}") == "got {'b': 1, 'a': 2} and {torch.int8}"
    )


@pytest.mark.parametrize(
    ("answer", "memory", "reason"),
    [
        ({"outcome": "passes"}, None, ""),
        ({"outcome": "passes", "peak": 7, "limit": 9}, MemoryUse(peak=7, limit=9), ""),
        (
            {"outcome": "out-of-memory", "peak": 10, "limit": 9},
            MemoryUse(peak=10, limit=9),
            "above our limit of 9 MiB",
        ),
        ({"outcome": "out-of-memory", "peak": 9, "limit": 9}, MemoryUse(peak=9, limit=9), ""),
    ],
)
def test_the_memory_of_a_cell_is_kept_and_our_limit_is_told_from_the_machine_s(
    answer: dict[str, object], memory: MemoryUse | None, reason: str
) -> None:
    provenance = Provenance(
        case_digest=case().digest,
        environment_digest="",
        packages={},
        python="",
        torch_build="",
        hardware="",
        protocol=1,
        run="",
    )
    row = observe(cell(), answer, provenance, ready_in(Path("/nowhere")))

    assert (row.memory, row.reason) == (memory, reason)
