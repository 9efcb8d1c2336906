# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "NLLB-MoE computes with its experts 0 and 1 alone, whatever the router chose"
# reports = []
# found-by = "sweep"
# area = "moe-routing"
# models = ["nllb-moe"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# dispatch = "Give NllbMoeExperts a forward that sends tokens where router_probs is not zero."
#
# [tool.repromatrix.snippets]
# dispatch = '''
# def dispatch(experts, tokens, _, weights):
#     found = torch.zeros_like(tokens)
#     for at, rows in enumerate(one.nonzero().flatten() for one in weights.T):
#         found[rows] += experts[f"expert_{at}"](tokens[rows]) * weights[rows, at, None]
#     return found * (1 - experts.moe_token_dropout)
# modeling_nllb_moe.NllbMoeExperts.forward = dispatch'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# raises = "AssertionError"
# match = "tokens do not reach the experts of their router"
# where = "nllb_moe_two_experts:main"
# ///
"""Each token of NLLB-MoE must pass through the two experts that its router chose.

`NllbMoeSparseMLP` gives `NllbMoeExperts.forward` the mask of the first choices, one column per
expert and already of 0 and 1, which takes it for numbers of experts and encodes it again: expert 1
gets every first choice, and expert 0 every other column, each with the weight of the chosen one.
4.x, which has no NllbMoeExperts, loops over the experts; there the model is compared with itself,
and a pass shows only that it runs.
"""

import os
import sys

import torch
from transformers import NllbMoeConfig, NllbMoeForConditionalGeneration
from transformers.models.nllb_moe import modeling_nllb_moe

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2}
SIZES |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
SIZES |= {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_experts": 6, "pad_token_id": 1}
SIZES |= {"encoder_sparse_step": 2, "decoder_sparse_step": 2, "max_position_embeddings": 64}
WORKAROUNDS = {"", "dispatch"}
measured: dict[str, float] = {}


def dispatch(
    experts: torch.nn.ModuleDict, tokens: torch.Tensor, _: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    found = torch.zeros_like(tokens)
    for number in range(experts.num_experts):
        rows = weights[:, number].nonzero().flatten()
        said = experts[f"expert_{number}"](tokens[rows]) * weights[rows, number, None]
        found[rows] += said.to(found.dtype) * (1 - experts.moe_token_dropout)
    return found


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    experts = getattr(modeling_nllb_moe, "NllbMoeExperts", None)  # since 5.0
    if experts and workaround == "dispatch":
        experts.forward = dispatch
    model = NllbMoeForConditionalGeneration(NllbMoeConfig(**SIZES)).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (2, 1, 16), device=device)
    with torch.no_grad():
        found = model(input_ids=ids[0], decoder_input_ids=ids[1]).logits.float()
        if experts:
            experts.forward = dispatch
        exact = model(input_ids=ids[0], decoder_input_ids=ids[1]).logits.float()
    measured["logits_relative_error"] = float((found - exact).norm() / exact.norm())
    right = measured["logits_relative_error"] < 0.01
    assert right, "tokens do not reach the experts of their router"


if __name__ == "__main__":
    main(*sys.argv[1:])
