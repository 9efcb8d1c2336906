# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "A model of an fp16 checkpoint cannot be trained with a gradient scaler: it is loaded in fp16"
# reports = ["https://github.com/huggingface/transformers/issues/23165"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with a checkpoint in fp16 that is loaded without a dtype and trained in mixed precision \
# with a gradient scaler; bf16 needs no scaler."""
# trigger = ["load", "autocast", "backward"]
# symptom = ["error"]
# kind = "change"
#
# [tool.repromatrix.workarounds]
# load-fp32 = "Load the model with the dtype torch.float32."
# cast-trainable = "Cast every parameter that is trained to fp32 before the optimizer is made."
#
# [tool.repromatrix.snippets]
# load-fp32 = "model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.float32)"
# cast-trainable = '''
# for parameter in model.parameters():
#     parameter.data = parameter.data.float()'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5"]
# precisions = ["fp16"]
# raises = "ValueError"
# match = "Attempting to unscale FP16 gradients"
# where = "llama_scaler_default_dtype:main"
# note = "Until 4.57 this met those alone who loaded in fp16 on purpose; 5.0 does so by default."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/23165"
# says = "A model that was loaded in fp16 cannot be trained in mixed precision with fp16."
# when = ["transformers>=5"]
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""A model that is loaded as the library does by default can be trained with a gradient scaler.

The scaler wants weights in fp32, and autocast to compute in fp16. Until 4.57 `from_pretrained` gave
weights in fp32 unless it was told otherwise; since 5.0 it gives those of the checkpoint, and a
training script that had worked with a checkpoint in fp16 is refused at its first step.
"""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "load-fp32", "cast-trainable"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LlamaConfig(**SIZES, num_attention_heads=2, num_key_value_heads=2)
    AutoModelForCausalLM.from_config(config).to(dtype).save_pretrained("saved")
    options = {"torch_dtype": torch.float32} if workaround == "load-fp32" else {}
    model = AutoModelForCausalLM.from_pretrained("saved", **options).to(device).train()
    if workaround == "cast-trainable":
        for one in model.parameters():
            one.data = one.data.float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)
    ids = torch.randint(5, 90, (2, 8), device=device)
    with torch.autocast(device, dtype, enabled=dtype is not torch.float32):
        loss = model(input_ids=ids, labels=ids).loss
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    assert 0 < norm < float("inf"), "no gradient, or no finite one"


if __name__ == "__main__":
    main(*sys.argv[1:])
