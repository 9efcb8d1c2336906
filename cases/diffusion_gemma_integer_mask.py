# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.12"]
#
# [tool.repromatrix]
# title = "DiffusionGemma with a tokenizer's mask: Expected attn_mask dtype to be bool or float"
# reports = ["https://github.com/huggingface/transformers/pull/47295"]
# area = "attention-mask"
# models = ["diffusion-gemma"]
# trigger = ["forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# bool-mask = "Pass the mask of the decoder as a tensor of booleans."
#
# [tool.repromatrix.snippets]
# bool-mask = "mask = mask.bool()  # the decoder_attention_mask"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.13,<5.15"]
# raises = "RuntimeError"
# match = "Expected attn_mask dtype to be bool or float or to match query dtype"
# where = "transformers.integrations.sdpa_attention:sdpa_attention_forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/47295"
# note = "5.12 made the mask in another way, and took whole numbers."
#
# [[tool.repromatrix.fails]]
# title = "Experts on a CPU with torch 2.8, until 5.12: Could not run 'aten::_grouped_mm'"
# when = ["torch>=2.8,<2.9", "transformers>=5.12,<5.13"]
# raises = "NotImplementedError"
# match = "Could not run 'aten::_grouped_mm' with arguments from the 'CPU' backend"
# where = "transformers.integrations.moe:_grouped_mm"
# note = "torch 2.8 has this product and no kernel of it for a CPU; 5.13 does without."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47295"
# says = "A mask of whole numbers is not made boolean, and SDPA refuses it."
# when = ["transformers>=5.13,<5.15"]
# outcome = "fails"
# ///
"""DiffusionGemma must take a padding mask of 0 and 1, as tokenizers and collators make it.

The mask of the decoder is given to the low-level mask function, which keeps its dtype, where other
models go through functions that make it boolean first; SDPA refuses whole numbers.
"""

import os
import sys

import torch
from transformers import DiffusionGemmaConfig, DiffusionGemmaModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 16}
EXPERTS = {"num_experts": 2, "top_k_experts": 1, "moe_intermediate_size": 16}
HEADS |= {"num_global_key_value_heads": 2}
LAYERS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 32}
VISION = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 8}
VISION |= {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "bool-mask"}
CANVAS = 4


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    text = {**SIZES, **HEADS, **EXPERTS, **LAYERS}
    config = DiffusionGemmaConfig(text_config=text, vision_config=VISION, canvas_length=CANVAS)
    model = DiffusionGemmaModel(config).to(device, dtype).eval()
    ids = torch.randint(5, 90, (2, 6), device=device)
    canvas = torch.randint(5, 90, (2, CANVAS), device=device)
    mask = torch.ones(2, 6 + CANVAS, dtype=torch.long, device=device)
    mask[0, :2] = 0
    if workaround == "bool-mask":
        mask = mask.bool()
    inputs = {"input_ids": ids, "attention_mask": mask[:, :6], "decoder_input_ids": canvas}
    with torch.no_grad():
        states = model(**inputs, decoder_attention_mask=mask).last_hidden_state
    assert states.isfinite().all(), "non-finite states"


if __name__ == "__main__":
    main(*sys.argv[1:])
