# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "unwrap_model(keep_fp32_wrapper=False) switches mixed precision off for the model in training"
# reports = []
# found-by = "measurement"
# area = "autocast"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model that is prepared for mixed precision in one process and unwrapped without its wrapper
# before the training ends, as to save it; with several processes it was not tried."""
# trigger = ["autocast"]
# symptom = ["wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# keep-wrapper = "Leave keep_fp32_wrapper at its default, True."
# copy = "Unwrap a copy of the prepared model."
#
# [tool.repromatrix.snippets]
# keep-wrapper = "unwrapped = accelerator.unwrap_model(model, keep_fp32_wrapper=True)"
# copy = "unwrapped = accelerator.unwrap_model(copy.deepcopy(model), keep_fp32_wrapper=False)"
#
# [[tool.repromatrix.fails]]
# when = ["accelerate>=1.4"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "no layer computes in the precision that was asked for"
# where = "accelerate_unwrap_autocast:main"
# ///
"""A model that was prepared for mixed precision must keep it, although it is unwrapped to be saved.

On one process the prepared model is the model: unwrapping it without its wrapper takes autocast from
the model that is trained on, and the next steps compute in fp32 without a word. accelerate refuses
fp16 on a CPU, where the case ends with 125.
"""

import copy
import os
import sys

import torch
from accelerate import Accelerator
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "keep-wrapper", "copy"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    if precision == "fp16" and device == "cpu":
        sys.exit(125)  # accelerate refuses it
    mixed = "no" if precision == "fp32" else precision
    accelerator = Accelerator(mixed_precision=mixed, cpu=device == "cpu")
    model = accelerator.prepare(LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)))
    dtypes: list[torch.dtype] = []
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_hook(lambda *call: dtypes.append(call[2].dtype))
    ids = torch.randint(0, 99, (2, 8), device=device)
    for _ in range(2):
        dtypes.clear()
        accelerator.backward(model(input_ids=ids, labels=ids).loss)
        unwrapped = copy.deepcopy(model) if workaround == "copy" else model
        accelerator.unwrap_model(unwrapped, keep_fp32_wrapper=workaround == "keep-wrapper")
    measured["share_in_precision"] = sum(one == dtype for one in dtypes) / len(dtypes)
    found = measured["share_in_precision"]
    assert found > 0.5, "no layer computes in the precision that was asked for"


if __name__ == "__main__":
    main(*sys.argv[1:])
