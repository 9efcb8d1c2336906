"""The sweep on real releases: a known leak is found as fixed, and confirmed."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tiny_recipes import CONTENT

from repromatrix.runner.cli.options import stderr_console
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.paths import Paths
from repromatrix.sweep.classes import load_classes
from repromatrix.sweep.cli import SweepOptions, sweep
from repromatrix.sweep.recipe_files import load_recipes, write

pytestmark = pytest.mark.builds

IDS = {"ids": [[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16]]}
CONFIG = {
    **CONTENT["config"],
    "vocab_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Return the checkout with one recipe and a store of its own."""
    folder = tmp_path / "recipes"
    tiny = {"config": CONFIG, "inputs": {"input_ids": IDS}, "targets": {"labels": IDS}}
    write(folder, {**CONTENT, **tiny})
    monkeypatch.setattr(Paths, "recipes", property(lambda _: folder))
    monkeypatch.setenv("REPROMATRIX_STORE", str(tmp_path / "evidence.sqlite"))
    return Paths()


def test_a_setting_that_the_trainer_left_behind_is_told_as_fixed(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    probes = ["outputs-fp32", "static", "trainer-leaks"]
    options = SweepOptions(release="5.23.0", against="4.50.0", probe=probes, jobs=2)

    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    printed = capsys.readouterr()
    first, before, after, head, finding, what, *_ = printed.out.splitlines()
    assert (first, before, after) == (
        "5.23.0 against 4.50.0",
        "  4.50.0: 2 hold and 1 differ",
        "  5.23.0: 3 hold",
    )
    assert (head, finding.split()[1:]) == ("Fixed: 1 finding", ["1", "architecture:", "llama"])
    assert what == "      trainer-leaks: left behind: ACCELERATE_MIXED_PRECISION"
    # Two releases with three families each; the change once more with two seeds.
    assert "10 cells measured" in printed.err
    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    assert capsys.readouterr().out == printed.out


@pytest.mark.whole
def test_a_budget_ends_a_sweep_that_the_same_command_continues(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    probes = ["outputs-fp32", "static", "tied"]
    options = SweepOptions(release="5.23.0", against="5.23.0", probe=probes, jobs=1)
    short = dataclasses.replace(options, budget="1s")

    assert sweep(paths, short, stderr_console()) is ExitCode.AS_EXPECTED
    first = capsys.readouterr().err
    (left,) = map(int, re.findall(r"The budget ended with (\d) cells? to measure", first))
    assert f"{3 - left} cells measured" in first
    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    assert f"{left} cells measured" in capsys.readouterr().err


@pytest.mark.whole
@pytest.mark.parametrize("release", ["4.49.0", "5.23.0"])
def test_a_recipe_is_made_and_holds_what_the_probes_ask_in_fp32(
    release: str, paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    made = SweepOptions(release=release, model=["gpt2"], make=True)

    assert sweep(paths, made, stderr_console()) is ExitCode.AS_EXPECTED
    assert capsys.readouterr().out == f"{release}: recipes: 1 known, 1 made, 0 refused\n"
    assert load_recipes(paths.recipes)["gpt2"].home == release

    probes = ["outputs-*", "checkpoint"]
    options = SweepOptions(release=release, against=release, model=["gpt2"], probe=probes)
    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    assert f"  {release}: 3 hold" in capsys.readouterr().out


@pytest.mark.whole
def test_further_classes_are_made_and_run_through_the_cheapest_probes(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    making = SweepOptions(release="5.23.0", classes=True, make=True)
    assert sweep(paths, making, stderr_console()) is ExitCode.AS_EXPECTED
    first, *told = capsys.readouterr().out.splitlines()
    made = load_classes(paths.recipes, load_recipes(paths.recipes))
    # Of all other architectures there is no recipe here.
    assert first.startswith("5.23.0: recipes: 0 known, 4 made, 1")
    assert told[0].endswith("refused: no recipe")
    assert [*made] == [
        "llama:LlamaForQuestionAnswering",
        "llama:LlamaForSequenceClassification",
        "llama:LlamaForTokenClassification",
        "llama:LlamaModel",
    ]
    assert "pad_token_id" in made["llama:LlamaForSequenceClassification"].content["config"]

    options = SweepOptions(release="5.23.0", against="5.23.0", classes=True, jobs=2)
    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    printed = capsys.readouterr()
    assert "  5.23.0: 20 hold" in printed.out
    assert "4 cells measured" in printed.err


@pytest.mark.whole
def test_layers_that_an_adapter_does_not_reach_are_told_and_jumps_are_not(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    """VideoMAE took the weights of its keys, but not what peft put in their place.

    dac looks up the nearest code, so that rounding alone gives other numbers.
    """
    known = load_recipes(Path(__file__).parents[2] / "sweep" / "recipes")
    for kind in ("videomae", "dac"):
        write(paths.recipes, dict(known[kind].content))
    probes = ["lora-everywhere", "outputs-bf16"]
    options = SweepOptions(
        release="5.23.0", against="4.50.0", model=["videomae", "dac"], probe=probes, jobs=2
    )

    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    _, before, after, head, finding, what, *_ = capsys.readouterr().out.splitlines()
    assert (before, after) == (
        "  4.50.0: 1 hold, 1 differ and 2 do not apply",
        "  5.23.0: 2 hold and 2 do not apply",
    )
    assert (head, finding.split()[1:]) == ("Fixed: 1 finding", ["1", "architecture:", "videomae"])
    assert what.startswith("      lora-everywhere: 6 of 13 adapters have no gradient: ")


@pytest.mark.whole
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")  # what Ray leaves open is not ours to mend
def test_nodes_of_a_cluster_share_the_architectures_of_a_release(
    paths: Paths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repromatrix.sweep.cli._ON_A_NODE", 1)
    probes = ["outputs-fp32", "static"]
    options = SweepOptions(release="5.23.0", against="4.50.0", probe=probes, ray="local", jobs=2)

    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    printed = capsys.readouterr()
    assert printed.out.splitlines()[:3] == [
        "5.23.0 against 4.50.0",
        "  4.50.0: 2 hold",
        "  5.23.0: 2 hold",
    ]
    assert "4 cells measured" in printed.err
