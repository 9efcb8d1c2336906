"""Cells of the sweep: what their digests depend on, and that every probe can be found."""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

from tiny_recipes import CONTENT

from repromatrix.runner import project
from repromatrix.runner.evidence.swept.probes import PROBES
from repromatrix.runner.execution.ray import parcel
from repromatrix.runner.paths import Paths
from repromatrix.sweep.cells import (
    CHILD,
    cheap_probes,
    chosen_probes,
    kind_and_probes,
    probe_cases,
)
from repromatrix.sweep.recipe_files import ModelRecipe

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = ModelRecipe(content=CONTENT)
FURTHER = ModelRecipe(content={**CONTENT, "class": "LlamaModel", "base": LLAMA.digest})


def test_an_architecture_has_one_cell_per_family() -> None:
    cases = probe_cases([LLAMA], chosen_probes(fp16=False))

    families = {probe.family for probe in PROBES if probe.dtype != "fp16"}
    assert sorted(cases) == sorted(f"llama/{family}" for family in families)
    assert kind_and_probes("llama/train#checkpointing@1") == ("llama", ("checkpointing",))
    assert kind_and_probes("llama/trainer")[1] == ("trainer", "trainer-bf16", "trainer-leaks")


def test_a_node_of_a_cluster_is_sent_what_the_script_of_a_cell_imports(
    tmp_path: Path,
) -> None:
    cases = probe_cases([LLAMA], chosen_probes(fp16=False))
    loaded = dataclasses.replace(project.load(Paths(), []), cases=cases)

    parcel.write_code(loaded, tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}

    inside = {f"repromatrix/sweep/child/{path.relative_to(CHILD)}" for path in CHILD.rglob("*.py")}
    assert inside | {"cases/cell.py"} <= names
    assert not any("recipes" in name or name.endswith("sweep/cli.py") for name in names)


def test_what_computes_in_fp16_has_cells_of_its_own() -> None:
    plain = probe_cases([LLAMA], chosen_probes(fp16=False))
    every = probe_cases([LLAMA], chosen_probes(fp16=True))

    assert {name: every[name].digest for name in plain} == {
        name: case.digest for name, case in plain.items()
    }
    assert sorted(every.keys() - plain.keys()) == [
        "llama/build-fp16",
        "llama/forward-fp16",
        "llama/range-fp16",
    ]
    assert kind_and_probes("llama/build-fp16")[1] == ("reload-fp16", "keep-fp32")


def test_the_cheap_probes_of_a_further_class_share_a_cell() -> None:
    cheap = tuple(probe.name for probe in cheap_probes())
    cases = probe_cases([FURTHER], cheap_probes())

    assert [*cases] == ["llama:LlamaModel/cheap"]
    assert kind_and_probes("llama:LlamaModel/cheap") == ("llama:LlamaModel", cheap)
    assert kind_and_probes("llama:LlamaModel/forward#twice@1")[1] == ("twice",)
    every = {name: kind_and_probes(name)[1] for name in probe_cases([FURTHER], PROBES)}
    assert sorted(one for some in every.values() for one in some) == sorted(
        probe.name for probe in PROBES
    )


def test_a_recipe_with_inputs_of_later_releases_has_a_script_that_leaves_them_out() -> None:
    later = ModelRecipe(content={**CONTENT, "later": ["token_type_ids"]})
    probes = chosen_probes(fp16=False)
    plain, other = (probe_cases([one], probes)["llama/forward"] for one in (LLAMA, later))

    assert plain.path.endswith("/cell.py")
    assert other.path.endswith("/cell_later.py")
    assert "later import answer" in other.script.text


def test_the_digest_changes_with_the_recipe_and_with_the_probes() -> None:
    wider = ModelRecipe(content={**CONTENT, "config": {"model_type": "llama", "hidden_size": 64}})
    many = chosen_probes(fp16=False)
    few = [probe for probe in many if probe.name != "twice"]
    digests = [
        probe_cases([recipe], probes)["llama/forward"].digest
        for recipe, probes in ((LLAMA, few), (wider, few), (LLAMA, many), (LLAMA, few))
    ]

    assert len(set(digests)) == 3
    assert digests[0] == digests[3]


def test_every_probe_has_a_function_of_its_name_that_says_what_it_does() -> None:
    for probe in PROBES:
        tree = ast.parse((CHILD / "probes" / f"{probe.family}.py").read_text(encoding="utf-8"))
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        function = functions[probe.name.replace("-", "_")]

        assert ast.get_docstring(function)
        assert probe.holds.endswith(".")
    assert [name for name, count in Counter(one.name for one in PROBES).items() if count > 1] == []
