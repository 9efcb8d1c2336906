# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "Label smoothing with fp16_full_eval gives an infinite eval_loss for a large batch"
# reports = ["https://github.com/huggingface/transformers/issues/10674"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model that the Trainer evaluates with fp16_full_eval and label_smoothing_factor; under \
# fp16=True or bf16=True the Trainer makes the logits fp32, so those runs cannot meet it."""
# trigger = ["trainer"]
# symptom = ["nan-or-inf"]
#
# [tool.repromatrix.workarounds]
# logits-fp32 = "Cast the logits to fp32 in a hook, before the loss."
# small-batch = { says = "Use a quarter of the batch size.", skips = true }
#
# [tool.repromatrix.snippets]
# logits-fp32 = 'model.register_forward_hook(lambda _, __, out: {"logits": out["logits"].float()})'
# small-batch = 'options["per_device_eval_batch_size"] = batch // 4  # of TrainingArguments'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "the smoothed loss is not finite"
# where = "trainer_label_smoothing_overflow:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/10674"
# says = "Taking the logits or the log-probabilities back to fp32 makes the problem go away."
# precisions = ["fp16"]
# workaround = "logits-fp32"
# outcome = "passes"
# ///
"""Trainer.evaluate with label smoothing must return in 16 bit the loss that it returns in fp32.

With fp16_full_eval it returns inf: since the report the smoothed part is summed in fp32, but the
part of the labels is still summed over all tokens of a batch in the dtype of the logits, and fp16
ends at 65504. With bf16_full_eval the loss is finite, and off by less than 0.5% here. With
fp16=True or bf16=True in their place the Trainer passes fp32 logits and is not affected.
"""

import math
import os
import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 16}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 2}
ROWS, TOKENS = 64, 320
WORKAROUNDS = {"", "logits-fp32", "small-batch"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device = os.environ.get("REPRO_DEVICE", "cpu")
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS))
    if workaround == "logits-fp32":
        model.register_forward_hook(lambda _, __, out: {"logits": out["logits"].float()})
    data = [{"input_ids": row, "labels": row} for row in torch.randint(99, (ROWS, TOKENS))]
    batch = ROWS // 4 if workaround == "small-batch" else ROWS
    options = {"label_smoothing_factor": 0.1, "per_device_eval_batch_size": batch}
    options |= {"use_cpu": device == "cpu", "report_to": "none"}
    flags = {} if precision == "fp32" else {f"{precision}_full_eval": True}
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        for full_eval in ({}, flags):
            args = TrainingArguments(folder, **options, **full_eval)
            losses.append(Trainer(model, args, eval_dataset=data).evaluate()["eval_loss"])
    expected, measured["loss"] = losses
    measured["nonfinite_share"] = float(not math.isfinite(measured["loss"]))
    assert not measured["nonfinite_share"], "the smoothed loss is not finite"
    measured["relative_error"] = abs(measured["loss"] - expected) / expected
    assert measured["relative_error"] < 0.05, "the smoothed loss is off"


if __name__ == "__main__":
    main(*sys.argv[1:])
