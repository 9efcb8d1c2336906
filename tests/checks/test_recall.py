"""A case and a probe that fail on the same releases."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from factories import BREAKS, case
from swept import LINE, line, numbers, record

from checks import recall
from repromatrix.runner import project
from repromatrix.runner.evidence.swept.records import ProbeStatus
from repromatrix.runner.model.case import Symptom
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths

FAILS_ON = {"4.49.0": False, "4.50.0": True, "4.51.0": False, "5.0.0": False}


def found(
    toml: str,
    *messages: str,
    probe: str = "loaded-bf16",
    lacking: tuple[str, ...] = (),
    about_llama: str = "models",
) -> tuple[str, int]:
    """Return the probe that finds a case about `llama`, bad where a message is not empty.

    Where the case asserts, the probe's numbers differ; else it fails.
    """
    bad = ProbeStatus.DIFFERS if "AssertionError" in toml else ProbeStatus.FAILS
    precision = Precision.FP32 if '"fp32"' in toml else Precision.BF16
    statuses = [bad if text else ProbeStatus.HOLDS for text in messages]
    ran = [
        [record("llama", probe, status, text), record("gpt2", probe, status, text)]
        for status, text in zip(statuses, messages, strict=True)
    ]
    about = case(toml)
    said = {"models": ("siglip",), about_llama: ("llama",)}
    about = replace(about, block=about.block.model_copy(update=said))
    one = recall.recalled(about, {precision: FAILS_ON}, line(*ran, lacking=lacking))
    return one.probe, one.releases


def test_a_case_is_found_where_a_probe_fails_as_it_does_on_the_same_releases() -> None:
    told = ("", "it breaks", "", "")
    assert found(BREAKS, *told) == ("llama/loaded-bf16", len(LINE))
    assert found(BREAKS, *told, about_llama="same_code") == ("llama/loaded-bf16", len(LINE))
    assert found(BREAKS, *told, lacking=("loaded-bf16",)) == ("", 0)


@pytest.mark.parametrize(
    ("toml", "messages", "probe"),
    [
        (BREAKS, ("", "it breaks", "it breaks", ""), "loaded-bf16"),
        (BREAKS, ("", "another bug", "", ""), "loaded-bf16"),
        (BREAKS, ("", "it breaks", "", ""), "outputs-fp32"),
        (BREAKS + 'where = "transformers.m:g"\n', ("", "it breaks", "", ""), "loaded-bf16"),
    ],
    ids=["other releases", "other words", "another precision", "another function"],
)
def test_what_fails_otherwise_is_not_the_same(
    toml: str, messages: tuple[str, ...], probe: str
) -> None:
    assert found(toml, *messages, probe=probe) == ("", 0)


@pytest.mark.parametrize(
    ("sizes", "probe"), [((1, 2, 1, 1), "llama/outputs-fp32"), ((1, 2, 2, 1), "")]
)
def test_wrong_numbers_are_found_where_numbers_change_with_the_case(
    sizes: tuple[float, ...], probe: str
) -> None:
    told = {"models": ("llama",), "symptom": (Symptom.WRONG_NUMBERS,)}
    silent = replace(case(), block=case().block.model_copy(update=told))
    ran = line(*([numbers("llama", size), numbers("gpt2", size)] for size in sizes))

    assert recall.recalled(silent, {Precision.FP32: FAILS_ON}, ran).probe == probe


def test_at_most_a_quarter_of_the_cases_about_models_is_left_out() -> None:
    told = tomllib.loads(recall.FILE.read_text(encoding="utf-8"))
    cases = project.load(Paths()).cases.values()
    about = {case.stem for case in cases if recall.counts(case)}
    assert told["excluded"].keys() <= about
    assert 4 * len(told["excluded"]) <= len(about)
