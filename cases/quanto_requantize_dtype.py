# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "optimum-quanto>=0.2.7"]
#
# [tool.repromatrix]
# title = "quanto's requantize leaves in fp32 what is not quantised of a 16-bit state dict"
# reports = ["https://github.com/huggingface/optimum-quanto/pull/301"]
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = "16-bit models that quanto quantised, saved as a state dict and loaded again."
# trigger = ["save", "load"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-first = "Cast the new model to the dtype of the saved one before requantize."
# save-pretrained = "Save and load with QuantizedModelForCausalLM."
#
# [tool.repromatrix.snippets]
# cast-first = "model.to(dtype)  # before requantize"
# save-pretrained = '''
# QuantizedModelForCausalLM.quantize(model, weights=qint8).save_pretrained(folder)
# model = QuantizedModelForCausalLM.from_pretrained(folder)'''
#
# [[tool.repromatrix.fails]]
# at-fault = "optimum-quanto"
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "Expected query, key, and value to have the same dtype"
# where = "transformers.integrations.sdpa_attention:sdpa_attention_forward"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/optimum-quanto/pull/301"
# says = "A quantised model that is loaded from a local file sometimes has a wrong dtype."
# precisions = ["bf16", "fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/optimum-quanto/pull/301"
# says = "It is QuantizedTransformersModel that loads in a wrong dtype."
# precisions = ["bf16", "fp16"]
# workaround = "save-pretrained"
# outcome = "fails"
# ///
"""A 16-bit model that quanto quantised must run again after its state dict was saved and loaded.

`requantize` makes the layers of a new model quantised and loads the state dict into it, which
assigns quantised weights and copies all others: embeddings and norms keep the new model's fp32,
while the quantised weights are 16 bit. A model that is cast before is not affected.
"""

import os
import sys

import torch
from optimum.quanto import QuantizedModelForCausalLM as Quantized
from optimum.quanto import freeze, qint8, quantization_map, quantize, requantize
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "cast-first", "save-pretrained"}
CONFIG = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 99}
CONFIG |= {"num_attention_heads": 2, "num_key_value_heads": 2}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**CONFIG)).eval().to(dtype)
    if workaround == "save-pretrained":
        Quantized.quantize(model, weights=qint8).save_pretrained("quantised")
        loaded = Quantized.from_pretrained("quantised")
    else:
        quantize(model, weights=qint8)
        freeze(model)
        save_file({name: one.clone() for name, one in model.state_dict().items()}, "weights")
        loaded = LlamaForCausalLM(LlamaConfig(**CONFIG)).eval()
        loaded.to(dtype if workaround == "cast-first" else torch.float32)
        requantize(loaded, load_file("weights"), quantization_map(model), torch.device(device))
    ids = torch.arange(8, device=device)[None]
    logits = loaded(ids).logits
    assert logits.dtype == dtype, f"logits are {logits.dtype}"
    assert torch.allclose(logits, model.to(device)(ids).logits, atol=0.1), "other logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
