# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LoRA on all linear layers of SigLIP skips its pooling head until it is merged"
# reports = [
#     "https://github.com/huggingface/peft/issues/2200",
#     "https://github.com/huggingface/peft/issues/761",
# ]
# found-by = "sweep"
# area = "peft"
# models = ["siglip"]
# same-code = ["siglip2", "bridgetower", "mask2former"]
# trigger = ["adapter"]
# symptom = ["wrong-numbers", "not-trained"]
#
# [tool.repromatrix.workarounds]
# exclude-out-proj = "Pass exclude_modules=['head.attention.out_proj'] beside 'all-linear'."
#
# [tool.repromatrix.snippets]
# exclude-out-proj = '''
# excluded = ["head.attention.out_proj"]
# config = LoraConfig(target_modules="all-linear", exclude_modules=excluded)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# raises = "AssertionError"
# match = "the merged adapter computes something else"
# where = "siglip_lora_attention_head:main"
# ///
"""A LoRA adapter must compute the same before and after it is merged.

The head of SigLIP is a torch.nn.MultiheadAttention, whose forward passes `out_proj.weight` to a
function and never calls `out_proj`. "all-linear" wraps that layer all the same: its adapter has
no effect and no gradient, without a warning, and a merge adds what nothing has computed with.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import SiglipVisionConfig, SiglipVisionModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
IMAGE = {"image_size": 32, "patch_size": 16, "num_attention_heads": 2}
WORKAROUNDS = {"", "exclude-out-proj"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = SiglipVisionModel(SiglipVisionConfig(**SIZES, **IMAGE)).to(device, dtype)
    config = LoraConfig(
        r=4,
        lora_alpha=32,
        target_modules="all-linear",
        exclude_modules=["head.attention.out_proj"] if workaround == "exclude-out-proj" else None,
        init_lora_weights=False,
    )
    model = get_peft_model(model, config).eval()
    pixels = torch.randn(2, 3, 32, 32, device=device, dtype=dtype)
    with torch.no_grad():
        before = model(pixel_values=pixels).pooler_output.float()
        after = model.merge_and_unload()(pixel_values=pixels).pooler_output.float()
    error = (after - before).norm() / after.norm()
    measured["output_relative_error"] = error.item()
    assert measured["output_relative_error"] < 0.15, "the merged adapter computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
