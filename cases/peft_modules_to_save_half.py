# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "modules_to_save of a 16-bit model stay in 16 bit: Attempting to unscale FP16 gradients"
# reports = [
#     "https://github.com/huggingface/peft/issues/341",
#     "https://github.com/huggingface/transformers/issues/23165",
#     "https://github.com/modelscope/ms-swift/issues/4352",
# ]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every fp16 model that is trained with a gradient scaler and an adapter with modules_to_save; bf16
# needs no scaler."""
# trigger = ["adapter", "autocast", "backward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-trainable = "Cast every parameter that requires a gradient to fp32 before training."
#
# [tool.repromatrix.snippets]
# cast-trainable = '''
# for parameter in trained:  # those that require a gradient
#     parameter.data = parameter.data.float()'''
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14"]
# precisions = ["fp16"]
# raises = "ValueError"
# match = "Attempting to unscale FP16 gradients"
# where = "peft_modules_to_save_half:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/issues/341"
# says = "Training in fp16 fails with modules_to_save, and only with it."
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""An adapter on a 16-bit model can be trained with a gradient scaler, whatever it saves whole.

peft casts the weights of an adapter to fp32, but leaves copies of whole modules, as a head that is
trained beside the adapter, in the dtype of the model; the scaler refuses their gradients.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "cast-trainable"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LlamaConfig(**SIZES, num_attention_heads=2, num_key_value_heads=2)
    base = AutoModelForCausalLM.from_config(config).to(device, dtype)
    lora = LoraConfig(target_modules=["q_proj"], modules_to_save=["lm_head"])
    model = get_peft_model(base, lora)
    trained = [one for one in model.parameters() if one.requires_grad]
    measured["trained_in_half"] = sum(one.dtype != torch.float32 for one in trained)
    if workaround == "cast-trainable":
        for one in trained:
            one.data = one.data.float()
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
