# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49,<4.53", "flash-attn"]
#
# [tool.repromatrix]
# title = "Qwen2.5-VL with flash-attn's Triton rotary kernel: cos/sin dtype error"
# reports = [
#     "https://github.com/hiyouga/LlamaFactory/issues/6791",
#     "https://github.com/modelscope/ms-swift/issues/3156",
#     "https://github.com/huggingface/transformers/issues/36257",
# ]
# area = "rotary-embedding"
# models = ["qwen2.5-vl"]
# trigger = ["cast", "forward"]
# symptom = ["error"]
# isolation = "process"
# environments = [
#     "4.49.0+flash-attn2.7.4.post1",
#     "4.50.0+flash-attn2.7.4.post1",
#     "4.52.4+flash-attn2.7.4.post1",
# ]
# simulates = """
# flash-attn's rotary kernel is real: Triton compiles it on a GPU and interprets it on a CPU. \
# Where the CUDA extension is not built, a function stands in for attention, and refuses what that \
# refuses."""
#
# [tool.repromatrix.workarounds]
# frequencies-fp32 = "Cast visual.rotary_pos_emb back to fp32 after casting the model."
#
# [tool.repromatrix.snippets]
# frequencies-fp32 = "model.visual.rotary_pos_emb.float()  # after model.to(dtype)"
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=4.49,<4.50"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "Input and cos/sin must have the same dtype"
# where = "flash_attn.ops.triton.rotary:apply_rotary"
# fixed-by = "https://github.com/huggingface/transformers/pull/36188"
# note = "qwen2_5_vl_flash_rotary tries every release, with a stand-in for the kernel."
# ///
"""The vision tower of Qwen2.5-VL must run with the rotary kernel of flash-attn in 16 bit.

In 4.49 it raised: the query was upcast to fp32 for the kernel, but cos and sin came from
frequencies that a cast of the whole model leaves in 16 bit. Since 4.53 rotary embeddings are plain
torch. The message is raised by flash-attn itself, so this is the main evidence for the bug;
qwen2_5_vl_flash_rotary tries every release, with a stand-in for the kernel.
"""

import os
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from shutil import which
from types import ModuleType

import torch
from torch.nn.functional import scaled_dot_product_attention

if not find_spec("triton") or (torch.cuda.is_available() and not which("gcc")):
    sys.exit(125)  # not every build of torch brings it, nor every machine what it compiles with
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    torch.cuda.device = nullcontext  # the kernel's launch asks for one
if not (built := find_spec("flash_attn_2_cuda") is not None):
    sys.modules["flash_attn_2_cuda"] = ModuleType("flash_attn_2_cuda")

from flash_attn.layers.rotary import apply_rotary_emb
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2}
measured = {"kernel_calls": 0.0}


def rotary_kernel(*x_cos_sin: torch.Tensor) -> torch.Tensor:
    measured["kernel_calls"] += 1
    return apply_rotary_emb(*x_cos_sin)


def attention_kernel(*qkv_and_lengths: torch.Tensor) -> torch.Tensor:
    q, k, v = (x.transpose(0, 1) for x in qkv_and_lengths[:3])
    assert q.dtype == k.dtype == v.dtype != torch.float32, "one 16-bit dtype is needed"
    return scaled_dot_product_attention(q, k, v).transpose(0, 1)


def main(precision: str, workaround: str = "") -> None:
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    if dtype == torch.float32:
        sys.exit(125)  # flash attention has no fp32 kernel
    config = qwen.Qwen2_5_VLVisionConfig(**SIZES, out_hidden_size=32)
    tower = qwen.Qwen2_5_VisionTransformerPretrainedModel(config)
    qwen.apply_rotary_emb = rotary_kernel
    if not built:
        qwen.flash_attn_varlen_func = attention_kernel
    tower.blocks[0] = qwen.Qwen2_5_VLVisionBlock(config, "flash_attention_2")
    tower.to(device, dtype)
    if workaround == "frequencies-fp32":
        tower.rotary_pos_emb.float()
    patches = torch.randn(16, 3 * 2 * 14 * 14, device=device, dtype=dtype)
    tower(patches, grid_thw=torch.tensor([[1, 4, 4]], device=device))
    assert measured["kernel_calls"], "no rotary kernel was called"


if __name__ == "__main__":
    main(*sys.argv[1:])
