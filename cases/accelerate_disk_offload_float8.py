# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "Offloading float8 weights to disk: Got unsupported ScalarType Float8_e4m3fn"
# reports = ["https://github.com/huggingface/accelerate/pull/4151"]
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = "Every model with weights in float8 of which accelerate puts a part on disk."
# trigger = ["load"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cpu-offload = "Offload to the memory of the CPU instead of to disk."
#
# [tool.repromatrix.snippets]
# cpu-offload = '''
# from accelerate import cpu_offload
# cpu_offload(model, torch.device(device))'''
#
# [[tool.repromatrix.fails]]
# when = ["accelerate<1.15"]
# raises = "TypeError"
# match = "Got unsupported ScalarType Float8_e4m3fn"
# where = "accelerate.utils.offload:offload_weight"
# fixed-by = "https://github.com/huggingface/accelerate/pull/4151"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/accelerate/pull/4151"
# says = "Offloading a model with float8 weights to disk raises a TypeError."
# when = ["accelerate<1.15"]
# outcome = "fails"
# ///
"""A model with weights in float8 must run, the rest in its dtype, when it is offloaded to disk.

Accelerate writes weights to disk through NumPy, which has neither bf16 nor float8: it writes the
bits of the first as integers, and did not do so for the second before 1.15.
"""

import os
import sys
import tempfile

import torch
from accelerate import cpu_offload, disk_offload
from torch.nn.functional import linear
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "cpu-offload"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, **HEADS)).to(dtype).eval()
    down = model.model.layers[0].mlp.down_proj
    down.weight = torch.nn.Parameter(down.weight.to(torch.float8_e4m3fn), requires_grad=False)
    down.forward = lambda states: linear(states, down.weight.to(states.dtype))
    ids = torch.randint(5, 90, (1, 8), device=device)
    exact = model.to(device)(input_ids=ids).logits
    model.to("cpu")
    with tempfile.TemporaryDirectory() as folder:
        if workaround == "cpu-offload":
            cpu_offload(model, torch.device(device))
        else:
            disk_offload(model, folder, torch.device(device))
        logits = model(input_ids=ids).logits
    assert logits.equal(exact), "the offloaded model gives other logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
