# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.57"]
#
# [tool.repromatrix]
# title = "Qwen3-Next trained in fp16 on a padded batch gets NaN gradients"
# reports = ["https://github.com/huggingface/transformers/pull/47625"]
# found-by = "measurement"
# area = "state-space"
# models = ["qwen3-next", "qwen3.5", "olmo-hybrid"]
# variants = ["qwen3-next", "qwen3.5", "olmo-hybrid"]
# same-code = ["qwen3.5-moe"]
# trigger = ["load", "cast", "autocast", "backward"]
# symptom = ["nan-or-inf"]
#
# [tool.repromatrix.workarounds]
# no-padding = { says = "Train on batches without padding.", skips = true }
# autocast = "Keep the weights in fp32 and train under torch.autocast."
#
# [tool.repromatrix.snippets]
# no-padding = "mask = torch.ones_like(ids)"
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     loss = model(**inputs).loss'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.57,<5.17"]
# precisions = ["fp16"]
# workarounds = ["", "autocast"]
# raises = "AssertionError"
# match = "non-finite gradients"
# where = "qwen3_next_padding_fp16_gradients:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/47625"
# note = "The query and key are fp16 under autocast as well, so the norm still works in it."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47625"
# says = "From this change on the norm of queries and keys is computed in fp32."
# when = ["transformers>=5.17"]
# precisions = ["fp16"]
# outcome = "passes"
# ///
"""The gradients of Qwen3-Next must be finite for a padded batch, in every precision.

Until 5.16 they were NaN in fp16. Queries and keys of padded tokens are zero, and their L2 norm
divides by the root of eps, 1e-3; its backward takes the cube, 1e9, which is inf in fp16, times
zero. bf16 has the range. 5.17 computes the norm in fp32. Qwen3.5 and OLMo Hybrid have copies of it;
a release without them (before 5.2 and 5.3) cannot be judged for them: there the case ends with 125.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "initializer_range": 0.5}
LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 2}
LINEAR_SIZES = {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
FAMILIES = {
    "qwen3-next": ("qwen3_next", {"head_dim": 8, "num_experts": 0, "mlp_only_layers": [0, 1]}),
    "qwen3.5": ("qwen3_5_text", {"head_dim": 8}),
    "olmo-hybrid": ("olmo_hybrid", {"pad_token_id": 0}),
}
WORKAROUNDS = {"", "no-padding", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast"
    family, own = FAMILIES[os.environ.get("REPRO_VARIANT", "qwen3-next")]
    if family not in CONFIG_MAPPING:
        sys.exit(125)
    layers = {"layer_types": ["linear_attention", "full_attention"]}
    config = AutoConfig.for_model(
        family, **SIZES, **HEADS, **LINEAR, **LINEAR_SIZES, **layers, **own
    )
    model = AutoModelForCausalLM.from_config(config).to(
        device, torch.float32 if autocast else dtype
    )
    ids = torch.arange(5, 21, device=device).view(2, 8)
    mask = torch.ones_like(ids)
    if workaround != "no-padding":
        mask[0, :3] = 0
    with torch.autocast(device, dtype) if autocast else nullcontext():
        labels = ids.where(mask > 0, -100)
        # In 5.14.0 OLMo Hybrid cannot make masks for its cache, in any precision.
        loss = model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss
    loss.backward()
    gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    measured["loss"] = loss.item()
    measured["nonfinite_share"] = (~gradients.isfinite()).float().mean().item()
    assert measured["nonfinite_share"] == 0, "non-finite gradients"


if __name__ == "__main__":
    main(*sys.argv[1:])
