# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "GIT adds the length of its cache to the positions of generated tokens twice"
# reports = []
# found-by = "sweep"
# area = "kv-cache"
# models = ["git"]
# trigger = ["generate"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# no-cache = "Call generate with use_cache=False."
#
# [tool.repromatrix.snippets]
# no-cache = "made = model.generate(ids, use_cache=False)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.1.0,<5.18.0"]
# raises = "AssertionError"
# match = "logits of a cached step differ"
# where = "git_cached_positions:main"
# ///
"""A step of GIT with a cache must give the logits that the whole text gives at once.

Since 5.1 generate counts positions from the start of the text and passes them. Until 5.17
`GitModel.forward` added the length of the cache to that of a single token all the same, so that
every token after the first one made stood too far by that length. A text without an image shows it.
"""

import os
import sys

import torch
from transformers import GitConfig, GitForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 2}
VISION = {**SIZES, "image_size": 28, "patch_size": 14}
WORKAROUNDS = {"", "no-cache"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = GitForCausalLM(GitConfig(vision_config=VISION, vocab_size=99, **SIZES)).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.5)
    model.to(device, dtype)
    ids = torch.randint(5, 90, (1, 8), device=device)
    how = {"max_new_tokens": 4, "do_sample": False, "use_cache": workaround != "no-cache"}
    how |= {"output_logits": True, "return_dict_in_generate": True, "eos_token_id": None}
    made = model.generate(ids, attention_mask=torch.ones_like(ids), **how)
    found = torch.stack(made.logits[1:], dim=1).float()  # the first is that of the prompt
    with torch.no_grad():
        exact = model(input_ids=made.sequences).logits[:, -4:-1].float()
    measured["logits_relative_error"] = float((found - exact).norm() / exact.norm())
    assert measured["logits_relative_error"] < 0.05, "logits of a cached step differ"


if __name__ == "__main__":
    main(*sys.argv[1:])
