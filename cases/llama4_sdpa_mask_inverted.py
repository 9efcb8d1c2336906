# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.51"]
#
# [tool.repromatrix]
# title = "Llama 4 with SDPA and padding attends to what its mask hides, beyond a chunk"
# reports = ["https://github.com/huggingface/transformers/pull/38094"]
# area = "attention-mask"
# models = ["llama4"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation=\"eager\"."
# long-chunk = { says = "Set attention_chunk_size beyond the length of the text.", skips = true }
#
# [tool.repromatrix.snippets]
# eager = 'config = Llama4TextConfig(**options, attn_implementation="eager")'
# long-chunk = "config = Llama4TextConfig(**options, attention_chunk_size=longest)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.51,<4.52"]
# raises = "AssertionError"
# match = "a later token changes earlier logits"
# where = "llama4_sdpa_mask_inverted:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/38094"
#
# [[tool.repromatrix.fails]]
# title = "Llama 4 with eager attention and padding: masked_fill_ only supports boolean masks"
# when = ["transformers>=4.51,<4.51.2"]
# workarounds = ["eager"]
# raises = "RuntimeError"
# match = "masked_fill_ only supports boolean masks, but got mask with dtype long int"
# where = "transformers.models.llama4.modeling_llama4:Llama4TextModel._update_causal_mask"
# note = "The mask of the chunks is of whole numbers, which eager attention of 4.51.2 takes."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/38094"
# says = "The causal mask is inverted with SDPA."
# when = ["transformers>=4.51,<4.52"]
# outcome = "fails"
# ///
"""The logits of Llama 4 must not depend on tokens that come later.

With padding, and longer than `attention_chunk_size`, the additive causal mask, 0 where a token may
attend, is made boolean for SDPA, which reads True as "may attend": layers without chunks attend to
padding and to later tokens only. The chunk is four tokens here.
"""

import os
import sys

import torch
from transformers import Llama4ForCausalLM, Llama4TextConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "intermediate_size_mlp": 64}
SIZES |= {"num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 2}
EXPERTS = {
    "num_local_experts": 2,
    "head_dim": 16,
    "interleave_moe_layer_step": 2,
    "pad_token_id": 0,
}
EXPERTS |= {"no_rope_layers": [1, 1, 1, 0], "moe_layers": []}
WORKAROUNDS = {"", "eager", "long-chunk"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    how = {"attn_implementation": "eager" if workaround == "eager" else "sdpa"}
    chunk = 64 if workaround == "long-chunk" else 4
    config = Llama4TextConfig(**SIZES, **EXPERTS, attention_chunk_size=chunk, **how)
    model = Llama4ForCausalLM(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (1, 12), device=device)
    later = torch.cat([ids[:, :-2], ids[:, -2:] % 80 + 7], dim=-1)
    mask = torch.ones_like(ids)
    mask[:, :2] = 0
    one, other = (
        model(input_ids=each, attention_mask=mask, use_cache=False).logits[:, 2:-2].float()
        for each in (ids, later)
    )
    measured["logits_relative_error"] = float((one - other).norm() / one.norm())
    assert measured["logits_relative_error"] < 0.01, "a later token changes earlier logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
