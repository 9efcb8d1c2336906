# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "Training a model in fp16 makes all weights NaN at the first step: Adam's epsilon is 0"
# reports = []
# found-by = "measurement"
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model that is trained in fp16 weights with an Adam that is not fused and its default \
# epsilon. With fp32 weights and fp16=True it cannot happen."""
# trigger = ["trainer"]
# symptom = ["nan-or-inf", "not-trained"]
#
# [tool.repromatrix.workarounds]
# fused = "Set optim='adamw_torch_fused', which computes in fp32."
# larger-epsilon = "Set adam_epsilon to 1e-4."
# sgd = "Train with optim='sgd'."
# fp32-weights = "Load or cast the weights to fp32."
#
# [tool.repromatrix.snippets]
# fused = 'arguments = TrainingArguments(folder, optim="adamw_torch_fused")'
# larger-epsilon = "arguments = TrainingArguments(folder, adam_epsilon=1e-4)"
# sgd = 'arguments = TrainingArguments(folder, optim="sgd")'
# fp32-weights = "model.float()"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<4.54"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "weights are not finite after training"
# where = "trainer_adam_epsilon_fp16:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/37358"
#
# [[tool.repromatrix.fails]]
# when = ["torch<2.8", "transformers>=4.54"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "weights are not finite after training"
# where = "trainer_adam_epsilon_fp16:main"
# note = "The fused Adam is the default with torch 2.8 or newer only."
# ///
"""The Trainer must leave a model in 16-bit weights with finite weights, with its default optimizer.

The squares of the gradients are 0 in fp16, and so is the epsilon of 1e-8 that Adam adds to their
root: the step divides by zero. In bf16, which has the range of fp32, neither is. 4.54 made the
fused Adam the default, which computes each step in fp32.
"""

import os
import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "fused", "larger-epsilon", "sgd", "fp32-weights"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)).to(device, dtype)
    rows = torch.randint(0, 99, (8, 8))
    data = [{"input_ids": row, "labels": row} for row in rows]
    ids = rows.to(device)
    assert model(input_ids=ids).logits.isfinite().all(), "non-finite logits before training"
    if workaround == "fp32-weights":
        model.float()
    options = {"use_cpu": device == "cpu", "report_to": "none", "save_strategy": "no"}
    if workaround == "larger-epsilon":
        options["adam_epsilon"] = 1e-4
    if workaround in ("sgd", "fused"):
        options["optim"] = "sgd" if workaround == "sgd" else "adamw_torch_fused"
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(folder, max_steps=2, **options)
        Trainer(model, args, train_dataset=data).train()
    broken = sum((~one.isfinite()).sum().item() for one in model.parameters())
    measured["nonfinite_share"] = broken / model.num_parameters()
    assert measured["nonfinite_share"] == 0, "weights are not finite after training"


if __name__ == "__main__":
    main(*sys.argv[1:])
