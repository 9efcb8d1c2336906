# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "A VBLoRA adapter in bf16 is merged with a change that is computed in bf16"
# reports = ["https://github.com/huggingface/peft/pull/3364"]
# kind = "policy"
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with a VBLoRA adapter that is kept in bf16 and merged on a CPU; adapters in fp32,
# the default, and those in fp16 cannot meet it."""
# trigger = ["cast", "adapter"]
# symptom = ["wrong-numbers"]
# environments = ["5.14.1+peft0.20.0"]
#
# [tool.repromatrix.workarounds]
# adapter-fp32 = "Leave autocast_adapter_dtype at its default, which keeps the adapter in fp32."
# merge-fp32 = "Cast the model to fp32 before the merge."
#
# [tool.repromatrix.snippets]
# adapter-fp32 = "model = get_peft_model(model, config, autocast_adapter_dtype=True)"
# merge-fp32 = "model.float()  # before the merge"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.20"]
# precisions = ["bf16"]
# devices = ["cpu"]
# raises = "AssertionError"
# match = "the change of the weight was rounded"
# where = "peft_vblora_delta_bf16:main"
# fixed-by = "https://github.com/huggingface/peft/pull/3364"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/3364"
# says = "Only adapters in fp16 were upcast before the product, those in bf16 were not."
# when = ["peft<0.20"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/3364"
# says = "With the change an adapter in bf16 is merged with a change computed in fp32."
# when = ["peft>=0.20"]
# precisions = ["bf16"]
# outcome = "passes"
# ///
"""The change that merging a VBLoRA adapter makes must be computed in fp32 on a CPU, in bf16 too.

Up to peft 0.19 it was for an adapter in fp16 and not for one in bf16: the mixture of vectors and
the product of the two matrices were rounded to bf16. `output_relative_error` is that of the
change of the weight, before it is added to it; the weight is rounded to 16 bit in every case.
"""

import os
import sys

import torch
from peft import VBLoRAConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
VECTORS = {"num_vectors": 60, "vector_length": 4, "topk": 2}
WORKAROUNDS = {"", "adapter-fp32", "merge-fp32"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    config = VBLoRAConfig(r=4, target_modules=["q_proj"], **VECTORS)
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround == "adapter-fp32")
    assert model(input_ids=torch.arange(8, device=device)[None]).logits.isfinite().all()
    layer = model.base_model.model.model.layers[0].self_attn.q_proj
    if workaround == "merge-fp32":
        model.float()
    found = layer.get_delta_weight("default").float()
    model.float()
    wanted = layer.get_delta_weight("default")
    measured["output_relative_error"] = ((found - wanted).norm() / wanted.norm()).item()
    assert measured["output_relative_error"] < 0.001, "the change of the weight was rounded"


if __name__ == "__main__":
    main(*sys.argv[1:])
