# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "add_adapter of an fp16 transformers model: Attempting to unscale FP16 gradients"
# reports = ["https://github.com/huggingface/transformers/issues/30559"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every fp16 model that is trained with a gradient scaler and an adapter of its own method
# add_adapter; get_peft_model casts the adapter to fp32, and bf16 needs no scaler."""
# trigger = ["cast", "adapter", "autocast", "backward"]
# symptom = ["error", "wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# cast-trainable = "Cast every parameter that requires a gradient to fp32 before training."
# get-peft-model = "Adapt the model with get_peft_model of peft instead."
#
# [tool.repromatrix.snippets]
# cast-trainable = '''
# for parameter in trained:  # those that require a gradient
#     parameter.data = parameter.data.float()'''
# get-peft-model = "model = get_peft_model(model, config)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49"]
# precisions = ["fp16"]
# raises = "ValueError"
# match = "Attempting to unscale FP16 gradients"
# where = "transformers_add_adapter_half:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/30559"
# says = "Training in fp16 with an adapter of add_adapter fails when gradients are unscaled."
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""A model to which its method add_adapter added an adapter can be trained with a gradient scaler.

An fp16 model cannot: `add_adapter` of transformers leaves the adapter in the dtype of the model,
where `get_peft_model` casts it to fp32, and the scaler refuses fp16 gradients. In bf16 no scaler
is needed; `trained_in_half` counts the weights that train in 16 bit.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "cast-trainable", "get-peft-model"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    config = LoraConfig(r=4, target_modules=["q_proj"])
    if workaround == "get-peft-model":
        model = get_peft_model(model, config)
    else:
        model.add_adapter(config)
    trained = [one for one in model.parameters() if one.requires_grad]
    if workaround == "cast-trainable":
        for one in trained:
            one.data = one.data.float()
    measured["trained_in_half"] = sum(one.dtype != torch.float32 for one in trained)
    optimizer = torch.optim.SGD(trained, lr=0.1)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)
    ids = torch.randint(0, 99, (2, 8), device=device)
    with torch.autocast(device, dtype, enabled=dtype is not torch.float32):
        loss = model(input_ids=ids, labels=ids).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


if __name__ == "__main__":
    main(*sys.argv[1:])
