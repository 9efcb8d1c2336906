# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "Trainer.evaluate with bf16_full_eval or fp16_full_eval keeps the model in 16 bit"
# reports = ["https://github.com/huggingface/transformers/pull/10268"]
# found-by = "measurement"
# kind = "change"
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every fp32 model that the Trainer evaluates with bf16_full_eval or fp16_full_eval; models
# already in that dtype cannot meet it."""
# trigger = ["trainer"]
# symptom = ["wrong-dtype", "wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# autocast = "Do not set the flag; evaluate under torch.autocast."
# copy = "Evaluate a copy of the model with a second Trainer."
#
# [tool.repromatrix.snippets]
# autocast = '''
# trainer = Trainer(model, arguments, eval_dataset=rows)  # no full_eval in them
# with torch.autocast(device, dtype):
#     trainer.evaluate()'''
# copy = "trainer = Trainer(copy.deepcopy(model), arguments, eval_dataset=rows)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "evaluation changed the weights of the model"
# where = "trainer_full_eval_keeps_half:main"
# ///
"""One would expect that evaluating a model does not change its weights.

With bf16_full_eval or fp16_full_eval it does, by design (`kind = "change"`): outside of training
the Trainer casts the caller's own model in place and does not cast it back, so that what is trained
or saved afterwards has lost its fp32 weights. The flag has done so since transformers#10268, which
introduced it and is linked for that; `logits_relative_error` compares the logits of the model
before and after. No complaint of a user is known, and no release passes.
"""

import copy
import os
import sys
import tempfile
from contextlib import nullcontext

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "autocast", "copy"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS))
    before, ids = copy.deepcopy(model), torch.arange(8)
    half = dtype != torch.float32
    autocast = half and workaround == "autocast"
    flags = {f"{precision}_full_eval": True} if half and not autocast else {}
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(folder, use_cpu=device == "cpu", report_to="none", **flags)
        evaluated = copy.deepcopy(model) if workaround == "copy" else model
        trainer = Trainer(evaluated, args, eval_dataset=[{"input_ids": ids, "labels": ids}])
        with torch.autocast(device, dtype) if autocast else nullcontext():
            trainer.evaluate()
    pairs = zip(model.cpu().parameters(), before.parameters(), strict=True)
    exact = before(ids[None]).logits
    off = model(ids[None]).logits.float() - exact
    measured["logits_relative_error"] = (off.norm() / exact.norm()).item()
    measured["largest_change"] = max((now - then).abs().max().item() for now, then in pairs)
    assert measured["largest_change"] == 0, "evaluation changed the weights of the model"


if __name__ == "__main__":
    main(*sys.argv[1:])
