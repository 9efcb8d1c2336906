# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "A second PEFT adapter stays in 16 bit: Attempting to unscale FP16 gradients"
# reports = [
#     "https://github.com/huggingface/peft/pull/2893",
#     "https://github.com/huggingface/peft/issues/1090",
# ]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model to which add_adapter adds an adapter; the adapters of get_peft_model,
# from_pretrained and load_adapter are cast to fp32."""
# trigger = ["cast", "adapter", "autocast", "backward"]
# symptom = ["error", "wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# cast-adapter = "Cast every parameter of the second adapter to fp32 before training."
# load-adapter = "Save an adapter and load it under the second name with load_adapter."
#
# [tool.repromatrix.snippets]
# cast-adapter = '''
# for parameter in trained:  # those that require a gradient
#     parameter.data = parameter.data.float()'''
# load-adapter = '''
# model.save_pretrained(folder)
# model.load_adapter(folder, "second", is_trainable=True)'''
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14,<0.19"]
# precisions = ["fp16"]
# raises = "ValueError"
# match = "Attempting to unscale FP16 gradients"
# where = "peft_second_adapter_half:main"
# fixed-by = "https://github.com/huggingface/peft/pull/2893"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/2893"
# says = "With the change add_adapter casts the adapter by default."
# when = ["peft>=0.19"]
# precisions = ["fp16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/issues/1090"
# says = "An adapter that load_adapter adds to an fp16 model is fp16, and not fp32 as the first."
# precisions = ["fp16"]
# workaround = "load-adapter"
# outcome = "fails"
# ///
"""A second adapter on an fp16 model can be trained with a gradient scaler, as the first one can.

Up to peft 0.18 it could not: `get_peft_model` casts the first adapter to fp32, `add_adapter` left
those that followed in the dtype of the model, and the scaler refuses fp16 gradients. In bf16 no
scaler is needed; `second_in_half` counts the weights that train in 16 bit.
"""

import os
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "cast-adapter", "load-adapter"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    base = LlamaForCausalLM(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj"]))
    if workaround == "load-adapter":
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            model.load_adapter(folder, "second", is_trainable=True)
    else:
        model.add_adapter("second", LoraConfig(r=4, target_modules=["q_proj"]))
    model.set_adapter("second")
    trained = [one for one in model.parameters() if one.requires_grad]
    if workaround == "cast-adapter":
        for one in trained:
            one.data = one.data.float()
    measured["second_in_half"] = sum(one.dtype != torch.float32 for one in trained)
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
