"""What a zygote answers is stored without where on this machine things lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.engine.answers import placeless
from runner.places import ROOT

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
