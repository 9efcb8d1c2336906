# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Switch Transformers in bf16 or fp16: mat1 and mat2 dtype mismatch in the router"
# reports = [
#     "https://github.com/huggingface/transformers/issues/45072",
#     "https://github.com/huggingface/transformers/pull/45074",
# ]
# area = "moe-routing"
# models = ["switch-transformers"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# router-in-model-dtype = "Set config.router_dtype to the dtype of the model."
# router-fp32 = "Call .float() on every router after casting the model."
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# router-in-model-dtype = 'config.router_dtype = str(dtype).removeprefix("torch.")'
# router-fp32 = '''
# for module in model.modules():
#     if type(module).__name__ == "SwitchTransformersTop1Router":
#         module.float()'''
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0,<5.5"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "mat1 and mat2 must have the same dtype",
#     "expected m1 and m2 to have the same dtype",
#     "expected mat1 and mat2 to have the same dtype",
# ]
# where = "transformers.models.switch_transformers.modeling_switch_transformers:SwitchTransformersTop1Router.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/45074"
#
# [[tool.repromatrix.fails]]
# title = "Switch Transformers under autocast: Index put requires the source and destination dtypes match"
# when = ["transformers>=4.49,<5.0"]
# precisions = ["bf16", "fp16"]
# workarounds = ["autocast"]
# raises = "RuntimeError"
# match = "Index put requires the source and destination dtypes match"
# where = "transformers.models.switch_transformers.modeling_switch_transformers:SwitchTransformersSparseMLP.forward"
# note = "Another bug: 16-bit results of the experts are written into a tensor made in fp32."
# trigger = ["autocast"]
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/45074"
# says = "The refactoring of the MoE models, new in 5.0, removed the cast of the classifier."
# when = ["transformers>=5.0,<5.5"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/45074"
# says = "Before that refactoring 16-bit models could route."
# when = ["transformers<5.0"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""Switch Transformers must run a forward pass in bf16 and fp16.

From 5.0 to 5.4 the router raised: it computes in `config.router_dtype`, fp32 by default, and casts
its input to that. Until 4.57 it cast its classifier as well; 5.0 dropped that line, and 5.5 brought
it back.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import SwitchTransformersConfig, SwitchTransformersEncoderModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_heads": 2}
LAYERS = {"num_layers": 2, "num_sparse_encoder_layers": 1, "num_experts": 2, "expert_capacity": 8}
WORKAROUNDS = {"", "router-in-model-dtype", "router-fp32", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = SwitchTransformersConfig(**SIZES, **LAYERS)
    if workaround == "router-in-model-dtype":
        config.router_dtype = str(dtype).removeprefix("torch.")
    autocast = workaround == "autocast"
    model = SwitchTransformersEncoderModel(config).eval()
    model.to(device, torch.float32 if autocast else dtype)
    routers = [m for m in model.modules() if type(m).__name__ == "SwitchTransformersTop1Router"]
    assert routers, "no sparse layer"
    if workaround == "router-fp32":
        for router in routers:
            router.float()
    with torch.autocast(device, dtype) if autocast else nullcontext():
        states = model(input_ids=torch.arange(5, 13, device=device)[None])[0]
    assert states.isfinite().all(), "non-finite hidden states"


if __name__ == "__main__":
    main(*sys.argv[1:])
