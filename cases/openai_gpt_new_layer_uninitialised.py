# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "OpenAI GPT leaves matrices that a checkpoint lacks uninitialised"
# reports = ["https://github.com/huggingface/transformers/pull/48152"]
# found-by = "sweep"
# area = "loading"
# models = ["openai-gpt"]
# trigger = ["load", "forward"]
# symptom = ["nan-or-inf", "wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# init-again = "Initialise the layers that the checkpoint lacks after loading."
#
# [tool.repromatrix.snippets]
# init-again = '''
# for module in layer.modules():  # of each layer that the checkpoint lacks
#     if isinstance(module, Conv1D):
#         torch.nn.init.normal_(module.weight, std=0.02)
#         torch.nn.init.zeros_(module.bias)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# raises = "AssertionError"
# match = "the new layer is not initialised"
# where = "openai_gpt_new_layer_uninitialised:main"
# ///
"""A layer that a checkpoint of OpenAI GPT lacks must be initialised when it is loaded.

Since 5.0 `OpenAIGPTPreTrainedModel._init_weights` knows no `Conv1D`, the class of all its matrices,
so a new layer keeps the memory that it was allocated in. What that holds differs from run to run;
here torch fills it with NaN, so that it shows.
"""

import os
import sys
import tempfile

import torch
from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel
from transformers.pytorch_utils import Conv1D

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CONFIG = {"vocab_size": 99, "n_positions": 32, "n_embd": 32, "n_layer": 1, "n_head": 2}
WORKAROUNDS = {"", "init-again"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    with tempfile.TemporaryDirectory() as folder:
        OpenAIGPTLMHeadModel(OpenAIGPTConfig(**CONFIG)).to(dtype).save_pretrained(folder)
        model = OpenAIGPTLMHeadModel.from_pretrained(folder, n_layer=2, torch_dtype=dtype)
    for module in model.transformer.h[1].modules() if workaround == "init-again" else ():
        if isinstance(module, Conv1D):
            torch.nn.init.normal_(module.weight, std=0.02)
            torch.nn.init.zeros_(module.bias)
    ids = torch.randint(5, 90, (2, 8), device=device)
    logits = model.to(device).eval()(input_ids=ids).logits
    measured["nonfinite_share"] = 1 - logits.isfinite().float().mean().item()
    assert measured["nonfinite_share"] < 0.1, "the new layer is not initialised"


if __name__ == "__main__":
    main(*sys.argv[1:])
