# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "RoFormer does not know the order of its tokens: rotary positions are not applied"
# reports = []
# found-by = "sweep"
# area = "rotary-embedding"
# models = ["roformer"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# rotate-in-hooks = "Turn the outputs of the layers query and key by their positions with hooks."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.54.0,<4.54.1"]
# raises = "AssertionError"
# match = "the logits miss the positions"
# where = "roformer_positions_lost:main"
# ///
"""RoFormer must turn queries and keys by their positions, its only sign of the order of tokens.

The rewrite of RoFormerSelfAttention for caches (transformers#38635, in 4.54.0) still gets
sinusoidal_pos and no longer calls apply_rotary_position_embeddings. A sentence and its reverse have
the same features; 4.54.1 calls it again. The exact logits come from the same model with a table of
positions that turns nothing, and hooks that turn queries and keys by the function of the library.
"""

import os
import sys

import torch
from transformers import RoFormerConfig, RoFormerForMaskedLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
WORKAROUNDS = {"", "rotate-in-hooks"}
measured: dict[str, float] = {}


def rotate_in_hooks(model: RoFormerForMaskedLM) -> None:
    """Take the positions out of the model and apply them to what query and key return."""
    encoder = model.roformer.encoder
    table = encoder.embed_positions.weight.clone()
    sin, cos = encoder.embed_positions.weight.chunk(2, dim=-1)
    sin.zero_()
    cos.fill_(1)

    def turn(_: torch.nn.Module, __: object, states: torch.Tensor) -> torch.Tensor:
        heads = states.unflatten(-1, (2, -1)).transpose(1, 2)
        turned, _ = attention.apply_rotary_position_embeddings(
            table[None, None, : states.shape[1]], heads, heads
        )
        return turned.transpose(1, 2).flatten(2)

    for layer in encoder.layer:
        attention = layer.attention.self
        attention.query.register_forward_hook(turn)
        attention.key.register_forward_hook(turn)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = RoFormerForMaskedLM(RoFormerConfig(**SIZES, intermediate_size=64)).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1 and "embed_positions" not in name:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (1, 16), device=device)
    if workaround == "rotate-in-hooks":
        rotate_in_hooks(model)
    found = model(ids).logits.double()
    if not workaround:
        rotate_in_hooks(model)
    exact = model(ids).logits.double()
    measured["logits_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["logits_relative_error"] < 0.02, "the logits miss the positions"


if __name__ == "__main__":
    main(*sys.argv[1:])
