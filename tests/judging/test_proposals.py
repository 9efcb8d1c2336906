"""What the text of a report suggests for the block of a case."""

from __future__ import annotations

from factories import case

from repromatrix.runner import project
from repromatrix.runner.judging.proposals import BlockProposal, propose
from repromatrix.runner.model.case import Symptom, Trigger
from repromatrix.runner.paths import Paths

RELEASES = ("4.49.0", "4.50.0", "4.50.3", "4.51.0", "4.52.1", "5.0.0")
REPORT = """\
title:  Evaluating Gemma 3 in bf16 with the Trainer fails #36814
- transformers version: 4.50.1
After trainer.train() the evaluation calls .float() on the HybridCache.

Traceback (most recent call last):
  File "train.py", line 3, in <module>
AttributeError: 'HybridCache' object has no attribute 'float'
"""


def test_a_report_suggests_title_model_trigger_error_and_releases() -> None:
    found = propose(REPORT, [case()], {"gemma3", "gemma", "bert", "xx"}, RELEASES)

    assert found == BlockProposal(
        title="Evaluating Gemma 3 in bf16 with the Trainer fails",
        area="",
        models=("gemma3",),
        trigger=(Trigger.TRAINER,),
        symptom=(Symptom.ERROR,),
        raises="AttributeError",
        match="'HybridCache' object has no attribute 'float'",
        releases=("4.49.0", "4.50.0", "4.50.3", "5.0.0"),
    )


def test_a_text_that_says_little_suggests_little() -> None:
    assert propose("help\n", [], {"bert"}, RELEASES) == BlockProposal(
        trigger=(Trigger.FORWARD,), releases=("4.49.0", "5.0.0")
    )


def test_the_area_is_that_of_the_case_with_the_same_rare_words() -> None:
    known = project.read(Paths())[0].cases.values()

    assert propose(REPORT, known, set(), RELEASES).area == "kv-cache"
    assert propose("inv_freq of the rotary embedding in fp16", known, set(), RELEASES).area == (
        "rotary-embedding"
    )


def test_a_word_of_code_is_no_model_but_a_class_a_module_or_a_checkpoint_is() -> None:
    text = """\
My layer is odd, `torch.nn.Linear` too; nn.Linear also.
```python
layer = Linear(mistral, 2)
model = Gemma3ForCausalLM.from_pretrained("Qwen/Qwen2-7B")
from transformers.models.bert.modeling_bert import x
```
"""
    families = {"linear", "mistral", "gemma3", "qwen2", "bert"}

    assert propose(text, [], families, RELEASES).models == ("bert", "gemma3", "qwen2")
