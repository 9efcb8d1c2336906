# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.12"]
#
# [tool.repromatrix]
# title = "DeepSeek-V3.2 with SDPA and padding attends to the tokens that it did not select"
# reports = ["https://github.com/huggingface/transformers/pull/48363"]
# area = "attention-mask"
# models = ["deepseek-v32"]
# same-code = ["glm-moe-dsa"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# eager = "Call model.set_attn_implementation(\"eager\")."
# no-padding = { says = "Give texts of one length, so that no mask is made.", skips = true }
#
# [tool.repromatrix.snippets]
# eager = 'model.set_attn_implementation("eager")'
# no-padding = "mask[:] = 1  # texts of one length"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.12,<5.17"]
# raises = "AssertionError"
# match = "SDPA does not attend as eager attention does"
# where = "deepseek_v32_sdpa_padding:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/48363"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/48363"
# says = "Left padding is wrong with SDPA where the text is longer than index_topk."
# when = ["transformers>=5.12,<5.17"]
# outcome = "fails"
# ///
"""DeepSeek-V3.2 must compute with SDPA what it computes with eager attention.

With padding SDPA gets a boolean mask, which the model takes for an additive one: the indexer adds
it to its scores, so that it selects padding and later tokens as well, and filling it with the
least number hides nothing but makes True what was not selected. It shows where the text is longer
than `index_topk`, which is two tokens here. Both sides are in the dtype of the cell, as another
dtype may select other tokens; the indexer has 16 heads, so that no two scores are 0.
"""

import os
import sys

import torch
from transformers import DeepseekV32Config, DeepseekV32ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 32}
SIZES |= {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
LATENT = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8}
LATENT |= {"v_head_dim": 16, "n_routed_experts": 4, "n_group": 1, "topk_group": 1}
INDEX = {"index_topk": 2, "index_head_dim": 16, "index_n_heads": 16, "num_experts_per_tok": 2}
WORKAROUNDS = {"", "eager", "no-padding"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = DeepseekV32ForCausalLM(DeepseekV32Config(**SIZES, **LATENT, **INDEX, pad_token_id=0))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype).eval()
    ids = torch.randint(5, 90, (2, 10), device=device)
    mask = torch.ones_like(ids)
    mask[0, : 0 if workaround == "no-padding" else 3] = 0
    found = []
    for how in ("eager" if workaround == "eager" else "sdpa", "eager"):
        model.set_attn_implementation(how)
        logits = model(input_ids=ids, attention_mask=mask).logits
        found.append(logits[mask.bool()].float())
    measured["logits_relative_error"] = float((found[0] - found[1]).norm() / found[1].norm())
    assert measured["logits_relative_error"] < 0.05, "SDPA does not attend as eager attention does"


if __name__ == "__main__":
    main(*sys.argv[1:])
