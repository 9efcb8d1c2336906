# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "GPT-NeoX forgets rotary_pct when it is saved and loaded"
# reports = ["https://github.com/huggingface/transformers/pull/44985"]
# area = "config"
# models = ["gpt-neox"]
# same-code = ["gpt-neox-japanese"]
# trigger = ["save", "load"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# own-config = "Load the weights with the config that the model was built with."
#
# [tool.repromatrix.snippets]
# own-config = "model = GPTNeoXForCausalLM.from_pretrained(name, config=config)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5,<5.5"]
# raises = "AssertionError"
# match = "the loaded model is not the one saved"
# where = "gpt_neox_rotary_share_reload:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/44985"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/44985"
# says = "The saved share of rotary dimensions is overwritten with the default on reload."
# when = ["transformers>=5.0,<5.5"]
# outcome = "fails"
# ///
"""A GPT-NeoX model with another `rotary_pct` than the default must be loaded as it was saved.

5.0 moved the share of rotary dimensions into `rope_parameters`, where it is saved. Reading such a
config looks for the old name, does not find it, and puts the default in place of what was saved.
"""

import os
import sys
import tempfile

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
SHARE = {"num_attention_heads": 2, "rotary_pct": 1.0, "initializer_range": 0.5}
WORKAROUNDS = {"", "own-config"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = GPTNeoXConfig(**SIZES, **SHARE)
    model = GPTNeoXForCausalLM(config).to(device, dtype).eval()
    own = {"config": config} if workaround == "own-config" else {}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = GPTNeoXForCausalLM.from_pretrained(folder, torch_dtype=dtype, **own)
    ids = torch.randint(0, 99, (2, 32), device=device)
    exact, found = model(ids).logits.float(), loaded.to(device).eval()(ids).logits.float()
    measured["logits_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["logits_relative_error"] < 0.05, "the loaded model is not the one saved"


if __name__ == "__main__":
    main(*sys.argv[1:])
