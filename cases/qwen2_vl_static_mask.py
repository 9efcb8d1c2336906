# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.53"]
#
# [tool.repromatrix]
# title = "Qwen2-VL with a static cache: torch.finfo() requires a floating point input type"
# reports = ["https://github.com/huggingface/transformers/pull/39333"]
# area = "attention-mask"
# models = ["qwen2_vl", "qwen2_5_vl", "glm4v"]
# variants = ["qwen2-vl", "qwen2.5-vl", "glm4v"]
# trigger = ["static-cache", "generate"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation=\"eager\", whose mask holds numbers."
# dynamic-cache = { says = "Generate with the default cache.", skips = true }
#
# [tool.repromatrix.snippets]
# eager = 'config = model_class.config_class(**options, attn_implementation="eager")'
# dynamic-cache = "made = model.generate(input_ids=ids)  # no cache_implementation"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.53.0,<4.54.0"]
# variants = ["qwen2-vl"]
# raises = "TypeError"
# match = "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
# where = "transformers.models.qwen2_vl.modeling_qwen2_vl:Qwen2VLModel.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/39333"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.53.0,<4.54.0"]
# variants = ["qwen2.5-vl"]
# raises = "TypeError"
# match = "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
# where = "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl:Qwen2_5_VLModel.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/39333"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.53.0,<4.54.0"]
# variants = ["glm4v"]
# raises = "TypeError"
# match = "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
# where = "transformers.models.glm4v.modeling_glm4v:Glm4vModel.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/39333"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/39333"
# says = "A mask that holds no floating-point numbers raises in torch.finfo."
# when = ["transformers>=4.53,<4.54"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/39333"
# says = "Masks of other kinds are left as they are."
# when = ["transformers>=4.54"]
# outcome = "passes"
# ///
"""Qwen2-VL and its kin generate with a static cache, whatever kind of mask the attention takes.

They divided the mask that `generate` had prepared by the least number of its dtype, to see which
tokens are padding; the mask for sdpa holds booleans since 4.53. fp32 fails as well.
"""

import os
import re
import sys
from importlib import import_module

import torch
from transformers import PreTrainedModel  # noqa: TC002 - at the top a runner imports it once

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NAMES = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL", "glm4v": "Glm4v"}
LAYERS = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 99}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
VISION = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 2}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IMAGES = {"image_token_id": 90, "video_token_id": 91, "vision_start_token_id": 92}
WORKAROUNDS = {"", "eager", "dynamic-cache"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    variant = re.sub(r"\W", "_", os.environ.get("REPRO_VARIANT", "qwen2-vl"))
    module = import_module(f"transformers.models.{variant}.modeling_{variant}")
    model_class = getattr(module, f"{NAMES[variant]}ForConditionalGeneration")
    text = {**LAYERS, **HEADS, **TOKENS, "rope_scaling": ROPE}
    attention = {"attn_implementation": "eager" if workaround == "eager" else "sdpa"}
    config = model_class.config_class(
        text_config=text, vision_config=VISION, **text, **IMAGES, **attention
    )
    model: PreTrainedModel = model_class(config).to(device, dtype).eval()
    ids = torch.randint(3, 90, (1, 6), device=device)
    assert model(input_ids=ids).logits.isfinite().all(), "non-finite logits"
    cache = {} if workaround == "dynamic-cache" else {"cache_implementation": "static"}
    found = model.generate(input_ids=ids, max_new_tokens=2, do_sample=False, **cache)
    assert found.shape[1] > ids.shape[1], "no token was generated"


if __name__ == "__main__":
    main(*sys.argv[1:])
