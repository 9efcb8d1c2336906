# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Qwen2-VL cast to bf16 gives patches of large images the same rotary position"
# reports = []
# found-by = "measurement"
# area = "rotary-embedding"
# models = ["qwen2-vl", "qwen2.5-vl", "glm4v"]
# variants = ["qwen2-vl", "qwen2.5-vl", "glm4v"]
# same-code = ["qwen2.5-omni", "qwen3-vl"]
# trigger = ["cast", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# frequencies-fp32 = """
# Call .float() on every rotary embedding after the cast: positions are exact then, the \
# frequencies stay rounded."""
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# frequencies-fp32 = "model.visual.rotary_pos_emb.float()  # after model.to(dtype)"
# autocast = '''
# tower.to(torch.float32)
# with torch.autocast(device, dtype):
#     states = tower(pixels, grid_thw=grid)'''
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

`.to(dtype)` casts the rotary frequencies, and until 5.16 patches were counted in their dtype, or
counted as integers and multiplied with them: bf16 represents no odd number above 256. Since 5.17
positions and frequencies are cast to fp32 for the angles. A model loaded in bf16 with `from_pretrained` keeps the frequencies in fp32. A release without
GLM-4V (before 4.53) cannot be judged for it: there the case ends with 125.
"""

import os
import sys
from contextlib import nullcontext
from importlib import import_module, util

import torch
from transformers import PreTrainedModel  # noqa: TC002 - at the top a runner imports it once

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "frequencies-fp32", "autocast"}
TOWERS = {
    "qwen2-vl": ("qwen2_vl", "Qwen2VisionTransformerPretrainedModel"),
    "qwen2.5-vl": ("qwen2_5_vl", "Qwen2_5_VisionTransformerPretrainedModel"),
    "glm4v": ("glm4v", "Glm4vVisionModel"),
}
SIZES = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 2}
REST = {"mlp_ratio": 1, "intermediate_size": 32, "patch_size": 2, "temporal_patch_size": 2}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and dtype != torch.float32
    package, name = TOWERS[os.environ.get("REPRO_VARIANT", "qwen2-vl")]
    if not util.find_spec(f"transformers.models.{package}"):
        sys.exit(125)
    tower_class = getattr(import_module(f"transformers.models.{package}.modeling_{package}"), name)
    tower: PreTrainedModel = (
        tower_class(tower_class.config_class(**SIZES, **REST)).to(device).eval()
    )
    # Such weights keep the scale of the states, so that attention depends on positions.
    for matrix in filter(lambda p: p.dim() > 1, tower.parameters()):
        torch.nn.init.normal_(matrix, std=0.2)
    grid, seen = torch.tensor([[1, 2, 320]], device=device), []
    patches = torch.randn(2 * 320, 3 * 2 * 2 * 2, device=device)
    exact = tower(patches, grid_thw=grid)
    tower.to(torch.float32 if autocast else dtype)
    if workaround == "frequencies-fp32":
        tower.rotary_pos_emb.float()
    tower.blocks[0].register_forward_pre_hook(lambda *args: seen.append(args[2]), with_kwargs=True)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        output = tower(patches.to(tower.dtype), grid_thw=grid)
    exact, output = (getattr(each, "pooler_output", each).float() for each in (exact, output))
    measured["output_relative_error"] = ((output - exact).norm() / exact.norm()).item()
    rotations = torch.cat(seen[0]["position_embeddings"], dim=-1).unique(dim=0)
    measured["share_of_own_rotations"] = len(rotations) / len(patches)
    assert measured["share_of_own_rotations"] == 1, "patches share a rotation"


if __name__ == "__main__":
    main(*sys.argv[1:])
