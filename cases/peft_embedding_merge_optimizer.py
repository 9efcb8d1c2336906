# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "Merging and unmerging a 16-bit embedding LoRA detaches it from the optimizer"
# reports = []
# found-by = "measurement"
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with a 16-bit LoRA on an embedding, merged and unmerged on a CPU during training;
# adapters in fp32, the default, cannot meet it."""
# trigger = ["load", "cast", "adapter", "backward"]
# symptom = ["not-trained"]
# environments = ["5.14.1+peft0.20.0"]
#
# [tool.repromatrix.workarounds]
# adapter-fp32 = "Leave autocast_adapter_dtype at its default, which keeps the adapter in fp32."
# optimizer-after = "Create a new optimizer after every merge."
#
# [tool.repromatrix.snippets]
# adapter-fp32 = "model = get_peft_model(model, config, autocast_adapter_dtype=True)"
# optimizer-after = "optimizer = torch.optim.SGD(model.parameters(), lr=lr)  # after each merge"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.20"]
# precisions = ["bf16", "fp16"]
# devices = ["cpu"]
# raises = "AssertionError"
# match = "the optimizer no longer trains the embedding adapter"
# where = "peft_embedding_merge_optimizer:main"
# fixed-by = "https://github.com/huggingface/peft/pull/3396"
# ///
"""An optimizer must keep training a LoRA adapter that is merged and unmerged during training.

Up to peft 0.19 it silently stopped: on a CPU the product is computed in fp32, and the factors of
an embedding were then written back as new parameters, while the optimizer held the old ones.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "adapter-fp32", "optimizer-after"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    config = LoraConfig(r=4, target_modules=["embed_tokens"], init_lora_weights=False)
    model = get_peft_model(model, config, autocast_adapter_dtype=workaround == "adapter-fp32")
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
    model.merge_adapter()
    model.unmerge_adapter()
    if workaround == "optimizer-after":
        optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
    ids, losses = torch.arange(8, device=device)[None], []
    for _ in range(5):
        model.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    measured["loss_fall"] = 1 - losses[-1] / losses[0]
    assert measured["loss_fall"] > 0.01, "the optimizer no longer trains the embedding adapter"


if __name__ == "__main__":
    main(*sys.argv[1:])
