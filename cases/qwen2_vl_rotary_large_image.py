# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Qwen2-VL cast to bf16 gives patches of large images the same rotary position"
# reports = ["https://github.com/huggingface/transformers/pull/48105"]
# area = "rotary-embedding"
# models = ["qwen2-vl", "qwen2.5-vl", "qwen2.5-omni", "glm4v"]
# trigger = ["cast", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# frequencies-fp32 = """
# Call .float() on every rotary embedding after the cast: positions are exact then, the \
# frequencies stay rounded."""
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.17"]
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "patches share a rotation"
# where = "qwen2_vl_rotary_large_image:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/48105"
# ///
"""Every patch of an image must get a rotary embedding of its own, in a wide image too.

`.to(dtype)` casts the rotary frequencies, and until 5.16 patches were counted in their dtype: bf16
represents no odd number above 256. Since 5.17 positions are integers and the angles are computed in
fp32. A model loaded in bf16 with `from_pretrained` keeps the frequencies in fp32.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "frequencies-fp32", "autocast"}
SIZES = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 1}
HEIGHT, WIDTH = 2, 320
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    tower = qwen.Qwen2VisionTransformerPretrainedModel(
        qwen.Qwen2VLVisionConfig(**SIZES, patch_size=2)
    ).to(device, torch.float32 if autocast else dtype)
    if workaround == "frequencies-fp32":
        tower.rotary_pos_emb.float()
    angles: list[tuple[torch.Tensor, torch.Tensor]] = []
    tower.blocks[0].register_forward_pre_hook(
        lambda _, __, inputs: angles.append(inputs["position_embeddings"]), with_kwargs=True
    )
    patches = torch.randn(HEIGHT * WIDTH, 3 * 2 * 2 * 2, device=device, dtype=tower.dtype)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        tower(patches, grid_thw=torch.tensor([[1, HEIGHT, WIDTH]], device=device))
    rotations = torch.cat(angles[0], dim=-1).unique(dim=0)
    measured["share_of_own_rotations"] = len(rotations) / len(patches)
    assert len(rotations) == len(patches), "patches share a rotation"


if __name__ == "__main__":
    main(*sys.argv[1:])
