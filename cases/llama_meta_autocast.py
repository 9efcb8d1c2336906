# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "A model on the meta device cannot run a forward pass: autocast is unsupported there"
# reports = ["https://github.com/huggingface/transformers/pull/44984"]
# area = "autocast"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with rotary embeddings, which are computed with autocast switched off; tracing tools
# run such models on the meta device to learn shapes and dtypes."""
# trigger = ["forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# fake-tensors = "Run the model with fake tensors, which have a real device, in place of meta ones."
#
# [tool.repromatrix.snippets]
# fake-tensors = '''
# with FakeTensorMode(allow_non_fake_inputs=True):
#     outputs = model(ids)  # on a real device'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5"]
# raises = "RuntimeError"
# match = "unsupported scalarType"
# where = "transformers.models.llama.modeling_llama:LlamaRotaryEmbedding.forward"
#
# [[tool.repromatrix.fails]]
# title = "A model on the meta device cannot run a forward pass: autocast is unsupported there"
# when = ["transformers>=5,<5.4"]
# raises = "RuntimeError"
# match = "unknown device type for autocast"
# where = "transformers.utils.generic:maybe_autocast"
# fixed-by = "https://github.com/huggingface/transformers/pull/44984"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/44984"
# says = "Asking whether autocast is on for the meta device raises."
# when = ["transformers>=5.3,<5.4"]
# outcome = "fails"
# ///
"""A model on the meta device must run a forward pass, and tell the shape and dtype of the result.

Rotary embeddings are computed in fp32, with autocast switched off for the device of their input;
torch knows no autocast for the meta device.
"""

import os
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "fake-tensors"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config, ids = LlamaConfig(**SIZES, **HEADS), torch.zeros(1, 4, dtype=torch.long, device=device)
    model = AutoModelForCausalLM.from_config(config, torch_dtype=dtype).to(device)
    real = model(ids).logits
    if workaround == "fake-tensors":
        with FakeTensorMode(allow_non_fake_inputs=True):
            logits = model(ids).logits
    else:
        logits = model.to("meta")(ids.to("meta")).logits
    found, wanted = (logits.dtype, logits.shape), (real.dtype, real.shape)
    assert found == wanted, "the result is not what a real device gives"


if __name__ == "__main__":
    main(*sys.argv[1:])
