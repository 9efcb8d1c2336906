"""Where a failure happens, read from tracebacks as they are published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repromatrix.runner.model.frames import (
    Frame,
    frames,
    is_place,
    same_name,
    same_place,
    telling_frame,
)

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"
BERT = "transformers.models.bert.modeling_bert"


def _place(*lines: tuple[str, str]) -> str:
    trace = "\n".join(f'  File "{path}", line 7, in {name}\n    f()' for path, name in lines)
    frame = telling_frame(trace)
    return frame.place if frame else ""


def test_the_frames_are_read_with_their_lines() -> None:
    trace = (
        '  File "cases/x_y.py", line 3, in <module>\n    main()\n'
        '  File "<frozen runpy>", line 88, in _run_code\n'
        '  File "site-packages/peft/x.py", line 9, in A.forward\n    g()\n'
    )

    assert frames(trace) == (
        Frame("cases/x_y.py", "<module>", "main()", 3),
        Frame("<frozen runpy>", "_run_code", "", 88),
        Frame("site-packages/peft/x.py", "A.forward", "g()", 9),
    )


OWN = ("cases/toy_breaks.py", "main")
LIBRARY = ("site-packages/transformers/models/bert/modeling_bert.py", "BertLayer.forward")


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ([LIBRARY], f"{BERT}:BertLayer.forward"),
        ([], "toy_breaks:main"),
        ([LIBRARY, ("site-packages/torch/functional.py", "einsum")], f"{BERT}:BertLayer.forward"),
        ([("site-packages/torchvision/ops.py", "nms")], "torchvision.ops:nms"),
        ([("site-packages/torch/nn/init.py", "orthogonal_")], "toy_breaks:main"),
        ([LIBRARY, ("cases/toy_breaks.py", "stand_in")], f"{BERT}:BertLayer.forward"),
        ([LIBRARY, ("python3.11/json/decoder.py", "decode")], f"{BERT}:BertLayer.forward"),
        ([LIBRARY, ("site-packages/peft/__init__.py", "<genexpr>")], f"{BERT}:BertLayer.forward"),
        ([("site-packages/peft/utils/__init__.py", "f")], "peft.utils:f"),
        ([("transformers/loss/x.py", "A.forward")], "transformers.loss.x:A.forward"),
        ([("/usr/lib/python3/dist-packages/peft/x.py", "f")], "peft.x:f"),
        ([("/home/me/peft/src/peft/x.py", "f")], "peft.x:f"),
        ([("<frozen importlib._bootstrap>", "_load")], "toy_breaks:main"),
    ],
)  # fmt: skip
def test_it_happens_in_the_deepest_library_but_torch_or_in_the_case(
    below: list[tuple[str, str]], expected: str
) -> None:
    assert _place(OWN, *below) == expected


def test_without_frames_there_is_no_place() -> None:
    assert telling_frame("") is None
    assert telling_frame("<its traceback cannot be read: RecursionError>") is None


# As published, without what lies between: two bugs of one model, in two functions of one name.
DINO = "transformers/models/grounding_dino/modeling_grounding_dino.py"
TEXT = f"""\
  File "cases/grounding_dino_reference_points.py", line 73, in main
    hidden = model.eval()(pixel_values=pixels, input_ids=ids).last_hidden_state
  File "site-packages/{DINO}", line 1154, in GroundingDinoMultiheadAttention.forward
    self.query(queries)
  File "site-packages/torch/nn/modules/linear.py", line 134, in Linear.forward
    return F.linear(input, self.weight, self.bias)
"""
GRID = f"""\
  File "cases/grounding_dino_reference_points.py", line 73, in main
    hidden = model.eval()(pixel_values=pixels, input_ids=ids).last_hidden_state
  File "site-packages/{DINO}", line 109, in MultiScaleDeformableAttention.forward
    sampling_value_l_ = nn.functional.grid_sample(
  File "site-packages/torch/nn/functional.py", line 5152, in grid_sample
    return torch.grid_sampler(
"""


def test_two_bugs_of_one_module_are_told_apart() -> None:
    module = "transformers.models.grounding_dino.modeling_grounding_dino"
    found = [frame for frame in map(telling_frame, (TEXT, GRID)) if frame]

    assert [frame.place for frame in found] == [
        f"{module}:GroundingDinoMultiheadAttention.forward",
        f"{module}:MultiScaleDeformableAttention.forward",
    ]
    assert [frame.statement for frame in found] == [
        "self.query(queries)",
        "sampling_value_l_ = nn.functional.grid_sample(",
    ]


def test_every_published_traceback_says_where_it_happened() -> None:
    for path in PUBLISHED.glob("cpu/*.json"):
        failures = json.loads(path.read_text(encoding="utf-8"))["failures"].values()
        for failure in failures:
            trace = "\n".join(failure["traceback"])
            assert not trace or telling_frame(trace) is not None, path.name


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a.b:C.f", "a.b:C.f", "one"),
        ("a.b:C.f", "a.b:f", "one"),
        ("a.b:f", "a.b:C.f", "one"),
        ("a.b:f.<locals>.g", "a.b:g", "one"),
        ("a.b:C.f", "a.b:D.f", "two"),
        ("a.b:C.f", "a.c:C.f", "two"),
        ("a.b:C.if", "a.b:f", "two"),
    ],
)
def test_a_function_without_a_class_stands_for_that_of_any(
    one: str, other: str, expected: str
) -> None:
    assert expected == ("one" if same_place(one, other) else "two")


def test_a_name_is_that_of_the_function_alone() -> None:
    assert same_name("a.b:C.forward", "a.c:D.forward")
    assert same_name("a.b:forward", "a.c:D.forward")
    assert not same_name("a.b:C.forward", "a.b:C.update")


def test_a_place_has_a_module_and_a_function() -> None:
    places = ["a.b_c:f", "a:C.f.<locals>.<lambda>", "toy_breaks:<module>"]
    others = ["", "a/b.py:f", "a.b", ":f", "a.b:", "a.b: f", "a.b:f:g", "1a:f", "a..b:f"]

    assert [text for text in (*places, *others) if is_place(text)] == places
