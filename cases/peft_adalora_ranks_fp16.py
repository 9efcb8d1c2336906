# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "AdaLoRA in fp16 prunes every rank: the importance of all of them rounds to zero"
# reports = []
# found-by = "measurement"
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every fp16 model with an AdaLoRA adapter in fp16, as with autocast_adapter_dtype=False or a cast \
# after it was added; an adapter in fp32 or bf16 keeps as many ranks as its config says."""
# trigger = ["cast", "adapter", "backward"]
# symptom = ["not-trained"]
#
# [tool.repromatrix.workarounds]
# fp32-adapter = "Leave autocast_adapter_dtype at its default, so that the adapter is in fp32."
#
# [tool.repromatrix.snippets]
# fp32-adapter = "model = get_peft_model(model, config, autocast_adapter_dtype=True)"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.14"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "AdaLoRA keeps no rank"
# where = "peft_adalora_ranks_fp16:main"
# ///
"""AdaLoRA must keep as many ranks as its config says, whatever dtype its factors have.

The importance of a rank is a product of averages of weight times gradient. In fp16 these products
round to zero, no rank is above the threshold, which is zero as well, and all are pruned.
"""

import os
import sys

import torch
from peft import AdaLoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
RANKS = {"init_r": 4, "target_r": 2, "tinit": 1, "tfinal": 2, "deltaT": 1, "total_step": 10}
TUNED = {"target_modules": ["q_proj", "v_proj"]}
WORKAROUNDS = {"", "fp32-adapter"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LlamaConfig(**SIZES, num_attention_heads=2, num_key_value_heads=2)
    base = LlamaForCausalLM(config).to(device, dtype)
    half_adapter = workaround != "fp32-adapter"
    tuned = AdaLoraConfig(**TUNED, **RANKS)
    model = get_peft_model(base, tuned, autocast_adapter_dtype=not half_adapter)
    ids = torch.randint(0, 99, (2, 8), device=device)
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    for step in range(4):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        model.base_model.update_and_allocate(step + 1)
        optimizer.zero_grad()
    pattern = model.peft_config["default"].rank_pattern
    measured["ranks_kept"] = sum(sum(ranks) for ranks in pattern.values())
    assert measured["ranks_kept"] > 0, "AdaLoRA keeps no rank"


if __name__ == "__main__":
    main(*sys.argv[1:])
