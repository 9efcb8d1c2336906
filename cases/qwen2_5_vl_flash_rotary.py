# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Qwen2.5-VL flash attention: 'Input and cos/sin must have the same dtype'"
# reports = [
#     "https://github.com/hiyouga/LlamaFactory/issues/6791",
#     "https://github.com/modelscope/ms-swift/issues/3156",
#     "https://github.com/huggingface/transformers/issues/36257",
#     "https://github.com/om-ai-lab/VLM-R1/issues/331",
#     "https://blog.gitcode.com/8e0cfad84bbad6b586997a6c341ecbc1.html",
# ]
# area = "rotary-embedding"
# models = ["qwen2.5-vl"]
# trigger = ["cast", "distributed", "forward"]
# symptom = ["error"]
# simulates = """
# Two functions stand in for flash-attn's kernels, which need a GPU: one computes the rotation and \
# records dtypes that the kernel refuses, the other computes attention; everything that \
# transformers does before and after them is real."""
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation=\"eager\"."
# sdpa = "Load or build the model with attn_implementation=\"sdpa\"."
# frequencies-fp32 = "Cast visual.rotary_pos_emb back to fp32 after casting the model."
#
# [tool.repromatrix.snippets]
# eager = 'attn_implementation = "eager"  # of from_pretrained'
# sdpa = 'attn_implementation = "sdpa"  # of from_pretrained'
# frequencies-fp32 = "model.visual.rotary_pos_emb.float()  # after model.to(dtype)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<4.50"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the rotary kernel got a query of another dtype than cos"
# where = "qwen2_5_vl_flash_rotary:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/36188"
# note = "With flash-attn itself the error reads: Input and cos/sin must have the same dtype, got torch.float32 and torch.bfloat16."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/hiyouga/LlamaFactory/issues/6791"
# says = "Release 4.49.0 does not have the fix yet."
# when = ["transformers>=4.49,<4.50"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://blog.gitcode.com/8e0cfad84bbad6b586997a6c341ecbc1.html"
# says = "Only 4.50.3 fixes it for good, so 4.50.0 to 4.50.2 would still fail."
# when = ["transformers>=4.50,<4.50.3"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://blog.gitcode.com/8e0cfad84bbad6b586997a6c341ecbc1.html"
# says = "It is gone from 4.50.3 on."
# when = ["transformers>=4.50.3"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/om-ai-lab/VLM-R1/issues/331"
# says = "Installing 4.50.0 is enough."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/modelscope/ms-swift/issues/3156"
# says = "A development version of 4.50.0 fails like 4.49.0 (no release, so not measured)."
# precisions = ["bf16"]
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/modelscope/ms-swift/issues/3156"
# says = "Training runs with eager attention instead of flash attention."
# precisions = ["bf16"]
# workaround = "eager"
# outcome = "passes"
# ///
"""The vision tower of Qwen2.5-VL must run with flash attention in 16 bit.

In 4.49 the query was upcast to fp32 for the rotary kernel, but cos and sin came from frequencies
that a cast of the whole model, DeepSpeed's for example, leaves in 16 bit. flash-attn's kernel then
raises "Input and cos/sin must have the same dtype". It is not run here: a stand-in records with
which dtypes it is called. The main evidence, on three releases, is qwen2_5_vl_triton_rotary, which
runs the real kernel. Since 4.53 rotary embeddings are plain torch.
"""

import os
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FLASH = "flash_attention_2"
ATTENTION = {"": FLASH, "frequencies-fp32": FLASH, "eager": "eager", "sdpa": "sdpa"}
SIZES = {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2}
measured = {"kernel_calls": 0.0, "mixed_calls": 0.0}


def rotary_kernel(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    measured["mixed_calls"] += x.dtype != cos.dtype
    (left, right), cos, sin = x.chunk(2, dim=-1), cos[:, None], sin[:, None]
    rotated = torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
    return rotated.to(x.dtype)


def attention_kernel(*qkv_and_lengths: torch.Tensor) -> torch.Tensor:
    q, k, v = (x.transpose(0, 1) for x in qkv_and_lengths[:3])
    measured["kernel_calls"] += 1
    assert q.dtype == k.dtype == v.dtype != torch.float32, "one 16-bit dtype is needed"
    return scaled_dot_product_attention(q, k, v).transpose(0, 1)


def attention_interface(_: object, *qkv: torch.Tensor, **__: object) -> tuple[torch.Tensor, None]:
    return attention_kernel(*(x[0].transpose(0, 1) for x in qkv))[None], None


def vision_config(attention: str) -> qwen.Qwen2_5_VLVisionConfig:
    return qwen.Qwen2_5_VLVisionConfig(**SIZES, out_hidden_size=32, attn_implementation=attention)


def switch_to_flash(tower: torch.nn.Module) -> None:
    qwen.apply_rotary_emb, qwen.flash_attn_varlen_func = rotary_kernel, attention_kernel
    ALL_ATTENTION_FUNCTIONS[FLASH] = attention_interface  # what is asked since 4.53
    tower.config = vision_config(FLASH)
    tower.blocks[0] = qwen.Qwen2_5_VLVisionBlock(tower.config, FLASH)


def main(precision: str, workaround: str = "") -> None:
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    attention = ATTENTION[workaround]
    if attention == FLASH and dtype == torch.float32:
        sys.exit(125)  # flash attention has no fp32 kernel
    config = vision_config("eager" if attention == FLASH else attention)
    tower = qwen.Qwen2_5_VisionTransformerPretrainedModel(config)
    if attention == FLASH:
        switch_to_flash(tower)
    tower.to(device, dtype)
    if workaround == "frequencies-fp32":
        tower.rotary_pos_emb.float()
    patches = torch.randn(16, 3 * 2 * 14 * 14, device=device, dtype=dtype)
    tower(patches, grid_thw=torch.tensor([[1, 4, 4]], device=device))
    if attention == FLASH and not measured["kernel_calls"]:
        sys.exit(125)  # this release went another way
    assert not measured["mixed_calls"], "the rotary kernel got a query of another dtype than cos"


if __name__ == "__main__":
    main(*sys.argv[1:])
