# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "ProphetNet's logits depend on later decoder tokens: relative positions in a wrong order"
# reports = []
# found-by = "sweep"
# area = "generation"
# models = ["prophetnet"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# cached-steps = "Decode token by token with a cache; no help for training."
#
# [tool.repromatrix.snippets]
# cached-steps = '''
# past = None
# for token in tokens.split(1, dim=1):
#     out = model(ids, decoder_input_ids=token, past_key_values=past, use_cache=True)
#     past = out.past_key_values'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# raises = "AssertionError"
# match = "logits depend on later tokens"
# where = "prophetnet_future_tokens:main"
# ///
"""ProphetNet's logits for a token must not depend on the decoder tokens after it.

`ProphetNetNgramSelfAttention.get_predict_relative_pos_embeddings` lays the relative positions of
the predicting streams out by position, stream and head, and reads them back by stream, head and
position. With several tokens each position so gets values made from others, later ones too. One
token at a time is right, so that `generate` with its cache is, and training is not.
"""

import os
import sys

import torch
from transformers import ProphetNetConfig, ProphetNetForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "max_position_embeddings": 32}
ENCODER = {"num_encoder_layers": 2, "num_encoder_attention_heads": 4, "encoder_ffn_dim": 32}
DECODER = {"num_decoder_layers": 2, "num_decoder_attention_heads": 4, "decoder_ffn_dim": 32}
WORKAROUNDS = {"", "cached-steps"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = ProphetNetForConditionalGeneration(ProphetNetConfig(**SIZES, **ENCODER, **DECODER))
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.05 if "cross_attn" in name else 0.3)
    model.to(device, dtype).eval()
    ids = torch.randint(5, 90, (1, 6), device=device)
    first = torch.randint(5, 40, (1, 8), device=device)
    other = torch.cat([first[:, :2], first[:, 2:] + 50], dim=1)

    def logits(tokens: torch.Tensor) -> torch.Tensor:
        if workaround != "cached-steps":
            return model(ids, decoder_input_ids=tokens, use_cache=False).logits[:, :2].float()
        past, made = None, []
        for token in tokens.split(1, dim=1):
            out = model(ids, decoder_input_ids=token, past_key_values=past, use_cache=True)
            past = out.past_key_values
            made.append(out.logits[:, -1:].float())
        return torch.cat(made, dim=1)[:, :2]

    with torch.no_grad():
        one, two = logits(first), logits(other)
    measured["logits_relative_error"] = float((one - two).norm() / one.norm())
    assert measured["logits_relative_error"] < 0.005, "logits depend on later tokens"


if __name__ == "__main__":
    main(*sys.argv[1:])
