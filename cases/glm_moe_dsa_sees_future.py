# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.2"]
#
# [tool.repromatrix]
# title = "GLM-5 attends to later tokens under SDPA where nothing is padded"
# reports = []
# found-by = "sweep"
# area = "attention-mask"
# models = ["glm-moe-dsa"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation='eager', which is given a causal mask."
#
# [tool.repromatrix.snippets]
# eager = 'model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.2.0,<5.11.0"]
# raises = "AssertionError"
# match = "a later token changes earlier logits"
# where = "glm_moe_dsa_sees_future:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/41251"
# ///
"""What GLM-5 computes for a token must not depend on those that follow.

Without padding `create_causal_mask` makes no mask for SDPA, which is then to be causal by a flag;
`GlmMoeDsaAttention.forward` gives it the mask of the tokens that its indexer selected instead, so
that the flag is not set. A text shorter than `index_topk`, as here, has all of its tokens selected.
"""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, GlmMoeDsaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 2, "moe_intermediate_size": 32}
SIZES |= {"n_routed_experts": 4, "num_experts_per_tok": 2, "q_lora_rank": 16, "kv_lora_rank": 16}
SIZES |= {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 16}
SIZES |= {"index_n_heads": 2, "index_head_dim": 16, "mlp_layer_types": ["dense", "sparse"]}
WORKAROUNDS = {"", "eager"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = GlmMoeDsaConfig(**SIZES)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=workaround or "sdpa")
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype).eval()
    ids = torch.randint(5, 90, (1, 8), device=device)
    later = torch.cat([ids[:, :-1], torch.full_like(ids[:, -1:], 95)], dim=-1)
    with torch.no_grad():
        one, other = (model(input_ids=some).logits[:, :-1].float() for some in (ids, later))
    measured["logits_relative_error"] = float((one - other).norm() / one.norm())
    assert measured["logits_relative_error"] < 0.02, "a later token changes earlier logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
