"""What a snippet is held to: it does what the script does for its workaround."""

from __future__ import annotations

import json

import pytest
from factories import case

from repromatrix.runner.judging.lint import scrutinise
from repromatrix.runner.model.outcomes import Device, Precision

CODE = '''"""A toy must not break."""
import torch

def main(precision, workaround=""):
    model = build(attention="sdpa")
    mixed = workaround == "autocast" and precision != "fp32"
    if workaround == "cast":
        half = model.half()
        keep(half)
    if workaround == "cache-off":
        model.config.use_cache = False
    with torch.autocast("cpu") if mixed else torch.no_grad():
        model(one=1)
'''
TOML = """
workarounds = { cast = "Cast it.", cache-off = "Set use_cache to False.", autocast = "Use it." }
snippets.%s = %s
"""


@pytest.mark.parametrize(
    ("name", "snippet", "fault"),
    [
        ("cast", "model.half()", None),
        ("cast", "model = build()\nkeep(model)", None),
        ("autocast", "with torch.autocast(device):\n    model(one=1)", None),
        ("cast", "model = build()", "nothing of it stands in the branch"),
        ("cast", "model.float()", "the code for this workaround has no float"),
        ("cast", "model.config.use_cache = False", "has no use_cache"),
        ("cast", "model(one=1)", "workaround has no one"),
        ("cache-off", "config.use_cash = False", "has no use_cash"),
        ("cast", "model.half(", "snippets.cast: line 1: invalid Python: '(' was never closed"),
        ("cast", "\n".join(["model.half()"] * 7), "7 lines. Write 1 to 6 lines, or no snippet."),
        ("cast", "", "0 lines"),
        ("hope", "model.half()", "snippets.hope: "),
    ],
)
def test_a_snippet_does_what_the_script_does(name: str, snippet: str, fault: str | None) -> None:
    toy = case(TOML % (name, json.dumps(snippet)), CODE)
    found = scrutinise(toy, {}, tuple(Precision), [Device.CPU])

    assert [bool(fault and fault in str(each)) for each in found] == [True] * bool(fault)
