"""What is read from a model, and which cases it leaves to ask."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from factories import case_text
from small_checkout import checkout

from repromatrix.runner.audit import inputs
from repromatrix.runner.audit.doctor import Diagnosis, ModelFacts, diagnose, facts, narrowed
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import AuditQuestion, Spot
from repromatrix.runner.model.case import Case, read_case
from repromatrix.runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from pathlib import Path

FP32, BF16, FP16 = Precision


def model(*dtypes: str, device: str = "cpu", generates: bool = True) -> SimpleNamespace:
    """Return what stands in for a model of transformers."""
    text = SimpleNamespace(model_type="gemma3_text")
    config = SimpleNamespace(model_type="gemma3", text_config=text, _attn_implementation="sdpa")
    return SimpleNamespace(
        config=config,
        generation_config=SimpleNamespace(cache_implementation="hybrid"),
        device=device,
        parameters=lambda: [SimpleNamespace(dtype=f"torch.{name}") for name in dtypes],
        can_generate=lambda: generates,
    )


def about(models: str, trigger: str = "forward") -> Case:
    """Return a case about a family of models, with what leads to it."""
    text = case_text().replace('models = ["toy"]', f'models = ["{models}"]')
    name = "".join(sign for sign in models if sign.isalnum())
    return read_case(text.replace('"forward"', f'"{trigger}"'), f"cases/{name}_{trigger}.py")


def asked(looked_at: ModelFacts, *cases: Case) -> AuditQuestion:
    """Return what is asked of some cases because of a model."""
    names = tuple(case.name for case in cases)
    return narrowed(AuditQuestion(cases=names), looked_at, {case.name: case for case in cases})


def test_a_model_is_read_by_its_attributes() -> None:
    assert facts(model("bfloat16", "bfloat16", "float32", device="cuda:0")) == ModelFacts(
        name="SimpleNamespace",
        types=("gemma3", "gemma3_text"),
        dtypes=("bfloat16", "float32"),
        device="cuda:0",
        attention="sdpa",
        cache="hybrid",
    )


def test_an_object_that_says_nothing_is_no_fault() -> None:
    assert facts(object()) == ModelFacts(name="object")


def test_what_trains_in_parallel_is_looked_into() -> None:
    inner = model("float16")

    assert facts(SimpleNamespace(module=SimpleNamespace(module=inner))) == facts(inner)


@pytest.mark.parametrize(
    ("kind", "family", "is_asked"),
    [
        ("gemma3_text", "gemma3", True),
        ("qwen2_5_vl", "qwen2.5-vl", True),
        ("clip_text_model", "clip", True),
        ("qwen2_vl", "qwen2", False),
        ("gemma3n_text", "gemma3", False),
        ("llama", "any", True),
        ("", "gemma3", True),
    ],
)
def test_a_case_about_another_family_is_left_out(
    kind: str,
    family: str,
    is_asked: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    looked_at = ModelFacts(types=(kind,) if kind else ())

    question, case = asked(looked_at, about(family)), about(family)
    assert bool(question.chosen({case.name: case})) is is_asked


def test_what_only_generating_leads_to_needs_a_model_that_generates() -> None:
    cases = (about("gemma3", "generate"), about("gemma3", "forward"))
    able, unable = (asked(facts(model(generates=one)), *cases).cases for one in (True, False))

    assert able == ("gemma3_generate", "gemma3_forward")
    assert unable == ("gemma3_forward",)


def test_weights_in_fp32_meet_half_precision_where_something_mixes() -> None:
    question = asked(
        facts(model("float32")), about("gemma3", "trainer"), about("gemma3", "forward")
    )

    assert question.precisions == (FP32, BF16, FP16)
    assert question.left_out == {Spot("gemma3_forward", BF16), Spot("gemma3_forward", FP16)}


@pytest.mark.parametrize(
    ("dtypes", "precisions"),
    [
        (("bfloat16",), (BF16,)),
        (("float32", "uint8", "bfloat16"), (FP32, BF16)),
        (("float8_e4m3fn",), (FP32, BF16, FP16)),
        ((), (FP32, BF16, FP16)),
    ],
)
def test_the_precisions_of_the_weights_are_asked(
    dtypes: tuple[str, ...], precisions: tuple[Precision, ...]
) -> None:
    question = asked(facts(model(*dtypes)), about("gemma3"))

    assert (question.precisions, question.left_out) == (precisions, frozenset())


def diagnosed(folder: Path, looked_at: SimpleNamespace | None) -> Diagnosis:
    """Return the answer in a small checkout in which nothing is measured."""
    paths = checkout(folder)
    (paths.cases / "toy_breaks.py").write_text(case_text(), encoding="utf-8")
    pins = {"transformers": "4.50.0", "torch": "2.13.0"}
    packages = Installed(what="python", form="interpreter", pins=pins)
    return diagnose(packages, facts(looked_at) if looked_at else None, paths, pytest.fail)


def test_the_answer_says_what_it_looked_at_and_what_it_could_not_decide(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, model("float8_e4m3fn", device="cuda:0"))

    assert found.audit.question.device is Device.CPU
    about = "gemma3 and gemma3_text; float8_e4m3fn; on cuda:0; attention sdpa; cache hybrid"
    assert str(found).splitlines()[2:9] == [
        f"SimpleNamespace: {about}.",
        "Asked: 0 of 1 case (those about none of its types, or about any model).",
        "Its weights are in none of fp32, bf16 and fp16: all of them are asked.",
        "Nothing is measured on cuda:0: the answers are those of a CPU.",
        "No case says which attention or cache it needs: none was left out for that.",
        "",
        "python (interpreter): transformers 4.50.0, torch 2.13.0",
    ]


def test_without_a_model_every_case_is_asked(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, None)

    assert (found.model, found.notes, found.families, found.hits) == (None, (), (), ())
    assert found.audit.question.cases == ("toy_breaks",)
    assert found.text().splitlines()[2].startswith("python (interpreter): transformers 4.50.0")


def test_what_is_loaded_counts_and_not_what_was_installed_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pins = {"transformers": "4.51.0", "torch": "2.13.0+cpu", "peft": "0.15.1+edited.1"}
    loaded = {"transformers": "4.50.0", "torch": "2.13.0+cu130", "peft": "0.15.1"}
    for name, version in {**loaded, "numpy": "unknown"}.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__=version))
    read = Installed(what="python", form="interpreter", pins=pins)
    monkeypatch.setattr(inputs, "_interpreter", lambda _: read)

    assert inputs.running().pins == pins | {"transformers": "4.50.0"}
