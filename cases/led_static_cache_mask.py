# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "LED generates other tokens with a static cache: its empty slots are attended to"
# reports = []
# found-by = "sweep"
# area = "kv-cache"
# models = ["led"]
# trigger = ["static-cache", "generate"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# dynamic-cache = "Generate with the default, dynamic cache."
#
# [tool.repromatrix.snippets]
# dynamic-cache = "made = model.generate(ids, cache_implementation=None)"
#
# [[tool.repromatrix.fails]]
# title = "LED refuses a static cache: This model does not support cache_implementation='static'"
# when = ["transformers>=4.54.0,<4.56.0"]
# raises = "ValueError"
# match = "This model does not support `cache_implementation='static'`. Please check the following issue: https:/"
# where = "transformers.generation.utils:GenerationMixin._prepare_cache_for_generation"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.56.0,<5.4.0"]
# raises = "AssertionError"
# match = "the static cache changes the logits"
# where = "led_static_cache_mask:main"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.13.0"]
# raises = "AssertionError"
# match = "the static cache changes the logits"
# where = "led_static_cache_mask:main"
#
# [[tool.repromatrix.fails]]
# title = "LED with a static cache in 5.4 to 5.12: arange() received an invalid combination of arguments"
# when = ["transformers>=5.4.0,<5.13.0"]
# raises = "TypeError"
# match = "* (Number end, *, Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, b"
# where = "transformers.models.led.modeling_led:LEDLearnedPositionalEmbedding.forward"
# ///
"""LED must give the same logits with a static cache as with a dynamic one.

`LEDDecoder.forward` makes a mask only for more than one token. With a dynamic cache a single token
needs none, but a static cache returns all of its slots, and the empty ones are attended to. Older
releases ignored `cache_implementation` for this model.
"""

import os
import sys

import torch
from transformers import LEDConfig, LEDForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ENCODER = {"encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32}
DECODER = {"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 32}
SIZES = {
    "vocab_size": 99,
    "d_model": 32,
    "attention_window": 4,
    "max_encoder_position_embeddings": 64,
}
NEW = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "num_beams": 1}
KEEP = {"return_dict_in_generate": True, "output_scores": True}
WORKAROUNDS = {"", "dynamic-cache"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LEDForConditionalGeneration(LEDConfig(**SIZES, **ENCODER, **DECODER))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype).eval()
    ids = torch.randint(5, 90, (1, 8), device=device)
    cache = None if workaround == "dynamic-cache" else "static"
    with torch.no_grad():
        exact = model(ids, decoder_input_ids=torch.tensor([[2]], device=device)).logits[0, -1]
        found = model.generate(ids, cache_implementation=cache, **NEW, **KEEP).scores[0][0]
    kept = found.isfinite()  # generate forbids the token that ends the text
    apart = (found[kept].float() - exact[kept].float()).norm() / exact[kept].float().norm()
    measured["logits_relative_error"] = float(apart)
    assert measured["logits_relative_error"] < 0.05, "the static cache changes the logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
