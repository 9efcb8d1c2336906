# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Reformer no longer adds the bias of its output layer"
# reports = []
# found-by = "sweep"
# area = "logits"
# models = ["reformer"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# join-again = "Set model.lm_head.decoder.bias = model.lm_head.bias."
#
# [tool.repromatrix.snippets]
# join-again = "model.lm_head.decoder.bias = model.lm_head.bias"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# raises = "AssertionError"
# match = "the logits miss the bias"
# where = "reformer_head_bias_ignored:main"
# ///
"""The logits of Reformer must contain the bias of its output layer.

ReformerOnlyLMHead has a bias of its own beside a linear layer without one. Up to 4.57 both are one
parameter, set in the constructor and again when weights are tied. transformers#41580 took out both
lines for 5.0, and nothing reads the bias since. It is still loaded, saved and shown to optimizers. The bias
is random here, so the error is not that of a trained head.
"""

import os
import sys

import torch
from transformers import ReformerConfig, ReformerModelWithLMHead

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "feed_forward_size": 64, "attention_head_size": 16}
LAYERS = {"num_attention_heads": 2, "attn_layers": ["local"]}
WORKAROUNDS = {"", "join-again"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = ReformerConfig(**SIZES, **LAYERS, axial_pos_embds=False, is_decoder=True)
    model = ReformerModelWithLMHead(config).to(device, dtype).eval()
    if workaround == "join-again":
        model.lm_head.decoder.bias = model.lm_head.bias
    ids = torch.randint(5, 90, (1, 8), device=device)
    bias = torch.randn(99).to(device, dtype)
    model.lm_head.bias.zero_()
    exact = (model(ids).logits + bias).double()
    model.lm_head.bias.copy_(bias)
    found = model(ids).logits.double()
    measured["logits_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["logits_relative_error"] < 0.05, "the logits miss the bias"


if __name__ == "__main__":
    main(*sys.argv[1:])
