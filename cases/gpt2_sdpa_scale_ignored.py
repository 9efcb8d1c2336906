# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "GPT-2 ignores scale_attn_by_inverse_layer_idx under SDPA"
# reports = ["https://github.com/huggingface/transformers/issues/44380"]
# area = "attention"
# models = ["gpt2"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# eager = "Load or build the model with attn_implementation='eager', which reads the setting."
#
# [tool.repromatrix.snippets]
# eager = 'model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.4"]
# raises = "AssertionError"
# match = "SDPA and eager attention differ"
# where = "gpt2_sdpa_scale_ignored:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/44397"
# ///
"""GPT-2 computes the same with SDPA as with eager attention, however its scores are scaled.

`GPT2Attention.forward` passed no `scaling` on, so that settings which eager attention reads from
the layer were dropped by SDPA without a word. GPT-2's own checkpoints set neither; those that do,
as Stanford's Mistral ones with `scale_attn_by_inverse_layer_idx`, compute something else.
"""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, GPT2Config

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "n_embd": 32, "n_layer": 4, "n_head": 2, "n_positions": 32}
SIZES |= {"bos_token_id": 1, "eos_token_id": 2}
WORKAROUNDS = {"", "eager"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    eager, model = (
        AutoModelForCausalLM.from_config(
            GPT2Config(**SIZES, scale_attn_by_inverse_layer_idx=True), attn_implementation=used
        ).eval()
        for used in ("eager", workaround or "sdpa")
    )
    for name, parameter in eager.named_parameters():
        if name.endswith("c_attn.weight"):
            torch.nn.init.normal_(parameter, std=0.6)
    model.load_state_dict(eager.state_dict())
    for one in (eager, model):
        one.to(device, dtype)
    ids = torch.randint(0, 99, (2, 12), device=device)
    with torch.no_grad():
        wanted = eager(input_ids=ids).logits.float()
        found = model(input_ids=ids).logits.float()
    measured["logits_relative_error"] = float((found - wanted).norm() / wanted.norm())
    assert measured["logits_relative_error"] < 0.052, "SDPA and eager attention differ"


if __name__ == "__main__":
    main(*sys.argv[1:])
