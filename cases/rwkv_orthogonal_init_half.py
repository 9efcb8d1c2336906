# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "RWKV from_config in bf16 or fp16 fails: '\"geqrf_cpu\" not implemented'"
# reports = [
#     "https://github.com/huggingface/transformers/issues/47225",
#     "https://github.com/huggingface/transformers/pull/47252",
# ]
# area = "loading"
# models = ["rwkv"]
# trigger = ["load"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cast-after = "Build the model in fp32 and call .to(dtype) on it."
#
# [tool.repromatrix.snippets]
# cast-after = '''
# model = AutoModel.from_config(config, torch_dtype=torch.float32)
# model.to(dtype)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.54,<5.15"]
# precisions = ["bf16", "fp16"]
# raises = ["NotImplementedError", "RuntimeError"]
# match = ["\"geqrf_cpu\" not implemented for", "\"geqrf_cuda\" not implemented for"]
# where = [
#     "transformers.models.rwkv.modeling_rwkv:RwkvPreTrainedModel._init_weights",
#     "transformers.initialization:orthogonal_",
# ]
# fixed-by = "https://github.com/huggingface/transformers/pull/47252"
# note = """
# Before 4.54 the linear layers of RWKV were not initialised orthogonally. torch 2.6 raises \
# RuntimeError."""
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47225"
# says = "Building RWKV from its config in bfloat16 fails in 5.x."
# when = ["transformers>=5,<5.15"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47225"
# says = "It is caused by the way in which 5.x builds models, so 4.57 is not affected."
# when = ["transformers>=4.54,<5"]
# precisions = ["bf16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47252"
# says = "Drawing the matrix in fp32 fixes it for both 16-bit dtypes."
# when = ["transformers>=5.15"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""RWKV must be built from its config in bf16 and fp16.

From 4.54 to 5.14 it raised: the linear layers are initialised orthogonally, which takes a QR
decomposition, not implemented for 16 bit in torch. 5.15 draws the matrix in fp32 and copies it.
"""

import os
import sys

import torch
from transformers import AutoModel, RwkvConfig, RwkvModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CONFIG = {"vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "context_length": 32}
WORKAROUNDS = {"", "cast-after"}
measured: dict[str, float] = {}


def distance_from_orthogonal(model: RwkvModel) -> float:
    weight = model.blocks[0].attention.receptance.weight.detach().float()
    product = weight @ weight.T
    return (
        (product / product[0, 0] - torch.eye(len(weight), device=weight.device)).abs().max().item()
    )


def build(device: str, dtype: torch.dtype) -> RwkvModel:
    with torch.device(device):
        return AutoModel.from_config(RwkvConfig(**CONFIG), torch_dtype=dtype)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    init_dtype = torch.float32 if workaround == "cast-after" else dtype
    model = build(device, init_dtype).to(dtype)
    receptance = model.blocks[0].attention.receptance
    assert receptance.weight.dtype == dtype, "the weights are not in the requested dtype"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    in_fp32 = distance_from_orthogonal(build(device, torch.float32))
    above = distance_from_orthogonal(model) - in_fp32
    measured["distance_above_fp32"] = above if in_fp32 < 0.1 else 0.0  # not orthogonal in any dtype
    assert measured["distance_above_fp32"] < 0.05, "less orthogonal than when built in fp32"


if __name__ == "__main__":
    main(*sys.argv[1:])
