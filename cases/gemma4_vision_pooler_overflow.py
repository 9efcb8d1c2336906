# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.5"]
#
# [tool.repromatrix]
# title = "Gemma 4 image features overflow to inf or NaN in fp16"
# reports = [
#     "https://github.com/unslothai/unsloth-zoo/pull/931",
#     "https://github.com/vllm-project/vllm/issues/40290",
# ]
# area = "overflow"
# models = ["gemma4"]
# trigger = ["load", "cast", "forward"]
# symptom = ["nan-or-inf"]
# simulates = """
# The last norm's weight is 8000 and the standardisation divides by it, as large features of a \
# trained checkpoint need; all others are random."""
#
# [tool.repromatrix.workarounds]
# fp32-pooler = "Upcast the input of the pooler to fp32 in a hook, as Unsloth's patch does."
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# fp32-pooler = '''
# def upcast(module, args, kwargs):
#     return args, {**kwargs, "hidden_states": kwargs["hidden_states"].float()}
# model.pooler.register_forward_pre_hook(upcast, with_kwargs=True)'''
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(pixels, positions)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.5,<5.10"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "image features are not finite"
# where = "gemma4_vision_pooler_overflow:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/46277"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.5,<5.10"]
# precisions = ["fp16"]
# workarounds = ["autocast"]
# raises = "AssertionError"
# match = "image features are not finite"
# where = "gemma4_vision_pooler_overflow:main"
# note = "Under autocast the encoder returns fp16 features, whatever the dtype of the weights."
# trigger = ["autocast"]
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth-zoo/pull/931"
# says = "Releases 5.5.0 to 5.9 give NaN in fp16."
# when = ["transformers>=5.5,<5.10"]
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth-zoo/pull/931"
# says = "Training in bf16 is not affected."
# when = ["transformers>=5.5,<5.10"]
# precisions = ["bf16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth-zoo/pull/931"
# says = "It is fixed in 5.10.1."
# when = ["transformers==5.10.1"]
# precisions = ["fp16"]
# outcome = "passes"
# ///
"""The standardised image features of Gemma 4 must be finite in fp16.

Until 5.9 they were not: between the encoder and the standardisation, which scales them down again,
the features are multiplied by the root of the hidden size. The large features of a trained
checkpoint (imitated here by the weight of the last norm) overflow there.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import Gemma4VisionConfig, Gemma4VisionModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "fp32-pooler", "autocast"}
LAYERS = {"hidden_size": 64, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 8}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "patch_size": 2}
LARGE = 8e3
measured: dict[str, float] = {}


def raise_input(_: object, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    return args, {**kwargs, "hidden_states": kwargs["hidden_states"].float()}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    config = Gemma4VisionConfig(**LAYERS, **HEADS, standardize=True, pooling_kernel_size=2)
    model = Gemma4VisionModel(config)
    torch.nn.init.constant_(model.encoder.layers[-1].post_feedforward_layernorm.weight, LARGE)
    torch.nn.init.zeros_(model.std_bias)
    torch.nn.init.constant_(model.std_scale, 1 / LARGE)
    model.to(device, torch.float32 if autocast else dtype).eval()
    if workaround == "fp32-pooler":
        model.pooler.register_forward_pre_hook(raise_input, with_kwargs=True)
    row, column = torch.arange(16, device=device) // 4, torch.arange(16, device=device) % 4
    pixels = torch.randn(1, 16, 3 * 2 * 2, device=device, dtype=model.dtype)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        encoded = model(pixels, torch.stack((column, row), dim=-1)[None]).last_hidden_state
    measured["nonfinite_share"] = 1 - encoded.isfinite().float().mean().item()
    assert measured["nonfinite_share"] == 0, "image features are not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
