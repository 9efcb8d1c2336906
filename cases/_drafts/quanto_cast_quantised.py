# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "optimum-quanto>=0.2.7"]
#
# [tool.repromatrix]
# title = "A model that quanto quantised cannot be cast to another dtype"
# reports = [
#     "https://github.com/huggingface/optimum-quanto/issues/312",
#     "https://github.com/deepbeepmeep/Wan2GP/issues/344",
# ]
# area = "quantization"
# models = "any"
# shown-with = ["llama"]
# concerns = "Models with quanto's weights that a pipeline or a script casts to 16 bit."
# trigger = ["cast"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# float8 = "Quantise to float8 in place of int8."
# cast-before = "Cast the model before it is quantised."
#
# [[tool.repromatrix.fails]]
# at-fault = "optimum-quanto"
# precisions = ["bf16", "fp16"]
# workarounds = ["", "float8"]
# raises = "ValueError"
# match = "The dtype of a weights Tensor cannot be changed"
# where = "optimum.quanto.tensor.weights.qbytes:WeightQBytesTensor.__torch_dispatch__"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/optimum-quanto/issues/312"
# says = "A model with qint4 weights cannot be cast to float16 (the case has qint8)."
# precisions = ["fp16"]
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/optimum-quanto/issues/312"
# says = "With qfloat8 weights the same works well."
# precisions = ["fp16"]
# workaround = "float8"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/deepbeepmeep/Wan2GP/issues/344"
# says = "A quantised model cannot be cast: The dtype of a weights Tensor cannot be changed."
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""A model with weights of quanto must be castable to 16 bit, as `pipeline.to(dtype)` does.

A quantised weight has the dtype of its scale and refuses another, although casting the scale would
do. `Module.to(dtype)` stops there, with the modules before it cast and those after it not.
"""

import os
import sys

import torch
from optimum.quanto import freeze, qfloat8, qint8, quantize
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "float8", "cast-before"}
CONFIG = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 99}
CONFIG |= {"num_attention_heads": 2, "num_key_value_heads": 2}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**CONFIG)).eval().to(device)
    if workaround == "cast-before":
        model.to(dtype)
    quantize(model, weights=qfloat8 if workaround == "float8" else qint8)
    freeze(model)
    model.to(dtype)
    logits = model(torch.arange(8, device=device)[None]).logits
    assert logits.dtype == dtype, f"logits are {logits.dtype}"
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
