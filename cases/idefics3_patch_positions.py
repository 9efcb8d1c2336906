# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Idefics3 and SmolVLM give image patches the wrong position embeddings"
# reports = [
#     "https://github.com/huggingface/transformers/issues/41190",
#     "https://github.com/huggingface/transformers/pull/40360",
#     "https://github.com/huggingface/transformers/pull/47133",
# ]
# area = "vision-tower"
# models = ["idefics2", "idefics3", "smolvlm"]
# variants = ["idefics3", "idefics2", "smolvlm"]
# trigger = ["load", "cast", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32, give fp32 pixels and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(pixels.to(torch.float32))'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.55,<5"]
# raises = "AssertionError"
# match = "patches share or miss a position"
# where = "idefics3_patch_positions:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/41374"
# note = "A factor of 1 - 1e-6, and for four patch releases integer coordinates, break fp32 too."
# trigger = ["forward"]
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.55,<5"]
# workarounds = ["autocast"]
# raises = "AssertionError"
# match = "patches share or miss a position"
# where = "idefics3_patch_positions:main"
# note = "It gives what fp32 gives, which is wrong as well before 5.0."
# trigger = ["forward"]
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5,<5.21"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "patches share or miss a position"
# where = "idefics3_patch_positions:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/41190"
# says = "Image embeddings differ since 4.55.1; with 4.54.1 they are right."
# when = ["transformers>=4.49,<4.55"]
# precisions = ["bf16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/41190"
# says = "The wrong embeddings begin with 4.55.1."
# when = ["transformers==4.55.0"]
# precisions = ["bf16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/40360"
# says = "Float instead of integer coordinates give the right positions again."
# when = ["transformers>=4.56,<5"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47133"
# says = "Positions depend on the pixels' dtype: on a grid of 32 by 32 it is fp32 that is wrong."
# when = ["transformers>=5,<5.14"]
# precisions = ["fp32"]
# outcome = "fails"
# ///
"""An image that fills the grid of patches must use every position embedding once, in order.

From 4.55 on the patch coordinates were computed in the dtype of the pixels, times 1 - 1e-6, and
then put into buckets whose boundaries are these same coordinates, so that rounding decides. 5.0
computed them in fp32 but still rounded them to the dtype of the pixels; 5.21 no longer does.
"""

import os
import sys
from contextlib import nullcontext
from importlib import import_module, util

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NAMES = {"idefics2": "Idefics2Vision", "idefics3": "Idefics3Vision", "smolvlm": "SmolVLMVision"}
LAYERS = {"hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1}
SIDE = 27  # 384 pixels in patches of 14, as in SmolVLM
PATCHES = {"image_size": SIDE, "patch_size": 1, "num_attention_heads": 1}
WORKAROUNDS = {"", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    variant = os.environ.get("REPRO_VARIANT", "idefics3")
    if util.find_spec(f"transformers.models.{variant}") is None:
        sys.exit(125)  # SmolVLM is younger than the others
    module = import_module(f"transformers.models.{variant}.modeling_{variant}")
    config = getattr(module, f"{NAMES[variant]}Config")(**LAYERS, **PATCHES)
    model = getattr(module, f"{NAMES[variant]}Transformer")(config).eval()
    model.to(device, torch.float32 if autocast else dtype)
    used, order = [], torch.arange(SIDE * SIDE, device=device)
    table = model.embeddings.position_embedding
    table.register_forward_pre_hook(lambda _, ids: used.extend(*ids))
    pixels = torch.randn(1, 3, SIDE, SIDE, device=device, dtype=model.dtype)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        found = model(pixels)[0].float()
        table.register_forward_pre_hook(lambda *_: (order[None],))
        exact = model(pixels)[0].float()
    misplaced = used[0] != order
    measured["share_of_misplaced_patches"] = misplaced.float().mean().item()
    measured["output_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["share_of_misplaced_patches"] == 0, "patches share or miss a position"


if __name__ == "__main__":
    main(*sys.argv[1:])
