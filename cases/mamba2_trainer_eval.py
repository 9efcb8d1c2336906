# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "Mamba-2 Trainer.evaluate fails: 'Mamba2Cache' object has no attribute 'float'"
# reports = ["https://github.com/huggingface/transformers/issues/36938"]
# found-by = "measurement"
# area = "kv-cache"
# models = ["mamba2"]
# trigger = ["load", "cast", "trainer"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# use-cache-off = "Set model.config.use_cache = False while training and evaluating."
# no-mixed-precision = "Turn mixed precision off: the weights are in 16 bit anyway."
#
# [tool.repromatrix.snippets]
# use-cache-off = "model.config.use_cache = False"
# no-mixed-precision = "arguments = TrainingArguments(folder, bf16=False)"
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=4.49,<5.0"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "'Mamba2Cache' object has no attribute 'float'"
# where = "accelerate.utils.operations:convert_to_fp32.<locals>._convert_to_fp32"
# ///
"""Trainer.evaluate must work for a Mamba-2 with 16-bit weights in mixed precision.

In 4.x it raised: accelerate calls .float() on every output with a 16-bit `dtype`, and the state
cache has a `dtype` without being a tensor. Since 5.0 the Trainer turns the cache off. The linked
report is of the same error with another cache; for Mamba-2 it was found by measurement.
On a CPU accelerate has bf16 mixed precision only: fp16 weights run in that, with autocast off.
"""

import os
import sys
import tempfile

import torch
from accelerate import AutocastKwargs
from transformers import Mamba2Config, Mamba2ForCausalLM, Trainer, TrainingArguments

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1}
HEADS = {"num_heads": 8, "head_dim": 8, "state_size": 4, "n_groups": 1, "chunk_size": 4}
WORKAROUNDS = {"", "use-cache-off", "no-mixed-precision"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = Mamba2ForCausalLM(Mamba2Config(**SIZES, **HEADS)).to(dtype)
    model.config.use_cache = workaround != "use-cache-off"
    mixed = "fp16" if precision == "fp16" and device != "cpu" else "bf16"
    flags = {"use_cpu": device == "cpu", mixed: workaround != "no-mixed-precision"}
    ids = torch.arange(8)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(folder, report_to="none", **flags)
        trainer = Trainer(model, args, eval_dataset=[{"input_ids": ids, "labels": ids}])
        if device == "cpu":
            trainer.accelerator.autocast_handler = AutocastKwargs(enabled=precision != "fp16")
        loss = trainer.evaluate()["eval_loss"]
    assert torch.tensor(loss).isfinite(), "non-finite loss"


if __name__ == "__main__":
    main(*sys.argv[1:])
