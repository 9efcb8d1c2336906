# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "A device map for float8 weights: `dtype` is not a valid dtype: torch.float8_e4m3fnuz"
# reports = ["https://github.com/huggingface/accelerate/pull/4063"]
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with weights or scales in float8_e4m3fnuz, float8_e5m2fnuz or float8_e8m0fnu of which \
# accelerate computes a device map."""
# trigger = ["load"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# e4m3fn = "Keep the weights in float8_e4m3fn."
#
# [tool.repromatrix.snippets]
# e4m3fn = '''
# weight = layer.weight.to(torch.float8_e4m3fn)
# layer.weight = torch.nn.Parameter(weight, requires_grad=False)'''
#
# [[tool.repromatrix.fails]]
# when = ["accelerate<1.14"]
# raises = "ValueError"
# match = "`dtype` is not a valid dtype: torch.float8_e4m3fnuz"
# where = "accelerate.utils.modeling:dtype_byte_size"
# fixed-by = "https://github.com/huggingface/accelerate/pull/4063"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/accelerate/pull/4063"
# says = "Three kinds of float8 are not known, and raise a ValueError."
# when = ["accelerate<1.14"]
# outcome = "fails"
# ///
"""Accelerate must find the sizes of a model with weights in float8, whichever of its kinds.

The size of a dtype is read from the digits at the end of its name. Two kinds of float8 were named
in the code; the other three, whose names end in letters, are since accelerate 1.14.
"""

import os
import sys

import torch
from accelerate import infer_auto_device_map
from torch.nn.functional import linear
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "e4m3fn"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    kind = torch.float8_e4m3fn if workaround == "e4m3fn" else torch.float8_e4m3fnuz
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, **HEADS)).to(device, dtype)
    down = model.model.layers[0].mlp.down_proj
    down.weight = torch.nn.Parameter(down.weight.to(kind), requires_grad=False)
    down.forward = lambda states: linear(states, down.weight.to(states.dtype))
    logits = model(input_ids=torch.randint(5, 90, (1, 8), device=device)).logits
    assert logits.isfinite().all(), "non-finite logits"
    places = infer_auto_device_map(model, max_memory={"cpu": "1GB"})
    assert set(places.values()) == {"cpu"}, "the model does not fit where it should"


if __name__ == "__main__":
    main(*sys.argv[1:])
