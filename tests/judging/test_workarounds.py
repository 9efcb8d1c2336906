"""What a workaround is held to: the snippet is its code, and a result shows that it works."""

from __future__ import annotations

import json

import pytest
from factories import case, cell, environments, failed, seen

from repromatrix.runner.judging.lint import scrutinise, undecided
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.judging.workarounds import refuted
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

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
        ("cache-off", "model.half()", "has no half"),
        ("cast", "model.half(", "snippets.cast: line 1: invalid Python: '(' was never closed"),
        ("cast", "\n".join(["model.half()"] * 7), "7 lines. Write 1 to 6 lines, or no snippet."),
        ("cast", "", "0 lines"),
        ("hope", "model.half()", "snippets.hope: "),
    ],
)
def test_a_snippet_does_what_the_script_does(name: str, snippet: str, fault: str | None) -> None:
    toy = case(TOML % (name, json.dumps(snippet)), CODE)
    found = [*scrutinise(toy, {}, tuple(Precision), [Device.CPU]), *undecided(toy, {})]

    assert [bool(fault and fault in str(each)) for each in found] == [True] * bool(fault)


def test_a_workaround_is_refuted_where_it_fails_with_the_plain_case_and_helps_nowhere() -> None:
    toy = case("workarounds = { bad = 'Hope.', good = 'Work.', idle = 'Wait.' }")
    outcomes = {
        ("4.49.0", ""): Outcome.PASSES,
        ("4.49.0", "bad"): Outcome.PASSES,
        ("4.50.0", ""): Outcome.FAILS,
        ("4.50.0", "bad"): Outcome.FAILS,
        ("4.50.0", "good"): Outcome.FAILS,
        ("4.51.0", ""): Outcome.FAILS,
        ("4.51.0", "good"): Outcome.PASSES,
    }
    rows = [
        seen(outcome, cell(release, workaround=name), how=failed() if outcome.is_failure else None)
        for (release, name), outcome in outcomes.items()
    ]
    judged = judge_all(rows, {toy.name: toy}, environments("4.49.0", "4.50.0", "4.51.0"))

    assert refuted(judged) == {"bad"}
