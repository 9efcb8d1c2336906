"""What the checks of the truth find: cases that are unstable, depend on how they are run, or
are green or red by construction.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
import ways
from factories import case_text, failed, seen

from checks import truth
from checks.construction import Known, What, asserts_itself, tried
from checks.sabotage import Sabotage, inverted, left_behind, sabotaged
from repromatrix.runner import project
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.project import Project

RELEASE = "4.50.0"
BLOCK = """
[tool.repromatrix.workarounds]
late = "Look for what others left behind."
[[tool.repromatrix.fails]]
raises = "{raises}"
match = "as described"
precisions = ["fp16"]
"""
HEAD = """import os, pathlib, sys
before = "torch" in sys.modules
import torch
late = len(sys.argv) > 2
half = sys.argv[1] == "fp16"
dtype = torch.float16 if half else torch.float32
"""

TRAITS = {
    "sound": "raise ValueError(sys.argv[1:])",
    "unstable": """
count = pathlib.Path({folder!r}, "-".join(sys.argv[1:]))
count.write_text(count.read_text() + "x" if count.exists() else "x")
raise ValueError(count.read_text())""",
    "hashes": "raise ValueError(hash('a text'))",
    "threads": "raise ValueError(torch.get_num_threads(), os.environ['OMP_NUM_THREADS'])",
    "order": """
mark = pathlib.Path({folder!r}, f"mark-{sys.argv[1]}")
late or mark.touch()
found = late and mark.exists()
late and mark.unlink(missing_ok=True)
raise ValueError(found)""",
    "witness": "raise ValueError(torch._C._len_torch_dispatch_stack())",
    "fresh": "raise ValueError(before)",
}
ALWAYS = {"unstable"}

WRONG = {
    "sound": "assert torch.tensor(1e5).to(dtype).isfinite(), 'as described'",
    "about_nothing": "torch.ones(1)\nassert torch is not None",
    "swallows_itself": """
try:
    assert torch.ones(1).sum() == 1
except AssertionError:
    pass""",
    "swallows_the_library": """
try:
    total = torch.ones(1).sum()
except OSError:
    total = 1
assert total == 1""",
    "fails_whatever": """
try:
    assert torch.tensor(1e5).to(dtype).isfinite()
except AssertionError:
    pass
assert_ = AssertionError('as described')
if half: raise assert_""",
}
SURVIVES = {
    ("about_nothing", What.NOT_IDLE),
    ("swallows_itself", What.NOT_GREEN),
    ("swallows_itself", What.NOT_IDLE),
    ("swallows_itself", What.NO_DEAD_WORD),
    ("swallows_the_library", What.NOT_DEAF),
    ("fails_whatever", What.NOT_GREEN),
    ("fails_whatever", What.NOT_IDLE),
    ("fails_whatever", What.NO_DEAD_WORD),
    ("fails_whatever", What.NOT_RED),
    ("fails_whatever", What.NOT_MUTE),
}
HALF = {"sound", "fails_whatever"}


def written(folder: Path, texts: dict[str, str], raises: str = "ValueError") -> Project:
    files = []
    for name, text in texts.items():
        path = folder / f"{name}.py"
        body = text.replace("{folder!r}", repr(str(folder)))
        block = BLOCK.format(raises=raises)
        path.write_text(case_text(block, f"{HEAD}{body}\n", dependencies=["torch"]))
        files.append(path)
    return project.load(Paths(), files)


@pytest.mark.whole
@pytest.mark.builds
def test_what_depends_on_how_it_is_run_is_found_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truth, "SEEDS", ("1",))
    # One at a time: two cells of one environment would run beside each other, in no order.
    monkeypatch.setattr(ways, "CORES", 1)
    loaded = written(tmp_path, TRAITS)
    found = {
        one.tried: {cell.case for cell in one.cells} for one in truth.compared(loaded, [RELEASE])
    }

    assert found == {
        "cells run three times": ALWAYS,
        "cells with PYTHONHASHSEED=1": {"hashes"} | ALWAYS,
        "cells with two threads": {"threads"} | ALWAYS,
        "cells in the reverse order": {"order"} | ALWAYS,
        "cells without recording dtypes": {"witness"} | ALWAYS,
        "cells in a fresh process": {"fresh"} | ALWAYS,
    }


def known(name: str) -> list[Known]:
    cells = {
        one: Cell(name, "", RELEASE, one, Device.CPU) for one in (Precision.FP32, Precision.FP16)
    }
    passing = Known(cells[Precision.FP32], passes=True, asserts=False)
    failing = Known(cells[Precision.FP16], passes=False, asserts=True)
    return [passing, failing] if name in HALF else [passing]


@pytest.mark.whole
@pytest.mark.builds
def test_a_case_that_is_green_or_red_by_construction_survives_sabotage(tmp_path: Path) -> None:
    loaded = written(tmp_path, WRONG, "AssertionError")
    chosen = [one for name in WRONG for one in known(name)]
    found = {(one.case, one.what) for one in tried(loaded, chosen) if one.survived}

    assert found == SURVIVES


CODE = '''"""What must hold."""
from __future__ import annotations
import sys
from transformers import Model, tools as t
WORKAROUNDS = {"", "late"}
@t.switched_off()
def main(precision, workaround=""):
    assert workaround in WORKAROUNDS
    model = Model(Model.config()).to(precision)
    found = t.inner[0](model).run(sys.argv)
    assert found, "nothing"
    assert 0 < len(found) < 3
'''


def test_an_assertion_of_a_library_is_none_of_the_case() -> None:
    own, library, other = (
        dataclasses.replace(failed(error), traceback=f'  File "{path}", line 7, in f\n    x\n')
        for error, path in (
            ("AssertionError", "toy.py"),
            ("AssertionError", "site-packages/torch/nn.py"),
            ("ValueError", "toy.py"),
        )
    )

    told = [asserts_itself(seen(Outcome.FAILS, how=how)) for how in (own, library, other)]
    assert told == [True, False, False]


def test_only_assertions_about_more_than_the_call_are_inverted() -> None:
    found = [
        [line.strip() for line in text.splitlines() if "assert" in line] for text in inverted(CODE)
    ]
    guard = "assert workaround in WORKAROUNDS"

    assert found == [
        [guard, "assert not found, 'nothing'", "assert 0 < len(found) < 3"],
        [guard, "assert found, 'nothing'", "assert not 0 < len(found) < 3"],
    ]


def test_calls_that_begin_at_an_imported_name_are_left_out() -> None:
    text = sabotaged(CODE, Sabotage.LEFT_OUT_FAILS)
    head, _, rest = text.partition("class _LeftOut:")

    assert head == '"""What must hold."""\nfrom __future__ import annotations\n\n'
    assert [line.strip() for line in rest.splitlines() if " = _LeftOut()" in line] == [
        "model = _LeftOut()",
        "found = _LeftOut()",
    ]
    assert "@t.switched_off()\ndef main(" in rest


def test_a_tensor_is_left_behind_where_the_docstring_demands_a_dtype() -> None:
    code = CODE.replace("What must hold.", "A model must be in the dtype that was asked for.")

    assert "_left_behind(Model(Model.config()).to(precision))" in left_behind(code)
    assert left_behind(CODE) == ""


@pytest.mark.parametrize("how", [Sabotage.LEFT_OUT_HOLDS, Sabotage.LEFT_OUT_FAILS])
def test_what_is_left_out_decides_also_within_a_tuple(how: Sabotage) -> None:
    code = "import packaging\nmodel = packaging.f()\nsame = (model.a, 1) == (model.b, 1)\n"
    names: dict[str, object] = {}
    exec(sabotaged(code, how), names)  # noqa: S102

    assert names["same"] == (how is Sabotage.LEFT_OUT_HOLDS)
