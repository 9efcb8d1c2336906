# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.56"]
#
# [tool.repromatrix]
# title = "Apertus loaded in fp16: the activation has bf16 parameters and returns fp32"
# reports = ["https://github.com/huggingface/transformers/pull/42864"]
# area = "loading"
# models = ["apertus"]
# trigger = ["load", "forward"]
# symptom = ["error", "wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# cast-again = "Load in fp16, then call .to(torch.float16) on the loaded model."
# bf16 = "Load in bf16."
#
# [tool.repromatrix.snippets]
# cast-again = "model.to(dtype)  # after from_pretrained"
# bf16 = "model = ApertusForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5"]
# precisions = ["fp16"]
# raises = "RuntimeError"
# match = [
#     "to have the same dtype, but got",
#     "must have the same dtype, but got",
# ]
# where = "transformers.models.apertus.modeling_apertus:ApertusMLP.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/42864"
#
# [[tool.repromatrix.fails]]
# title = "Apertus loaded in fp32: the parameters of its activation are rounded to bf16"
# when = ["transformers<5"]
# precisions = ["fp32"]
# raises = "AssertionError"
# match = "a parameter or buffer is in another dtype"
# where = "apertus_load_fp16:main"
# symptom = ["wrong-dtype"]
# fixed-by = "https://github.com/huggingface/transformers/pull/42864"
#
# [[tool.repromatrix.fails]]
# title = "Apertus in 5.0 cannot be loaded: Cannot copy out of meta tensor"
# when = ["transformers>=5.0.0,<5.1.0"]
# workarounds = ["*"]
# raises = "NotImplementedError"
# match = "Cannot copy out of meta tensor; no data!"
# where = "transformers.activations:XIELUActivation.__init__"
# fixed-by = "https://github.com/huggingface/transformers/pull/43473"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/42864"
# says = "Apertus crashes on hardware that needs float16: its activation is made in bfloat16."
# when = ["transformers>=4.56,<5"]
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""Apertus loaded in a dtype must have the parameters of its activation, xIELU, in that dtype.

The activation is made with parameters and buffers in bf16, whatever the model is made in, and
loading keeps the dtype of what it fills. In fp16 the two dtypes promote to fp32, which the next
layer refuses. In fp32 the parameters are rounded, without an error.
"""

import os
import sys
import tempfile

import torch
from transformers import ApertusConfig, ApertusForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "cast-again", "bf16"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device = os.environ.get("REPRO_DEVICE", "cpu")
    dtype = torch.bfloat16 if workaround == "bf16" else DTYPES[precision]
    with tempfile.TemporaryDirectory() as folder:
        ApertusForCausalLM(ApertusConfig(**SIZES, **HEADS)).save_pretrained(folder)
        model = ApertusForCausalLM.from_pretrained(folder, torch_dtype=dtype).to(device)
    if workaround == "cast-again":
        model.to(dtype)
    logits = model.eval()(input_ids=torch.tensor([[5, 6, 7]], device=device)).logits
    assert logits.isfinite().all(), "non-finite logits"
    dtypes = {value.dtype for value in model.state_dict().values() if value.is_floating_point()}
    assert dtypes == {dtype}, "a parameter or buffer is in another dtype"


if __name__ == "__main__":
    main(*sys.argv[1:])
