# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "Unmerging a 16-bit VeRA adapter on a CPU fails: tensor sizes do not match"
# reports = []
# found-by = "measurement"
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with a 16-bit VeRA adapter merged and unmerged on a CPU; adapters in fp32, the
# default, cannot meet it: merging keeps their shape."""
# trigger = ["load", "cast", "adapter"]
# symptom = ["error"]
# environments = ["4.53.3+peft0.15.2"]
#
# [tool.repromatrix.workarounds]
# adapter-fp32 = "Leave autocast_adapter_dtype at its default, which keeps the adapter in fp32."
#
# [tool.repromatrix.snippets]
# adapter-fp32 = "model = get_peft_model(model, config, autocast_adapter_dtype=True)"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.16"]
# precisions = ["bf16", "fp16"]
# devices = ["cpu"]
# raises = "RuntimeError"
# match = "The size of tensor a (32) must match the size of tensor b (4)"
# where = "peft.tuners.vera.layer:Linear.get_delta_weight"
# fixed-by = "https://github.com/huggingface/peft/pull/2433"
# ///
"""A 16-bit VeRA adapter must unmerge after a merge, and the model answer as before.

Up to peft 0.15 unmerging raised on a CPU: there the product is computed in fp32, and afterwards
the scaling vectors were written back in the shape that they have in the product, as columns.
"""

import os
import sys

import torch
from peft import VeraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "adapter-fp32"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    config = VeraConfig(r=4, target_modules=["q_proj"], init_weights=False)
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround == "adapter-fp32")
    ids = torch.arange(8, device=device)[None]
    before = model(input_ids=ids).logits.float()
    model.merge_adapter()
    model.unmerge_adapter()
    off = model(input_ids=ids).logits.float() - before
    measured["relative_error"] = (off.norm() / before.norm()).item()
    assert measured["relative_error"] < 0.05, "the unmerged model answers differently"


if __name__ == "__main__":
    main(*sys.argv[1:])
