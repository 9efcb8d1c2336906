# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.51"]
#
# [tool.repromatrix]
# title = "Llama 4 generates garbage: its experts get the router's scores of other tokens"
# reports = ["https://github.com/huggingface/transformers/pull/40609"]
# area = "moe-routing"
# models = ["llama4"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.54,<4.56.1"]
# raises = "AssertionError"
# match = "another text of the batch changes the logits"
# where = "llama4_router_scores:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/40609"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/40609"
# says = "The scores are not transposed since transformers#39501, which came with 4.54."
# when = ["transformers>=4.54,<4.56"]
# outcome = "fails"
# ///
"""The logits of Llama 4 for a text must not depend on the other texts of its batch.

Every expert gets all tokens, each times its score, laid out expert after expert. From 4.54 on the
scores were laid out token after token, so that a token was multiplied with the scores of another
one, or of another expert.
"""

import os
import sys

import torch
from transformers import Llama4ForCausalLM, Llama4TextConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "intermediate_size_mlp": 64}
SIZES |= {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
EXPERTS = {"num_local_experts": 4, "head_dim": 16, "moe_layers": [0], "pad_token_id": 0}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert not workaround, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = Llama4ForCausalLM(Llama4TextConfig(**SIZES, **EXPERTS)).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (2, 8), device=device)
    alone = model(input_ids=ids[:1], use_cache=False).logits.float()
    found = model(input_ids=ids, use_cache=False).logits[:1].float()
    measured["tokens_changed"] = (found.argmax(-1) != alone.argmax(-1)).double().mean().item()
    measured["logits_relative_error"] = float((found - alone).norm() / alone.norm())
    assert measured["logits_relative_error"] < 0.05, "another text of the batch changes the logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
