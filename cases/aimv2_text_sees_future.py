# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.54"]
#
# [tool.repromatrix]
# title = "The text model of AIMv2 attends to later tokens under SDPA where nothing is padded"
# reports = []
# found-by = "sweep"
# area = "attention-mask"
# models = ["aimv2"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation='eager', which is given a mask."
#
# [tool.repromatrix.snippets]
# eager = 'model = AutoModel.from_config(config, attn_implementation="eager")'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.54.0"]
# raises = "AssertionError"
# match = "a later token changes an earlier one"
# where = "aimv2_text_sees_future:main"
# ///
"""What the text model of AIMv2 computes for a token must not depend on those that follow.

`Aimv2TextModel` makes a causal mask of the mask that a tokenizer returns. For SDPA that is none
where nothing is padded, and `Aimv2Attention`, which the vision model shares, is told not to be
causal. A text is then embedded otherwise alone than beside a longer one.
"""

import os
import sys

import torch
from transformers import Aimv2Config, AutoModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 2}
TEXT = {**SIZES, "vocab_size": 99, "eos_token_id": 98}
VISION = {**SIZES, "image_size": 28, "patch_size": 14}
WORKAROUNDS = {"", "eager"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    how = {"attn_implementation": "eager"} if workaround == "eager" else {}
    config = Aimv2Config(text_config=TEXT, vision_config=VISION, projection_dim=32)
    model = AutoModel.from_config(config, **how).eval().text_model
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (1, 8), device=device)
    later = torch.cat([ids[:, :-2], ids[:, -2:].flip(-1)], dim=-1)
    mask = torch.ones_like(ids)
    with torch.no_grad():
        one, other = (
            model(input_ids=some, attention_mask=mask).last_hidden_state[:, :-2].float()
            for some in (ids, later)
        )
    measured["output_relative_error"] = float((one - other).norm() / one.norm())
    assert measured["output_relative_error"] < 1e-3, "a later token changes an earlier one"


if __name__ == "__main__":
    main(*sys.argv[1:])
