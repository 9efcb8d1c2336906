# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.8"]
#
# [tool.repromatrix]
# title = "PP-FormulaNet attends to empty slots of a static cross-attention cache that is too long"
# reports = []
# found-by = "sweep"
# area = "kv-cache"
# models = ["pp_formulanet"]
# trigger = ["static-cache", "generate"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# dynamic-cache = "Generate with the default, dynamic cache."
#
# [tool.repromatrix.snippets]
# dynamic-cache = "made = model.generate(pixel_values=pixels, cache_implementation=None)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.8.0"]
# raises = "AssertionError"
# match = "the static cache changes the logits"
# where = "pp_formulanet_static_cross_cache:main"
# ///
"""PP-FormulaNet must give the same logits with a static cache as with a dynamic one.

`GenerationMixin._prepare_static_cache` makes the cross-attention cache as long as axis 1 of the
encoder's first output. Here that is an image of features, whose axis 1 are the channels, while the
decoder attends to the shorter `pooler_output`; the slots that stay empty are attended to.
"""

import os
import sys

import torch
from transformers import PPFormulaNetConfig, PPFormulaNetForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
VISION = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "mlp_dim": 32}
VISION |= {"image_size": 64, "output_channels": 32, "post_conv_in_channels": 32}
VISION |= {"post_conv_mid_channels": 32, "post_conv_out_channels": 32, "decoder_hidden_size": 32}
VISION |= {"global_attn_indexes": [0], "initializer_range": 0.2}
TEXT = {"vocab_size": 99, "d_model": 32, "decoder_layers": 1, "decoder_ffn_dim": 32}
TEXT |= {"decoder_attention_heads": 2, "max_position_embeddings": 64}
NEW = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "disable_compile": True}
KEEP = {"return_dict_in_generate": True, "output_logits": True}
WORKAROUNDS = {"", "dynamic-cache"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = PPFormulaNetConfig(vision_config=VISION, text_config=TEXT)
    model = PPFormulaNetForConditionalGeneration(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    model.to(device, dtype).eval()
    pixels = torch.randn(1, 3, 64, 64, device=device, dtype=dtype)
    start = torch.tensor([[2]], device=device)
    cache = None if workaround == "dynamic-cache" else "static"
    with torch.no_grad():
        exact = model(pixel_values=pixels, decoder_input_ids=start).logits[:, -1].float()
        found = model.generate(pixel_values=pixels, cache_implementation=cache, **NEW, **KEEP)
    apart = (found.logits[0].float() - exact).norm() / exact.norm()
    measured["logits_relative_error"] = float(apart)
    assert measured["logits_relative_error"] < 0.05, "the static cache changes the logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
