# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LoRA on embeddings with inference_mode=True in a 16-bit model has trainable weights"
# reports = []
# found-by = "measurement"
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model with a frozen adapter in a ParameterDict, as LoRA on embeddings; fp32 models
# and adapters that are modules cannot meet it."""
# trigger = ["load", "cast", "adapter"]
# symptom = ["wrong-numbers"]
# environments = ["5.16.1+peft0.21.2"]
#
# [tool.repromatrix.workarounds]
# adapter-16bit = "Pass autocast_adapter_dtype=False, so that the adapter keeps the model's dtype."
# freeze-again = "Call requires_grad_(False) on the finished model."
#
# [tool.repromatrix.snippets]
# adapter-16bit = "model = get_peft_model(model, config, autocast_adapter_dtype=False)"
# freeze-again = "model.requires_grad_(requires_grad=False)"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.21.1"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "weights of a frozen adapter require gradients"
# where = "peft_frozen_adapter_trainable:main"
# note = "Since https://github.com/huggingface/peft/pull/3614 the cast makes new parameters."
# ///
"""An adapter created with inference_mode=True must have no weight that requires gradients.

Since peft 0.21.1 it has some: casting a 16-bit adapter to fp32 puts a new tensor into the
ParameterDict, which wraps it in a new parameter, trainable by default. One step of an optimizer
over all trainable weights then changes the logits by `logits_relative_error`. Adapters that are
modules, and fp32 models, are not affected.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "adapter-16bit", "freeze-again"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    config = LoraConfig(r=4, target_modules=["embed_tokens", "q_proj"], inference_mode=True)
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround != "adapter-16bit")
    if workaround == "freeze-again":
        model.requires_grad_(requires_grad=False)
    ids = torch.arange(8, device=device)[None]
    outputs = model(input_ids=ids, labels=ids)
    trainable, logits = [p for p in model.parameters() if p.requires_grad], outputs.logits
    if trainable:
        outputs.loss.backward()
        torch.optim.AdamW(trainable, lr=1e-3).step()
    off = model(input_ids=ids).logits.float() - logits.float()
    measured["logits_relative_error"] = (off.norm() / logits.float().norm()).item()
    measured["trainable_weights"] = len(trainable)
    assert measured["trainable_weights"] == 0, "weights of a frozen adapter require gradients"
    assert not logits.requires_grad, "the logits of a frozen model carry a graph"


if __name__ == "__main__":
    main(*sys.argv[1:])
