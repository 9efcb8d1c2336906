# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "ESM for masked LM cannot run after resize_token_embeddings: its head keeps the old bias"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["esm"]
# trigger = ["forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# pad-bias = "After the resize, pad model.lm_head.bias with zeros to the new size."
#
# [tool.repromatrix.snippets]
# pad-bias = '''
# bias = torch.nn.functional.pad(model.lm_head.bias.detach(), (0, added))
# model.lm_head.bias = torch.nn.Parameter(bias)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# raises = "RuntimeError"
# match = ") must match the size of tensor b"
# where = "transformers.models.esm.modeling_esm:EsmLMHead.forward"
# ///
"""A masked language model must run after its vocabulary was resized.

`EsmLMHead` has a decoder without a bias and adds a parameter of its own, `lm_head.bias`.
`resize_token_embeddings` resizes the embedding and the decoder and does not know that parameter.
"""

import os
import sys

import torch
from transformers import EsmConfig, EsmForMaskedLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
TOKENS = {"num_attention_heads": 4, "pad_token_id": 0, "mask_token_id": 1}
WORKAROUNDS = {"", "pad-bias"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = EsmConfig(**SIZES, **TOKENS, max_position_embeddings=64)
    model = EsmForMaskedLM(config).to(device, dtype).eval()
    model.resize_token_embeddings(48, mean_resizing=False)
    if workaround == "pad-bias":
        bias = torch.nn.functional.pad(model.lm_head.bias.detach(), (0, 8))
        model.lm_head.bias = torch.nn.Parameter(bias)
    logits = model(input_ids=torch.arange(5, 13, device=device)[None]).logits
    assert logits.shape == (1, 8, 48), "the logits are not over the new vocabulary"


if __name__ == "__main__":
    main(*sys.argv[1:])
