# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.57"]
#
# [tool.repromatrix]
# title = "Qwen3-VL-MoE under autocast: scatter(): Expected self.dtype to be equal to src.dtype"
# reports = ["https://github.com/verl-project/verl/issues/4401"]
# area = "moe-routing"
# models = ["qwen3-vl-moe"]
# trigger = ["autocast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-weights = "Cast the model to 16 bit instead of using autocast."
#
# [tool.repromatrix.snippets]
# cast-weights = "model.to(dtype)  # and no torch.autocast"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.57,<5"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "scatter(): Expected self.dtype to be equal to src.dtype"
# where = "transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe:Qwen3VLMoeTextSparseMoeBlock.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/41420"
# note = "Merged on the day of 4.57.1, and released with 5.0 only."
#
# [[tool.repromatrix.fails]]
# title = "Qwen3-VL-MoE in 5.0: the text config has no attribute 'pad_token_id'"
# when = ["transformers>=5.0.0,<5.1.0"]
# workarounds = ["*"]
# raises = "AttributeError"
# match = "'Qwen3VLMoeTextConfig' object has no attribute 'pad_token_id'"
# where = "transformers.configuration_utils:PreTrainedConfig.__getattribute__"
# fixed-by = "https://github.com/huggingface/transformers/pull/43453"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/verl-project/verl/issues/4401"
# says = "Training fails in scatter with 4.57.1."
# when = ["transformers==4.57.1"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""The language model of Qwen3-VL-MoE with fp32 weights must run under autocast.

The weights of the chosen experts are cast to the dtype of the hidden states, which a norm leaves in
fp32 under autocast, and scattered into a tensor of the dtype of the router's logits, which is that
of autocast.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers.models.qwen3_vl_moe.configuration_qwen3_vl_moe import Qwen3VLMoeTextConfig
from transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe import Qwen3VLMoeTextModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
EXPERTS = {
    "attn_implementation": "sdpa",
    "moe_intermediate_size": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}
ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
WORKAROUNDS = {"", "cast-weights"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Qwen3VLMoeTextConfig(**SIZES, **HEADS, **EXPERTS, rope_scaling=ROPE)
    model = Qwen3VLMoeTextModel(config).to(device).eval()
    if workaround == "cast-weights":
        model.to(dtype)
    mixed = precision != "fp32" and workaround != "cast-weights"
    ids = torch.randint(5, 90, (1, 8), device=device)
    with torch.no_grad(), torch.autocast(device, dtype) if mixed else nullcontext():
        states = model(input_ids=ids).last_hidden_state
    assert states.isfinite().all(), "non-finite states"


if __name__ == "__main__":
    main(*sys.argv[1:])
