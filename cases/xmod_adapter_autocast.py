# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "X-MOD under autocast fails in lang_adapter: Index put requires the dtypes to match"
# reports = []
# found-by = "sweep"
# area = "autocast"
# models = ["xmod"]
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
# when = ["transformers>=5.0.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "Index put requires the source and destination dtypes match, got Float for the destination and BFloat16 for the source.",
#     "Index put requires the source and destination dtypes match, got Float for the destination and Half for the source.",
# ]
# where = "transformers.models.xmod.modeling_xmod:XmodOutput.lang_adapter"
# ///
"""X-MOD with fp32 weights must run a forward pass under autocast.

Since 5.0 `XmodOutput.lang_adapter` makes a tensor of zeros in the dtype of its input and writes
what the adapter of each language returns into it. Its input comes from a layer norm, which
autocast computes in fp32, while the adapter ends in a linear layer, in 16 bit; writing by a mask
does not cast. Earlier releases concatenate what the adapters return.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import XmodConfig, XmodForMaskedLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
ADAPTERS = {"languages": ["en_XX", "de_DE"], "default_language": "en_XX"}
WORKAROUNDS = {"", "cast-weights"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = XmodConfig(**SIZES, **ADAPTERS, num_attention_heads=4)
    model = XmodForMaskedLM(config).to(device).eval()
    if workaround == "cast-weights":
        model.to(dtype)
    mixed = precision != "fp32" and workaround != "cast-weights"
    ids = torch.randint(5, 90, (2, 8), device=device)
    languages = torch.tensor([0, 1], device=device)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        logits = model(input_ids=ids, lang_ids=languages).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
